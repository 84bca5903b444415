"""TFLite's complex numbers, against LiteRT and by C."""

from __future__ import annotations

from tflite_cases import Case, In, Out, ints, litert_tests


def complex_numbers() -> list[Case]:
    made = []
    for kind in ("REAL", "IMAG", "COMPLEX_ABS"):
        for length in (4, 8):
            out = (2, length // 2, length // 2 + 1)
            made.append(
                Case(
                    "RFFT2D",
                    [In((2, 3, 5)), ints(length // 2, length)],
                    [Out(out, "complex64")],
                    then=(kind, Out(out)),
                    near=1e-6,
                )
            )
    return made


CASES = complex_numbers()
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)

"""TFLite's element-wise operators of several rows, and sums along an axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite_cases import Case, In, Out, check, check_by_c, const, ints, litert_tests


def elements() -> list[Case]:
    made = []
    for dtype in ("float32",):
        made.append(Case("RELU_0_TO_1", [In((3, 4), dtype)], [Out((3, 4), dtype)]))
        made.append(Case("ATAN2", [In((3, 40)), In((3, 40))], [Out((3, 40))], near=3e-7))
    made.append(
        Case(
            "ATAN2",
            [
                const([0, 0, -0.0, -0.0, 1, -1, 0, -0.0, np.inf, np.inf, -np.inf, np.nan, 2]),
                In(
                    (13,),
                    values=np.array(
                        [1, -1, 1, -1, 0, -0.0, -0.0, -0.0, np.inf, -np.inf, 1, 1, np.nan],
                        np.float32,
                    ),
                ),
            ],
            [Out((13,))],
            near=3e-7,
        )
    )
    for kind in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM"):  # without their tables of options
        made.append(Case(kind, [In((3, 4)), const(2.5)], [Out((3, 4))]))
    # Quotients by 0 are the largest numbers there are, and 0 / 0 is none.
    above = In((7,), values=np.array([1, -1, 0, 3e38, np.inf, -np.inf, np.nan], np.float32))
    below = In((7,), values=np.array([0, 0, 0, 1e-10, 1, 1, 1], np.float32))
    for activation in (0, 1, 3):
        made.append(Case("DIV", [above, below], [Out((7,))], "DivOptions",
                         {"FusedActivationFunction": activation}))  # fmt: skip
    made.append(Case("GATHER", [In((3, 4)), ints(2, 0)], [Out((2, 4))]))
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        amount = In((3, 4), dtype, 0 if dtype[0] == "u" else -3, 40)
        made.append(
            Case(
                "RIGHT_SHIFT",
                [In((3, 4), dtype, -(1 << 30), (1 << 30)), amount],
                [Out((3, 4), dtype)],
                "RightShiftOptions",
            )
        )
    for dtype, shape, to, out in (
        ("float32", (2, 3), "int32", (2, 3)),
        ("int8", (2, 3), "uint8", (2, 3)),
        ("int64", (3,), "float64", (3,)),
        ("float32", (2, 3), "uint8", (2, 3, 4)),
        ("int64", (2,), "int16", (2, 4)),
        ("uint8", (2, 3, 4), "int32", (2, 3)),
        ("uint16", (3, 2), "float32", (3,)),
        ("int16", (3, 4), "float64", (3,)),
    ):
        made.append(Case("BITCAST", [In(shape, dtype)], [Out(out, to)]))
    for bits in (4, 8):
        made.append(
            Case(
                "FAKE_QUANT",
                [In((3, 40))],
                [Out((3, 40))],
                "FakeQuantOptions",
                {"Min": -1.3, "Max": 1.7, "NumBits": bits},
                near=1e-7,
            )
        )
    for dtype in ("float32", "int32", "int64"):
        for axis in (0, -1):
            for flags in range(4):
                made.append(
                    Case(
                        "CUMSUM",
                        [In((3, 4, 2), dtype), ints(axis)],
                        [Out((3, 4, 2), dtype)],
                        "CumsumOptions",
                        {"Exclusive": bool(flags & 1), "Reverse": bool(flags & 2)},
                        near=2e-7,
                    )
                )
    for dtype in ("float32", "int16", "int32", "int64", "uint8"):
        for seq, batch, shape, kind in ((1, 0, (2, 4, 3), "int32"), (0, 2, (4, 3, 2), "int64")):
            made.append(
                Case(
                    "REVERSE_SEQUENCE",
                    [In(shape, dtype), In((2,), kind, 1, 4)],
                    [Out(shape, dtype)],
                    "ReverseSequenceOptions",
                    {"SeqDim": seq, "BatchDim": batch},
                )
            )
    return made


CASES = elements()
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)


def test_floats_of_16_bits(tmp_path: Path) -> None:
    """Operators that know none compute in float32, as LiteRT's do, and round at the end."""
    x = In((2, 3, 4), "float16")
    cases = [Case(kind, [x] * count, [Out((2, 3, 4), "float16")], options, near=near)
             for kind, count, options, near in (
                 ("ADD", 2, "AddOptions", 0), ("MUL", 2, "MulOptions", 0), ("FLOOR", 1, "", 0),
                 ("MAXIMUM", 2, "MaximumMinimumOptions", 0), ("NEG", 1, "", 0),
                 ("ATAN2", 2, "", 1e-3), ("TANH", 1, "", 1e-3), ("STABLEHLO_ADD", 2, "", 0),
             )]  # fmt: skip
    check(cases, "litert", tmp_path)
    check_by_c(cases[:2], "litert", tmp_path)

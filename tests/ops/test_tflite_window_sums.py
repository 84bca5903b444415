"""REDUCE_WINDOW, DILATE and pads of TFLite, against LiteRT and by C."""

from __future__ import annotations

import numpy as np
from tflite_cases import Case, In, Out, const, ints, litert_tests


def window_sums() -> list[Case]:
    made = []
    long = lambda *v: const(v, "int64")  # noqa: E731
    for dtype in (
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "bool",
    ):
        functions: tuple[int, ...] = () if dtype in ("uint16", "uint32") else (1, 2, 3, 4)
        functions += (5, 6) if dtype == "bool" else ()
        for function in functions:
            made.append(
                Case(
                    "REDUCE_WINDOW",
                    [In((6, 6), dtype), const(2, dtype), long(2, 3), long(2, 1), long(2, 1)],
                    [Out((2, 4), dtype)],
                    "ReduceWindowOptions",
                    {"ReduceFunction": function},
                    near=1e-6,
                )
            )
        made.append(
            Case(
                "DILATE",
                [In((2, 3), dtype), ints(2, 3), const(7, dtype)],
                [Out((3, 7), dtype)],
                "DilateOptions",
            )
        )
        made.append(
            Case(
                "STABLEHLO_PAD",
                [In((3, 4), dtype), const(5, dtype)],
                [Out((6, 6), dtype)],
                "StablehloPadOptions",
                {
                    f"{k}Padding{e}" if k == "Edge" else "InteriorPadding": np.array(v, np.int64)
                    for k, e, v in (
                        ("Edge", "Low", [2, -1]),
                        ("Edge", "High", [-1, 0]),
                        ("Interior", "", [1, 1]),
                    )
                },
            )
        )
    for dtype in ("float32", "int32"):
        for body in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
            made.append(
                Case(
                    "STABLEHLO_REDUCE_WINDOW",
                    [In((4, 5), dtype, -3, 3), const(1, dtype)],
                    [Out((4, 2), dtype)],
                    "StablehloReduceWindowOptions",
                    {
                        k: np.array(v, np.int64)
                        for k, v in {
                            "WindowDimensions": [2, 3],
                            "WindowStrides": [2, 2],
                            "BaseDilations": [2, 1],
                            "WindowDilations": [1, 1],
                            "Padding": [1, 1, 0, 0],
                        }.items()
                    }
                    | {"BodySubgraphIndex": 0},
                    near=1e-6,
                    body=f"STABLEHLO_{body}",
                )
            )
    return made


CASES = window_sums()
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)

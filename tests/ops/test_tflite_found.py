"""TFLite operators whose results data decide, against LiteRT and by C."""

from __future__ import annotations

import numpy as np
from tflite_cases import Case, In, Out, const, ints, litert_tests, rng


def boxes(count: int) -> In:
    corners = rng.uniform(0, 1, (count, 2)).astype(np.float32)
    sizes = rng.uniform(0.1, 0.5, (count, 2)).astype(np.float32)
    return In((count, 4), values=np.concatenate([corners, corners + sizes], 1))


def found() -> list[Case]:
    made = []
    for dtype in ("bool", "float32", "int32", "int64", "int8", "uint8", "uint32"):
        places = Out((1, 2), "int64", signature=(-1, 2))
        made.append(Case("WHERE", [In((3, 4), dtype, 0, 1)], [places]))
    for dtype in ("float32", "int32", "int64", "int8", "int16", "uint8"):
        for number, index in enumerate(("int32", "int64")):
            values = np.resize(np.array([5, 1, 5, 2, 1, 7, 2], dtype), 7)
            made.append(Case("UNIQUE", [In((7,), dtype, values=values)],
                             [Out((1,), dtype, signature=(-1,)), Out((7,), index)],
                             "UniqueOptions", {"IdxOutType": (2, 4)[number]}))  # fmt: skip
    for count, most in ((8, 5), (4, 6)):
        operands = [boxes(count), In((count,), low=0, high=1), ints(most), const(0.3), const(0.2)]
        made.append(Case("NON_MAX_SUPPRESSION_V4", operands, [Out((most,), "int32"),
                                                              Out((), "int32")]))  # fmt: skip
        made.append(Case("NON_MAX_SUPPRESSION_V5", [*operands, const(0.0)],
                         [Out((most,), "int32"), Out((most,)), Out((), "int32")]))  # fmt: skip
        made.append(Case("NON_MAX_SUPPRESSION_V5",
                         [*operands[:3], const(0.6), const(0.1), const(0.5)],
                         [Out((most,), "int32"), Out((most,)), Out((), "int32")],
                         near=1e-6))  # fmt: skip
    return made


CASES = found()
test_as_litert, test_by_c, _ = litert_tests(CASES)

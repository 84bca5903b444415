"""TFLite's gathers, scatters, marks and segments, against LiteRT and by C."""

from __future__ import annotations

import numpy as np
from tflite_cases import Case, In, Out, const, index, ints, litert_tests, rng


def places() -> list[Case]:
    made = []
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "int16", "bool"):
        data, whole = In((4, 3, 2), dtype), Out((5, 2), dtype)
        made.append(
            Case(
                "GATHER_ND",
                [data, const([[0, 2], [3, 1], [1, 1], [0, 0], [2, 2]], "int32")],
                [whole],
            )
        )
    for dtype in ("int32", "int64"):
        made.append(Case("GATHER_ND", [In((4, 3)), index((2, 3, 1), 4, dtype)], [Out((2, 3, 3))]))
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "bool"):
        made.append(
            Case(
                "SCATTER_ND",
                [index((6, 1), 5), In((6, 3), dtype), ints(5, 3)],
                [Out((5, 3), dtype)],
            )
        )
    made.append(Case("SCATTER_ND", [index((4, 2), 3), In((4,)), ints(3, 3)], [Out((3, 3))]))
    for dtype in ("float32", "int32", "int64", "int8", "uint8"):
        made.append(
            Case(
                "SPARSE_TO_DENSE",
                [const([1, 3, 4], "int32"), ints([6]), In((3,), dtype), const(7, dtype)],
                [Out((6,), dtype)],
                "SparseToDenseOptions",
            )
        )
    made.append(
        Case(
            "SPARSE_TO_DENSE",
            [const([[0, 1], [2, 2]], "int64"), const([3, 4], "int64"), const(2.5), const(-1.5)],
            [Out((3, 4))],
            "SparseToDenseOptions",
        )
    )
    for dtype in ("float32", "int32", "int64", "int8", "uint8", "bool"):
        on, off = (const(v, dtype) for v in (1, 0))
        made.append(
            Case(
                "ONE_HOT",
                [index((2, 3), 5, low=-1), ints(4), on, off],
                [Out((2, 3, 4), dtype)],
                "OneHotOptions",
                {"Axis": -1},
            )
        )
    made.append(
        Case(
            "ONE_HOT",
            [index((2, 3), 5, "int64"), ints(4), In((1,)), In((1,))],
            [Out((2, 4, 3))],
            "OneHotOptions",
            {"Axis": 1},
        )
    )
    for dtype in ("float32", "int16", "int32", "int64", "int8", "uint8"):
        made.append(Case("MATRIX_DIAG", [In((2, 3), dtype)], [Out((2, 3, 3), dtype)]))
        made.append(
            Case(
                "MATRIX_SET_DIAG",
                [In((2, 3, 4), dtype), In((2, 3), dtype)],
                [Out((2, 3, 4), dtype)],
            )
        )
    made.append(Case("MATRIX_SET_DIAG", [In((4, 3)), In((3,))], [Out((4, 3))]))
    table = rng.integers(-127, 128, (6, 3, 2)).astype(np.int8)
    for dtype in ("float32", "uint8"):
        made.append(
            Case(
                "EMBEDDING_LOOKUP", [index((4,), 6), In((6, 3, 2), dtype)], [Out((4, 3, 2), dtype)]
            )
        )
    made.append(
        Case(
            "EMBEDDING_LOOKUP", [index((4,), 6), const(table, "int8", scale=0.03)], [Out((4, 3, 2))]
        )
    )
    made.append(
        Case(
            "EMBEDDING_LOOKUP",
            [
                index((4,), 6),
                const(table, "int8", scale=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], zero_point=[0] * 6),
            ],
            [Out((4, 3, 2))],
        )
    )
    for combiner in range(3):
        made.append(
            Case(
                "EMBEDDING_LOOKUP_SPARSE",
                [
                    index((4,), 6),
                    const([[0, 0], [0, 1], [2, 0], [2, 1]], "int32"),
                    ints(3, 2),
                    In((4,), low=0.1),
                    In((6, 5)),
                ],
                [Out((3, 5))],
                "EmbeddingLookupSparseOptions",
                {"Combiner": combiner},
                near=3e-7,
            )
        )
    for dtype in ("float32", "int32", "int8"):
        for axis, out in ((1, (2, 4, 5)), (2, (2, 3, 4))):
            made.append(Case("GATHER", [In((2, 3, 5), dtype), index((2, 4), 3)], [Out(out, dtype)],
                             "GatherOptions", {"Axis": axis, "BatchDims": 1}))  # fmt: skip
    return made


def segments() -> list[Case]:
    made = []
    for dtype in ("float32", "int32"):
        made.append(
            Case("SEGMENT_SUM", [In((5, 2), dtype), ints(0, 0, 1, 2, 2)], [Out((3, 2), dtype)])
        )
        for kind in ("SUM", "PROD", "MAX", "MIN"):
            made.append(
                Case(
                    f"UNSORTED_SEGMENT_{kind}",
                    [In((6, 2), dtype, -3, 3), index((6,), 4, low=-1), ints(4)],
                    [Out((4, 2), dtype)],
                )
            )
    for dtype in ("float32", "float64", "int32", "int64"):
        made.append(
            Case(
                "BUCKETIZE",
                [In((3, 4), dtype, -5, 5)],
                [Out((3, 4), "int32")],
                "BucketizeOptions",
                {"Boundaries": np.array([-2.5, 0, 1, 3], np.float32)},
            )
        )
    return made


CASES = [*places(), *segments()]
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)

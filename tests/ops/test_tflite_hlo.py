"""TFLite's STABLEHLO operators, against LiteRT and by C."""

from __future__ import annotations

import numpy as np
from flatbuffers import flexbuffers
from tflite_cases import Case, In, Out, const, index, litert_tests


def hlo() -> list[Case]:
    made = []
    ints8, ints64 = (lambda *v: np.array(v, np.int64)), "int64"
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
        "uint64",
    ):
        x = In((3, 4, 2), dtype)
        made.append(
            Case(
                "STABLEHLO_GATHER",
                [x, In((2, 3, 2), "int32", 0, 5)],
                [Out((2, 3, 2, 2), dtype)],
                "StablehloGatherOptions",
                {
                    "OffsetDims": ints8(2, 3),
                    "CollapsedSliceDims": ints8(0),
                    "StartIndexMap": ints8(1, 0),
                    "SliceSizes": ints8(1, 2, 2),
                    "IndexVectorDim": 2,
                },
            )
        )
        for body in (
            "",
            "STABLEHLO_ADD",
            "STABLEHLO_MAXIMUM",
            "STABLEHLO_MULTIPLY",
            "STABLEHLO_MINIMUM",
        ):
            if body and dtype not in ("float32", "int32"):
                continue
            made.append(
                Case(
                    "STABLEHLO_SCATTER",
                    [x, In((2, 3, 2), "int64", 0, 4), In((2, 3, 2, 2), dtype)],
                    [Out((3, 4, 2), dtype)],
                    "StablehloScatterOptions",
                    {
                        "UpdateWindowDims": ints8(2, 3),
                        "InsertedWindowDims": ints8(0),
                        "ScatterDimsToOperandDims": ints8(1, 0),
                        "IndexVectorDim": 2,
                        "UpdateComputationSubgraphIndex": 0,
                    },
                    body=body,
                )
            )
    made.append(
        Case(
            "STABLEHLO_GATHER",
            [In((5, 3)), index((4,), 5, ints64)],
            [Out((4, 3))],
            "StablehloGatherOptions",
            {
                "OffsetDims": ints8(1),
                "CollapsedSliceDims": ints8(0),
                "StartIndexMap": ints8(0),
                "SliceSizes": ints8(1, 3),
                "IndexVectorDim": 1,
            },
        )
    )
    made.append(
        Case(
            "STABLEHLO_GATHER",
            [In((5, 6)), const([[4, 1], [0, 9]], "int32")],
            [Out((3, 2, 2))],
            "StablehloGatherOptions",
            {
                "OffsetDims": ints8(0, 2),
                "StartIndexMap": ints8(0, 1),
                "SliceSizes": ints8(3, 2),
                "IndexVectorDim": 1,
            },
        )
    )
    made.append(
        Case(
            "STABLEHLO_SCATTER",
            [In((5, 3)), index((4, 1), 6), In((4, 3))],
            [Out((5, 3))],
            "StablehloScatterOptions",
            {
                "UpdateWindowDims": ints8(1),
                "InsertedWindowDims": ints8(0),
                "ScatterDimsToOperandDims": ints8(0),
                "IndexVectorDim": 1,
                "UpdateComputationSubgraphIndex": 0,
            },
            body="STABLEHLO_ADD",
        )
    )
    for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8"):
        made.append(Case("STABLEHLO_AND", [In((3, 4), dtype)] * 2, [Out((3, 4), dtype)]))
    for dtype in ("int8", "int16", "int32"):
        made.append(
            Case(
                "STABLEHLO_SHIFT_LEFT",
                [In((3, 4), dtype), In((3, 4), dtype, 0, 7)],
                [Out((3, 4), dtype)],
                "StablehloShiftLeftOptions",
            )
        )
    made.append(
        Case(
            "STABLEHLO_COMPOSITE",
            [In((2, 3)), In((2, 3))],
            [Out((2, 3))],
            "StableHLOCompositeOptions",
            {
                "DecompositionSubgraphIndex": 0,
                "Name": "sum",
                "CompositeAttributes": np.frombuffer(flexbuffers.Dumps({"axis": 1}), np.uint8),
            },
            body="STABLEHLO_ADD",
        )
    )
    return made


CASES = hlo()
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)

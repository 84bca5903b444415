"""A case of each TFLite operator that no table of the tests has, for the sweep over dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from tflite_cases import Case, In, Out, const, ints

SHAPE = (2, 3, 4)
IMAGE = (1, 4, 4, 4)


def simple_cases() -> list[Case]:
    """Operators of one and of two operands, reductions, and those that move elements."""
    return [*_elements(), *_reductions(), *_moves(), *_images()]


def _elements() -> Iterator[Case]:
    x = In(SHAPE)
    for kind in ("CEIL", "COS", "FLOOR", "NEG", "ROUND", "SIGN", "SIN", "SQRT", "SQUARE",
                 "ZEROS_LIKE"):  # fmt: skip
        yield Case(kind, [In(SHAPE, low=0)], [Out(SHAPE)])
    for kind, options in (("FLOOR_DIV", ""), ("FLOOR_MOD", ""), ("MINIMUM", ""),
                          ("STABLEHLO_ADD", ""), ("STABLEHLO_MULTIPLY", ""),
                          ("STABLEHLO_MAXIMUM", ""), ("STABLEHLO_MINIMUM", "")):  # fmt: skip
        yield Case(kind, [x, In(SHAPE, low=1)], [Out(SHAPE)], options)
    yield Case("BITWISE_XOR", [In(SHAPE, "int8"), In(SHAPE, "int8")], [Out(SHAPE, "int8")])
    truth = In(SHAPE, "bool")
    yield Case("LOGICAL_NOT", [truth], [Out(SHAPE, "bool")])
    for kind in ("LOGICAL_AND", "LOGICAL_OR"):
        yield Case(kind, [truth, truth], [Out(SHAPE, "bool")])
    yield Case("SELECT", [truth, x, x], [Out(SHAPE)])


def _reductions() -> Iterator[Case]:
    for kind, dtype in (("REDUCE_ALL", "bool"), ("REDUCE_ANY", "bool"), ("REDUCE_MIN", "float32"),
                        ("REDUCE_PROD", "float32")):  # fmt: skip
        yield Case(kind, [In(SHAPE, dtype), ints(1, 2)], [Out((2,), dtype)], "ReducerOptions")
    yield Case("ARG_MIN", [In(SHAPE), ints(1)], [Out((2, 4), "int32")], "ArgMinOptions",
               {"OutputType": 2})  # fmt: skip
    yield Case("BATCH_MATMUL", [In((2, 3, 4)), In((2, 4, 5))], [Out((2, 3, 5))],
               "BatchMatMulOptions")  # fmt: skip


def _moves() -> Iterator[Case]:
    x = In(SHAPE)
    yield Case("BROADCAST_TO", [In((3, 1)), ints(2, 3, 4)], [Out(SHAPE)])
    yield Case("DYNAMIC_UPDATE_SLICE", [x, In((1, 2, 2)), ints(1, 0, 1)], [Out(SHAPE)])
    yield Case("EXPAND_DIMS", [x, ints(1)], [Out((2, 1, 3, 4))])
    yield Case("FILL", [ints(2, 3), In(())], [Out((2, 3))])
    pads = const([[1, 0], [0, 1], [1, 1]], "int32")
    yield Case("MIRROR_PAD", [x, pads], [Out((3, 4, 6))], "MirrorPadOptions")
    yield Case("PADV2", [x, pads, const(1.0)], [Out((3, 4, 6))])
    yield Case("REVERSE_V2", [x, const([1], "int32")], [Out(SHAPE)])
    yield Case("SHAPE", [x], [Out((3,), "int32")], "ShapeOptions", {"OutType": 2})
    yield Case("SPLIT_V", [x, ints(1, 3), ints(2)], [Out((2, 3, 1)), Out((2, 3, 3))],
               "SplitVOptions", {"NumSplits": 2})  # fmt: skip
    yield Case("SQUEEZE", [In((2, 1, 3))], [Out((2, 3))], "SqueezeOptions")
    yield Case("TILE", [x, ints(1, 2, 1)], [Out((2, 6, 4))])
    yield Case("UNPACK", [x], [Out((3, 4))] * 2, "UnpackOptions", {"Num": 2})


def _images() -> Iterator[Case]:
    x, blocks = In(IMAGE), ints(2, 2)
    none = const([[0, 0], [0, 0]], "int32")
    yield Case("DEPTH_TO_SPACE", [x], [Out((1, 8, 8, 1))], "DepthToSpaceOptions",
               {"BlockSize": 2})  # fmt: skip
    yield Case("SPACE_TO_BATCH_ND", [x, blocks, none], [Out((4, 2, 2, 4))])
    yield Case("BATCH_TO_SPACE_ND", [In((4, 2, 2, 4)), blocks, none], [Out(IMAGE)])

"""TFLite's old quantized models: values and weights of uint8, in the bits of LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite_cases import Case, In, Out, check, check_by_c, const, ints, model_of, rng

from edgec.frontends import import_model

A = {"scale": 0.05, "zero_point": 121}
B = {"scale": 0.031, "zero_point": 140}
#: About as large as sums of products.
C = {"scale": 0.9, "zero_point": 117}
IMAGE = (1, 7, 6, 5)


def bytes_(*shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


def biases(count: int) -> In:
    return const(rng.integers(-3000, 3000, count), "int32", scale=A["scale"] * 0.02)


def weights(*shape: int, zero_point: int = 131) -> In:
    return const(bytes_(*shape), "uint8", scale=0.02, zero_point=zero_point)


def products() -> list[Case]:
    x, made = In(IMAGE, "uint8", **A), []
    for padding in (0, 1):
        out = (7, 6) if padding == 0 else (5, 4)
        window = {"Padding": padding, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1}
        made += [
            Case("CONV_2D", [x, weights(4, 3, 3, 5), biases(4)],
                 [Out((1, *out, 4), "uint8", **C)], "Conv2DOptions", window),
            Case("DEPTHWISE_CONV_2D", [x, weights(1, 3, 3, 10), biases(10)],
                 [Out((1, *out, 10), "uint8", **C)], "DepthwiseConv2DOptions",
                 {**window, "DepthMultiplier": 2}),
        ]  # fmt: skip
    near = const(100 + bytes_(4, 12) % 50, "uint8", scale=0.02, zero_point=128)
    for matrix in (weights(4, 12), near):
        made.append(Case("FULLY_CONNECTED", [In((3, 12), "uint8", **A), matrix, biases(4)],
                         [Out((3, 4), "uint8", **C)], "FullyConnectedOptions"))  # fmt: skip
    shape, small = (1, 9, 8, 4), In((1, 4, 3, 5), "uint8", **A)
    made.append(Case("TRANSPOSE_CONV", [ints(*shape), weights(4, 3, 3, 5), small],
                     [Out(shape, "uint8", **C)], "TransposeConvOptions",
                     {"Padding": 1, "StrideH": 2, "StrideW": 2}))  # fmt: skip
    return made


def others() -> list[Case]:
    a, b = In((3, 20), "uint8", **A), In((3, 20), "uint8", **B)
    image = In(IMAGE, "uint8", **A)
    out, same = [Out((3, 20), "uint8", **C)], [Out((3, 20), "uint8", **A)]
    window = {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}
    pooled = [Out((1, 3, 3, 5), "uint8", **A)]
    near = {"scale": 1 / 256, "zero_point": 0}
    made = [
        Case("ADD", [a, b], out, "AddOptions", {"FusedActivationFunction": 1}),
        Case("SUB", [a, b], out, "SubOptions"),
        Case("MUL", [a, b], out, "MulOptions"),
        Case("AVERAGE_POOL_2D", [image], pooled, "Pool2DOptions", window),
        Case("MAX_POOL_2D", [image], pooled, "Pool2DOptions", window),
        Case("SOFTMAX", [a], [Out((3, 20), "uint8", **near)], "SoftmaxOptions", {"Beta": 1.0}),
        Case("LOGISTIC", [a], [Out((3, 20), "uint8", **near)]),
        Case("TANH", [a], [Out((3, 20), "uint8", scale=1 / 128, zero_point=128)]),
        Case("RELU", [a], [Out((3, 20), "uint8", **B)]),
        Case("RELU6", [a], same),
        Case("LEAKY_RELU", [a], [Out((3, 20), "uint8", **B)], "LeakyReluOptions", {"Alpha": 0.1}),
        Case("HARD_SWISH", [a], [Out((3, 20), "uint8", **B)]),
        Case("PRELU", [a, const(bytes_(20), "uint8", **B)], [Out((3, 20), "uint8", **C)]),
        Case("MAXIMUM", [a, a], same, "MaximumMinimumOptions"),
        Case("MEAN", [image, ints(1, 2)], [Out((1, 5), "uint8", **A)], "ReducerOptions"),
        Case("MEAN", [image, ints(1, 2)], [Out((1, 5), "uint8", **B)], "ReducerOptions"),
        Case("SUM", [image, ints(1, 2)], [Out((1, 5), "uint8", **C)], "ReducerOptions"),
        Case("REDUCE_MAX", [a, const([1], "int32")], [Out((3,), "uint8", **A)], "ReducerOptions"),
        Case("CONCATENATION", [a, b], [Out((6, 20), "uint8", **A)], "ConcatenationOptions"),
        Case("PAD", [a, const([[1, 1], [0, 2]], "int32")], [Out((5, 22), "uint8", **A)]),
        Case("RESHAPE", [a, ints(4, 15)], [Out((4, 15), "uint8", **A)]),
        Case("STRIDED_SLICE", [a, ints(0, 1), ints(3, 15), ints(1, 2)],
             [Out((3, 7), "uint8", **A)], "StridedSliceOptions"),
        Case("GATHER", [a, ints(2, 0)], [Out((2, 20), "uint8", **A)], "GatherOptions"),
        Case("RESIZE_BILINEAR", [image, ints(14, 12)], [Out((1, 14, 12, 5), "uint8", **A)],
             "ResizeBilinearOptions"),
        Case("RESIZE_NEAREST_NEIGHBOR", [image, ints(14, 12)],
             [Out((1, 14, 12, 5), "uint8", **A)], "ResizeNearestNeighborOptions"),
        Case("TRANSPOSE", [a, ints(1, 0)], [Out((20, 3), "uint8", **A)]),
        Case("SPACE_TO_DEPTH", [In((1, 4, 4, 3), "uint8", **A)], [Out((1, 2, 2, 12), "uint8", **A)],
             "SpaceToDepthOptions", {"BlockSize": 2}),
        Case("ARG_MAX", [a, ints(1)], [Out((3,), "int32")], "ArgMaxOptions", {"OutputType": 2}),
        Case("EQUAL", [a, b], [Out((3, 20), "bool")]),
        Case("LESS", [a, b], [Out((3, 20), "bool")]),
        Case("DEQUANTIZE", [a], [Out((3, 20))]),
        Case("QUANTIZE", [In((3, 20))], out),
        Case("QUANTIZE", [a], [Out((3, 20), "int8", scale=0.04, zero_point=3)]),
        Case("CAST", [a], [Out((3, 20))], "CastOptions"),
        Case("L2_NORMALIZATION", [a], [Out((3, 20), "uint8", scale=1 / 128, zero_point=128)],
             "L2NormOptions"),
        Case("LOG_SOFTMAX", [a], [Out((3, 20), "uint8", scale=16 / 256, zero_point=255)]),
        Case("DIV", [In((3, 20), "uint8", 180, 255, **A), In((3, 20), "uint8", 160, 255, **B)],
             out, "DivOptions"),
        Case("TOPK_V2", [a, ints(4)], [Out((3, 4), "uint8", **A), Out((3, 4), "int32")]),
        Case("WHERE", [In((3, 4), "uint8", 0, 1, **A)],
             [Out((1, 2), "int64", signature=(-1, 2))]),
        Case("UNIQUE", [In((9,), "uint8", 3, 6, **A)],
             [Out((1,), "uint8", signature=(-1,), **A), Out((9,), "int32")], "UniqueOptions",
             {"IdxOutType": 2}),
        Case("SCATTER_ND", [const([[1], [3]], "int32"), In((2, 4), "uint8", **A), ints(5, 4)],
             [Out((5, 4), "uint8", **A)]),
        Case("SPLIT", [ints(1), a], [Out((3, 10), "uint8", **A)] * 2, "SplitOptions",
             {"NumSplits": 2}),
        Case("SLICE", [a, ints(1, 2), ints(2, 9)], [Out((2, 9), "uint8", **A)]),
        Case("PACK", [a, a], [Out((2, 3, 20), "uint8", **A)], "PackOptions", {"ValuesCount": 2}),
    ]  # fmt: skip
    return made


PRODUCTS, OTHERS = products(), others()


def test_as_litert(tmp_path: Path) -> None:
    check([*PRODUCTS, *OTHERS], "litert", tmp_path)


def test_by_c(tmp_path: Path) -> None:
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "LOG_SOFTMAX")
    cases = {case.kind: case for case in (*PRODUCTS, *OTHERS)}
    check_by_c([cases[kind] for kind in kinds], "litert", tmp_path)


def test_what_stays_as_it_is(tmp_path: Path) -> None:
    """Inputs and outputs have the file's types; between them there is no uint8."""
    x = In((1, 12), "uint8", **A)
    (tmp_path / "m.tflite").write_bytes(model_of([
        Case("FULLY_CONNECTED", [x, weights(4, 12), biases(4)], [Out((1, 4), "uint8", **C)],
             "FullyConnectedOptions"),
    ]))  # fmt: skip
    main = import_model(tmp_path / "m.tflite").main
    assert [value.type.dtype for value in (*main.params, *main.results)] == ["uint8"] * 2
    inner = [value for node in main.nodes for value in node.outputs if value not in main.results]
    assert not any(value.type.dtype == "uint8" for value in inner)
    assert main.results[0].origin is not None and not main.results[0].origin.is_moved

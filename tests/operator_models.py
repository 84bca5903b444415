"""Small models that together use every family of operators, for checks of the C that is emitted.

`MODELS` maps a name to a function that writes the model into a folder and returns its path. Most
come from the operators' own tests, with fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import test_add
import test_avg_pool2d
import test_conv2d
import test_dense
import test_depthwise_conv2d
import test_dynamic_range_models
import test_int16_models
import test_int_arithmetic
import test_lstm
import test_lstm_float
import test_max_pool2d
import test_mul
import test_onnx_bilinear
import test_pad
import test_prelu
import test_quantize
import test_reduce
import test_resize
import test_signal_filter_bank
import test_signal_noise
import test_signal_rfft
import test_softmax
import test_svdf
import test_transpose_conv2d
from one_operator import Operand, one_operator
from onnx_builder import float_network, quantized_network
from single_node import save_node
from tflite_builder import TfliteBuilder
from transformer_block import block

from edgec.frontends.onnx_writer import to_onnx

Write = Callable[[Path], Path]
IMAGE = (1, 6, 5, 4)


def _tflite(make: Callable[[], bytes]) -> Write:
    def write(folder: Path) -> Path:
        path = folder / "m.tflite"
        path.write_bytes(make())
        return path

    return write


def _written(write: Callable[[Path], object]) -> Write:
    def made(folder: Path) -> Path:
        write(folder / "m.tflite")
        return folder / "m.tflite"

    return made


def _onnx_unary(kind: str) -> Write:
    x = np.zeros((2, 67), np.float32)
    return lambda folder: save_node(folder / "m.onnx", kind, x, {})


def _elementwise(kind: str, dtype: str = "int8", options: str = "", **fields: object) -> bytes:
    x = Operand(IMAGE, dtype, 0.05, 3 if dtype == "int8" else 0)
    scales = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}
    y = Operand(IMAGE, dtype, scales.get(kind, 0.05),
                -128 if kind == "LOGISTIC" else 0)  # fmt: skip
    return one_operator(kind, [x], [y], options, **fields)


def _moves() -> bytes:
    """Strided slice, gather, concatenation, transpose, pad and a split, of int8."""
    model = TfliteBuilder()
    quant = {"scale": 0.1, "zero_point": -4}

    def integers(values: list[int]) -> int:
        return model.tensor("i", (len(values),), "int32", data=np.array(values, np.int32))

    x = model.tensor("x", (1, 6, 8, 4), "int8", **quant)
    a = model.tensor("a", (1, 3, 4, 4), "int8", **quant)
    model.operator("STRIDED_SLICE", [x, integers([0, 0, 7, 0]), integers([1, 6, -9, 4]),
                                     integers([1, 2, -2, 1])], [a], "StridedSliceOptions",
                   BeginMask=0, EndMask=0)  # fmt: skip
    b = model.tensor("b", (1, 3, 4, 3), "int8", **quant)
    model.operator("GATHER", [a, integers([3, 0, 1])], [b], "GatherOptions", Axis=3)
    c = model.tensor("c", (1, 3, 4, 7), "int8", **quant)
    model.operator("CONCATENATION", [a, b], [c], "ConcatenationOptions", Axis=3)
    d = model.tensor("d", (1, 7, 3, 4), "int8", **quant)
    model.operator("TRANSPOSE", [c, integers([0, 3, 1, 2])], [d], "TransposeOptions")
    outputs = [model.tensor(f"y{n}", (1, 7, 3, 2), "int8", **quant) for n in range(2)]
    model.operator("SPLIT", [integers([3]), d], outputs, "SplitOptions", NumSplits=2)
    return model.build([x], outputs)


def _blocks() -> bytes:
    x, y = Operand((1, 4, 6, 3)), Operand((1, 2, 3, 12))
    return one_operator("SPACE_TO_DEPTH", [x], [y], "SpaceToDepthOptions", BlockSize=2)


def _pair(kind: str, dtype: str = "int8") -> bytes:
    operands = [Operand((2, 3, 4), dtype), Operand((1, 3, 1), dtype)]
    return one_operator(kind, operands, [Operand((2, 3, 4), dtype)], "MaximumMinimumOptions")


def _float_pair(kind: str) -> Write:
    x, other = np.zeros((2, 3, 7), np.float32), np.linspace(-2, 2, 7).astype(np.float32)
    return lambda folder: save_node(folder / "m.onnx", kind, x, {"other": other})


def _fft(kind: str, samples: int) -> Write:
    return lambda folder: test_signal_rfft.save(folder / "m.tflite", kind, "int16", samples, 64)


def _window() -> bytes:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (1, 40), "int16") for name in "xy")
    weights = np.random.default_rng(2).integers(-4096, 4097, 40).astype(np.int16)
    w = model.tensor("w", (40,), "int16", data=weights)
    model.operator("CUSTOM:SignalWindow", [x, w], [y], shift=12)
    return model.build([x], [y])


def _auto_scale() -> bytes:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (40,), "int16") for name in "xy")
    bits = model.tensor("bits", (), "int32")
    model.operator("CUSTOM:SignalFftAutoScale", [x], [y, bits])
    return model.build([x], [y, bits])


def _quantize(kind: str, dtype: str) -> Write:
    x = np.zeros((3, 50), np.float32)
    return _tflite(lambda: test_quantize.edge_model(kind, dtype, x))


def _transformer(folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(to_onnx(block(), producer_version="0").SerializeToString())
    return path


MODELS: dict[str, Write] = {
    "network_qdq": lambda folder: quantized_network(2, folder / "m.onnx"),
    "network_float": lambda folder: float_network(1, folder / "m.onnx"),
    "network_int16": _written(test_int16_models.int16_model),
    "operators_int16": _written(test_int16_models.operators_model),
    "network_dynamic_range": _written(test_dynamic_range_models.hybrid_model),
    "conv2d": _tflite(lambda: test_conv2d.conv2d_model(3)),
    "conv2d_wide": _tflite(lambda: test_conv2d.conv2d_model(4, "int16")),
    "depthwise_conv2d": _tflite(lambda: test_depthwise_conv2d.depthwise_model(5)),
    "dense": _tflite(lambda: test_dense.dense_model(1)),
    "transpose_conv2d": _tflite(lambda: test_transpose_conv2d.quantized_model(2)),
    "add": _tflite(lambda: test_add.add_model(4)),
    "sub_int16": _tflite(lambda: test_add.add_model(5, "SUB", "int16")),
    "mul": _tflite(lambda: test_mul.product(1, "int8")),
    "mul_int16": _tflite(lambda: test_mul.product(2, "int16")),
    "average_pool": _tflite(lambda: test_avg_pool2d.pool_model("AVERAGE_POOL_2D", 3)),
    "max_pool": _tflite(lambda: test_max_pool2d.pool_model(3)),
    "pad": _tflite(lambda: test_pad.pad_model(7)),
    "prelu": _tflite(lambda: test_prelu.model(1, "int8")),
    "prelu_qdq": lambda folder: test_prelu.qdq_model(2, 5, folder / "m.onnx")[0],
    "mean": _tflite(lambda: test_reduce.reduction(3, "MEAN")),
    "sum": _tflite(lambda: test_reduce.reduction(4, "SUM")),
    "reduce_max": _tflite(lambda: test_reduce.reduction(5, "REDUCE_MAX")),
    "resize_bilinear": _tflite(lambda: test_resize.resized("RESIZE_BILINEAR", 3, (False, True))),
    "resize_nearest": _tflite(
        lambda: test_resize.resized("RESIZE_NEAREST_NEIGHBOR", 3, (False, False))
    ),
    "resize_qdq": lambda folder: test_onnx_bilinear.qdq_model(2, folder / "m.onnx")[0],
    "softmax": _tflite(lambda: test_softmax.softmax_model((3, 10), 0.1, 5, 1.0)),
    "softmax_int16": _tflite(
        lambda: one_operator(
            "SOFTMAX",
            [Operand((4, 11), "int16", 0.001)],
            [Operand((4, 11), "int16", 1 / 32768)],
            "SoftmaxOptions",
            Beta=1.0,
        )
    ),
    "logistic": _tflite(lambda: _elementwise("LOGISTIC")),
    "tanh": _tflite(lambda: _elementwise("TANH")),
    "hard_swish": _tflite(lambda: _elementwise("HARD_SWISH")),
    "leaky_relu": _tflite(
        lambda: _elementwise("LEAKY_RELU", "int8", "LeakyReluOptions", Alpha=0.1)
    ),
    "maximum": _tflite(lambda: _pair("MAXIMUM")),
    "minimum": _tflite(lambda: _pair("MINIMUM", "float32")),
    "moves": _tflite(_moves),
    "space_to_depth": _tflite(_blocks),
    "svdf": _tflite(test_svdf.svdf_model),
    "lstm": _tflite(test_lstm.lstm_model),
    "lstm_float": lambda folder: save_node(
        folder / "m.onnx",
        "LSTM",
        np.zeros((3, 2, 5), np.float32),
        test_lstm_float.constants(),
        hidden_size=4,
    ),
    "transformer": _transformer,
    "quantize": _quantize("QUANTIZE", "int8"),
    "quantize_int16": _quantize("QUANTIZE", "int16"),
    "dequantize": _quantize("DEQUANTIZE", "int8"),
    "int_arithmetic": _tflite(lambda: test_int_arithmetic.model_of("MUL", [7, -3] * 20)),
    "float_div": _float_pair("Div"),
    "softmax_float": _onnx_unary("Softmax"),
    "log_softmax_float": _onnx_unary("LogSoftmax"),
    "exp": _onnx_unary("Exp"),
    "nonzero": lambda folder: save_node(
        folder / "m.onnx", "NonZero", np.zeros((3, 5), np.int8), {}, output_dtype="int64"
    ),
    "log": _onnx_unary("Log"),
    "sqrt": _onnx_unary("Sqrt"),
    "tanh_float": _onnx_unary("Tanh"),
    "logistic_float": _onnx_unary("Sigmoid"),
    "hard_sigmoid": _onnx_unary("HardSigmoid"),
    "signal_window": _tflite(_window),
    "signal_auto_scale": _tflite(_auto_scale),
    "signal_rfft": _fft("SignalRfft", 60),
    "signal_irfft": _fft("SignalIrfft", 66),
    "signal_filter_bank": _tflite(test_signal_filter_bank.bank),
    "signal_noise": _tflite(lambda: test_signal_noise.chain(True)),
}

"""Build small QDQ and float ONNX models node by node, for tests that need no sample files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class OnnxBuilder:
    """Collects nodes and initializers of one float model with one input and one output.

    `quantized` wraps values in QuantizeLinear and DequantizeLinear as a quantizer does. Random
    choices come from `rng`, so a model is the same for the same seed.
    """

    def __init__(
        self, seed: int, input_shape: Sequence[int], element: int = TensorProto.FLOAT
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.input_shape, self.element = tuple(input_shape), element
        self.count = 0

    def constant(self, data: np.ndarray, name: str) -> str:
        unique = self.name(name)
        self.initializers.append(numpy_helper.from_array(np.asarray(data), unique))
        return unique

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def add(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        output = self.name(kind.lower())
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=f"{output}_node",
                                           **attributes))  # fmt: skip
        return output

    def qdq(self, value: str, scale: float, zero_point: int) -> str:
        """value -> int8 -> float, as between two operators of a quantized model."""
        parameters = [
            self.constant(np.float32(scale), "scale"),
            self.constant(np.int8(zero_point), "zero_point"),
        ]
        stored = self.add("QuantizeLinear", [value, *parameters])
        return self.add("DequantizeLinear", [stored, *parameters])

    def weights(self, shape: Sequence[int], x_scale: float) -> tuple[str, str, np.ndarray]:
        """(weights, bias, weight scales): int8 per output channel (axis 0), int32 bias."""
        channels = shape[0]
        scales = self.rng.uniform(0.002, 0.02, channels).astype(np.float32)
        zeros = np.zeros(channels, np.int8)
        stored = self.rng.integers(-127, 128, shape).astype(np.int8)
        weights = self.add("DequantizeLinear", [
            self.constant(stored, "w"), self.constant(scales, "w_scale"),
            self.constant(zeros, "w_zero"),
        ], axis=0)  # fmt: skip
        bias = self.add("DequantizeLinear", [
            self.constant(self.rng.integers(-4000, 4000, channels).astype(np.int32), "b"),
            self.constant((scales * np.float32(x_scale)).astype(np.float32), "b_scale"),
            self.constant(np.zeros(channels, np.int32), "b_zero"),
        ], axis=0)  # fmt: skip
        return weights, bias, scales

    def save(
        self, output: str, path: Path, opset: int = 17, more: Sequence[onnx.ValueInfoProto] = ()
    ) -> Path:
        """more: inputs after x."""
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info("x", self.element, self.input_shape), *more],
            [onnx.ValueInfoProto(name=output)],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 9 if opset < 21 else 10
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())
        return path


def quantized_network(seed: int, path: Path) -> Path:
    """A random small QDQ network: convolutions of several kinds, pool, residual add, Gemm."""
    rng = np.random.default_rng(seed)
    channels, size = int(rng.integers(1, 5)), int(rng.integers(6, 10))
    b = OnnxBuilder(seed, (1, channels, size, size))
    scale = float(rng.uniform(0.01, 0.05))
    x = b.qdq("x", scale, int(rng.integers(-128, 128)))

    def convolve(
        x: str, scale: float, shape: Sequence[int], **attributes: Any
    ) -> tuple[str, float]:
        weights, bias, scales = b.weights(shape, scale)
        taps = int(np.prod(shape[1:]))
        y = b.add("Conv", [x, weights, bias], **attributes)
        out_scale = float(np.float32(scale * scales.mean() * 60 * np.sqrt(taps) * 1.3))
        if rng.integers(2):
            y = b.add("Relu", [y])
        return b.qdq(y, out_scale, int(rng.integers(-128, 100))), out_scale

    wide = int(rng.integers(2, 9))
    stride = int(rng.integers(1, 3))
    y, scale = convolve(x, scale, (wide, channels, 3, 3), pads=[1, 1, 1, 1],
                        strides=[stride, stride])  # fmt: skip
    z, z_scale = convolve(y, scale, (wide, 1, 3, 3), pads=[1, 1, 1, 1], group=wide)
    z, z_scale = convolve(z, z_scale, (wide, wide, 1, 1))
    total = b.add("Add", [y, z] if rng.integers(2) else [z, y])
    scale = float(np.float32((scale + z_scale) * 0.7))
    y = b.qdq(total, scale, int(rng.integers(-128, 128)))
    if rng.integers(2):
        y_stored = b.nodes[-1].input  # the same parameters on both sides of the pool
        pooled = b.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
        stored = b.add("QuantizeLinear", [pooled, *y_stored[1:]])
        y = b.add("DequantizeLinear", [stored, *y_stored[1:]])
        extent = ((size + stride - 1) // stride) // 2
    else:
        extent = (size + stride - 1) // stride
    parameters = b.nodes[-1].input[1:]
    flat = b.add("Flatten", [y])
    flat = b.add("QuantizeLinear", [flat, *parameters])
    flat = b.add("DequantizeLinear", [flat, *parameters])
    weights, bias, scales = b.weights((5, wide * extent * extent), scale)
    y = b.add("Gemm", [flat, weights, bias], transB=1)
    spread = 60 * np.sqrt(wide * extent * extent) * 1.3
    y = b.qdq(y, float(np.float32(scale * scales.mean() * spread)), int(rng.integers(-50, 50)))
    return b.save(y, path)


def float_moves(seed: int, path: Path) -> Path:
    """A random small float network, channels-first, with what has axes in its attributes."""
    rng = np.random.default_rng(seed)
    b = OnnxBuilder(seed, (1, 3, 6, 8))

    def floats(*shape: int) -> str:
        return b.constant(rng.normal(size=shape).astype(np.float32), "w")

    def ints(*values: int) -> str:
        return b.constant(np.asarray(values, np.int64), "i")

    first = b.add("Conv", ["x", floats(4, 3, 3, 3), floats(4)], pads=[1, 1, 1, 1])
    second = b.add("Conv", ["x", floats(5, 3, 1, 1), floats(5)])
    y = b.add("Concat", [first, second, floats(1, 2, 6, 8)], axis=1)
    pads = [0, *rng.integers(0, 3, 3), 0, *rng.integers(0, 3, 3)]
    y = b.add("Pad", [y, ints(*map(int, pads)), b.constant(np.float32(0.5), "v")])
    y = b.add("Slice", [y, ints(1, 5), ints(9, 0), ints(1, 3), ints(2, -1)])
    y = b.add("Concat", [y, y], axis=int(rng.integers(1, 4)))
    y = b.add("ReduceMean", [y], axes=[2, 3] if seed % 2 else [1], keepdims=1)
    return b.save(y, path)


def float_network(seed: int, path: Path) -> Path:
    """A random small float network in channels-first layout, with no quantization."""
    rng = np.random.default_rng(seed)
    channels, size, wide = int(rng.integers(2, 5)), int(rng.integers(6, 9)), int(rng.integers(2, 6))
    b = OnnxBuilder(seed, (1, channels, size, size))

    def floats(*shape: int) -> str:
        return b.constant(rng.normal(size=shape).astype(np.float32), "w")

    y = b.add("Conv", ["x", floats(wide, channels, 3, 3), floats(wide)], pads=[1, 1, 1, 1])
    y = b.add("Relu", [y])
    z = b.add("Conv", [y, floats(wide, 1, 3, 3)], pads=[1, 1, 1, 1], group=wide)
    z = b.add("Clip", [z, b.constant(np.float32(-1), "low"), b.constant(np.float32(2), "high")])
    y = b.add("Add", [y, z])
    y = b.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
    y = b.add("AveragePool", [y], kernel_shape=[2, 2], strides=[1, 1])
    if rng.integers(2):
        return b.save(y, path)
    y = b.add("Flatten", [y])
    extent = size // 2 - 1
    y = b.add("Gemm", [y, floats(4, wide * extent * extent), floats(4)], transB=1)
    return b.save(y, path)


def with_data_beside(path: Path, location: str = "model.onnx.data") -> Path:
    """Move all weights of an ONNX file into another one."""
    (path.parent / location).parent.mkdir(exist_ok=True)
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location=location,
                    size_threshold=0)  # fmt: skip
    return path

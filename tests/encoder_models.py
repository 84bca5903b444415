"""Transformer encoders as ONNX: of tokens, and of keywords in spectrograms, with heads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray


class Encoder:
    """Writes encoder layers of `width` channels with `heads` heads over `tokens` tokens.

    Weights are random in the size that training starts from; scales of normalizations are spread
    and two channels are large, as trained ones are.
    """

    def __init__(self, width: int, heads: int, tokens: int, seed: int) -> None:
        self.width, self.heads, self.tokens = width, heads, tokens
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, data: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def floats(self, mean: float, spread: float, *shape: int) -> str:
        return self.constant(self.rng.normal(mean, spread, shape).astype(np.float32))

    def integers(self, *numbers: int) -> str:
        return self.constant(np.asarray(numbers, np.int64))

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.add("MatMul", x, self.floats(0, inputs**-0.5, inputs, outputs))
        return self.add("Add", product, self.floats(0, 0.1, outputs))

    def normed(self, x: str) -> str:
        scale = self.rng.normal(1, 0.2, self.width)
        scale[:2] *= 3
        scales = self.constant(scale.astype(np.float32))
        return self.add("LayerNormalization", x, scales, self.floats(0, 0.2, self.width), axis=-1)

    def attention(self, x: str) -> str:
        depth = self.width // self.heads
        split = self.integers(1, self.tokens, self.heads, depth)

        def heads(order: tuple[int, ...]) -> str:
            shaped = self.add("Reshape", self.dense(x, self.width, self.width), split)
            return self.add("Transpose", shaped, perm=order)

        query, key, value = heads((0, 2, 1, 3)), heads((0, 2, 3, 1)), heads((0, 2, 1, 3))
        scores = self.add("MatMul", query, key)
        root = self.constant(np.float32(depth**0.5))
        shares = self.add("Softmax", self.add("Div", scores, root), axis=-1)
        mixed = self.add("Transpose", self.add("MatMul", shares, value), perm=(0, 2, 1, 3))
        joined = self.add("Reshape", mixed, self.integers(1, self.tokens, self.width))
        return self.dense(joined, self.width, self.width)

    def gelu(self, x: str) -> str:
        scaled = self.add("Div", x, self.constant(np.float32(2**0.5)))
        risen = self.add("Add", self.add("Erf", scaled), self.constant(np.float32(1)))
        return self.add("Mul", self.add("Mul", x, risen), self.constant(np.float32(0.5)))

    def layer(self, x: str, *, normed_first: bool) -> str:
        def part(value: str, make: Callable[[str], str]) -> str:
            if normed_first:
                return self.add("Add", value, make(self.normed(value)))
            return self.normed(self.add("Add", value, make(value)))

        def wide(value: str) -> str:
            hidden = self.gelu(self.dense(value, self.width, 4 * self.width))
            return self.dense(hidden, 4 * self.width, self.width)

        return part(part(x, self.attention), wide)

    def save(self, path: Path, shape: tuple[int, ...], result: str) -> Path:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "encoder", [value("x", 1, shape)], [value(result, 1, None)], self.constants
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
        return path


def encoder(path: Path, *, layers: int = 2, width: int = 64, heads: int = 4, tokens: int = 16,
            seed: int = 3) -> Path:  # fmt: skip
    """[1, tokens, width] -> the same: normalization before each part, and one at the end."""
    made = Encoder(width, heads, tokens, seed)
    x = "x"
    for _ in range(layers):
        x = made.layer(x, normed_first=True)
    return made.save(path, (1, tokens, width), made.normed(x))


#: Frames and coefficients of a keyword's spectrogram.
FRAMES, COEFFICIENTS = 49, 10


def keyword_encoder(path: Path, *, width: int = 32, heads: int = 2, seed: int = 5) -> Path:
    """[1, FRAMES, COEFFICIENTS] -> [1, 12]: frames as tokens with their places after a class token.

    The model of "Keyword Transformer" (arXiv:2104.00769) in small, normalization after each part.
    """
    made = Encoder(width, heads, FRAMES + 1, seed)
    projected = made.dense("x", COEFFICIENTS, width)
    first = made.floats(0, 1, 1, 1, width)
    placed = made.add("Concat", first, projected, axis=1)
    x = made.add("Add", placed, made.floats(0, 0.5, 1, FRAMES + 1, width))
    for _ in range(2):
        x = made.layer(x, normed_first=False)
    token = made.add("Gather", x, made.constant(np.asarray(0, np.int64)), axis=1)
    return made.save(path, (1, FRAMES, COEFFICIENTS), made.dense(token, width, 12))

"""Random graphs of blocks in other formats: values quantized while it runs, weights of int4 in
blocks, and float graphs that `edgec.quantize` or ONNX Runtime's quantizer makes integers of.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from random_graphs import Graph, grown
from random_models import Array, Maker, Model, Rng, Step, random_array

import edgec

FORMATS = ("dynamic", "blocks", "quantized", "qoperator")
#: Recipes of `edgec.quantize`, and for how many of twelve graphs.
RECIPES: tuple[tuple[int, dict[str, Any]], ...] = (
    (3, {}), (2, {"activations": "int16"}), (1, {"weights": "int4"}),
    (1, {"weights": "int4", "group": 16}), (2, {"activations": "float32"}),
    (1, {"weights": "int4", "activations": "float32"}),
    (1, {"weights": "int4", "activations": "int16"}), (1, {"weights": "float16"}),
)  # fmt: skip


def graph_of_format(seed: int, kind: str) -> Model:
    """The graph of a seed in one of FORMATS."""
    rng = np.random.default_rng((seed, FORMATS.index(kind), 8))
    if kind == "quantized":
        recipes = [recipe for share, recipe in RECIPES for _ in range(share)]
        model = grown(WideGraph(rng, "float32"))
        recipe = recipes[int(rng.integers(len(recipes)))]
        if rng.random() < 0.25 and "weights" not in recipe:
            recipe = {**recipe, "keep_float": tuple(kept_layers(model, rng))}
        return QuantizedModel(**vars(model), recipe=recipe)
    if kind == "qoperator":
        return QOperatorModel(**vars(grown(WideGraph(rng, "float32"))), recipe=runtime_recipe(rng))
    if kind == "blocks":
        return grown(BlockGraph(rng, str(rng.choice(["int8", "int16", "float32"]))))
    return with_integer_steps(grown(DynamicGraph(rng, "dynamic")), rng)


@dataclass(frozen=True)
class QuantizedModel(Model):
    """A float model; its file is what `edgec.quantize` makes of it by a recipe."""

    recipe: dict[str, Any] = field(default_factory=dict)

    def write(self) -> bytes:
        rng = np.random.default_rng(1)
        types = [self.tensors[name] for name in self.inputs]
        samples = [[random_array(rng, t.shape, t.dtype, t.within) for t in types]
                   for _ in range(3)]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / "float.onnx", Path(folder) / "made.onnx"
            source.write_bytes(super().write())
            self.quantize(source, samples, made)
            return made.read_bytes()

    def quantize(self, source: Path, samples: list[list[Array]], made: Path) -> None:
        edgec.quantize(source, samples, output=made, **self.recipe)

    def text(self) -> str:
        return f"{type(self).__name__} by {self.recipe} of\n{super().text()}"


def kept_layers(model: Model, rng: Rng) -> Iterator[str]:
    """Convolutions and dense layers that stay in float, by their nodes' names."""
    for step in model.steps:
        if step.kind in ("Conv", "Gemm", "MatMul") and rng.random() < 0.4:
            yield f"n_{step.outputs[0]}"


@dataclass(frozen=True)
class QOperatorModel(QuantizedModel):
    """The same by ONNX Runtime's quantizer, with its own operators of integers."""

    def quantize(self, source: Path, samples: list[list[Array]], made: Path) -> None:
        left = [dict(zip(self.inputs, sample, strict=True)) for sample in samples]

        class Samples(CalibrationDataReader):  # type: ignore[misc]
            def get_next(self) -> dict[str, Array] | None:
                return left.pop() if left else None

        quantize_static(source, made, Samples(), quant_format=QuantFormat.QOperator, **self.recipe)


def runtime_recipe(rng: Rng) -> dict[str, Any]:
    """Values and weights of int8 or uint8, and weights with a scale for each channel or one."""
    types = [QuantType.QInt8, QuantType.QUInt8]
    values, weights = (types[int(n)] for n in rng.choice(2, 2, p=[0.6, 0.4]))
    if values == QuantType.QInt8:
        weights = values  # ONNX Runtime has no products of int8 by uint8
    return {"activation_type": values, "weight_type": weights,
            "per_channel": bool(rng.random() < 0.5)}  # fmt: skip


class WideGraph(Graph):
    """Windows that are padded at one side alone or not at all, batches, and uneven sizes."""

    def convolution(self, x: str, outputs: int = 0, kernel: int = 0, groups: int = 1,
                    kind: str = "Conv", **fields: Any) -> str:  # fmt: skip
        extents = self.shape(x)[2:]
        if fields or kind != "Conv" or self.chance(0.4):
            return super().convolution(x, outputs, kernel, groups, kind, **fields)
        kernel = kernel or self.one_of(1, 2, 3, 4, 5)
        reach = [kernel - 1 if extent > 1 else 0 for extent in extents]
        before = [self.one_of(0, r // 2, r) for r in reach]
        missing = [max(0, r + 1 - e - b) for r, e, b in zip(reach, extents, before, strict=True)]
        after = [max(m, self.one_of(0, r - b)) for m, r, b in
                 zip(missing, reach, before, strict=True)]  # fmt: skip
        divisors = [g for g in (2, 3, 4) if self.shape(x)[1] % g == 0]
        if groups == 1 and divisors and self.chance(0.2):
            groups = self.one_of(*divisors)
            outputs = groups * self.one_of(1, 2, 3)
        return super().convolution(x, outputs, kernel, groups, kind, pads=[*before, *after],
                                   strides=[self.one_of(1, 1, 2, 3) for _ in extents])  # fmt: skip

    def image_input(self, like: tuple[int, ...] = ()) -> str:
        if like:
            return super().image_input(like)
        batch, channels = self.one_of(1, 2, 3), self.one_of(1, 2, 3, 4, 5, 8, 16)
        sizes = [self.one_of(1, 2, int(self.rng.integers(1, 13)), 8) for _ in range(2)]
        return super().image_input((batch, channels, *sizes))


class BlockGraph(WideGraph):
    """Weights are int4, with a scale for each block of inputs."""

    def weights(self, shape: tuple[int, ...], terms: int, axis: int = 0) -> str:
        inputs = 1 - axis
        if len(shape) < 2 or axis > 1 or shape[inputs] < 4:
            return super().weights(shape, terms, axis)
        size = self.one_of(2, 4, 8, 16)
        blocks = [-(-n // size) if a == inputs else n for a, n in enumerate(shape)]
        scales = np.float32(self.rng.uniform(0.6, 1.6, blocks) / 4 / max(terms, 1) ** 0.5)
        if self.chance(0.5):  # which shifts can stand for
            scales = np.exp2(np.round(np.log2(scales))).astype(np.float32)
        stored = self.rng.integers(-8, 8, shape).astype(ml_dtypes.int4)
        inputs_of = [self.constant(stored), self.constant(scales)]
        if self.chance(0.3):
            inputs_of.append(self.constant(np.zeros(blocks, ml_dtypes.int4)))
        return self.node("DequantizeLinear", inputs_of, axis=inputs, block_size=size)

    def bias(self, x: str, weights: str, count: int) -> list[str]:
        scale = next((s.inputs[1] for s in self.maker.steps if weights in s.outputs), weights)
        if len(self.shape(scale)) < 2 or scale == weights:
            return super().bias(x, weights, count)
        return [self.constant(self.rng.standard_normal(count) / 4, "float32")]


class DynamicGraph(WideGraph):
    """Weights are stored as one, values are not."""

    @property
    def is_stored(self) -> bool:
        return False

    def weights(self, shape: tuple[int, ...], terms: int, axis: int = 0) -> str:
        if len(shape) < 2:
            return super().weights(shape, terms, axis)
        dtype = self.one_of("int8", "uint8")
        stored = self.rng.integers(-127, 128, shape) + 128 * (dtype == "uint8")
        scale = np.float32(self.rng.uniform(0.6, 1.6) / 73 / max(terms, 1) ** 0.5)
        zero = self.one_of(0, -3) + 128 * (dtype == "uint8")
        given = [self.constant(stored.astype(dtype)), self.constant(scale),
                 self.constant(zero, dtype)]  # fmt: skip
        return self.node("DequantizeLinear", given)


def with_integer_steps(model: Model, rng: Rng) -> Model:
    """Most convolutions and products of dequantized weights as ConvInteger and MatMulInteger."""
    steps: list[Step] = []
    maker = Maker(rng, "onnx", model.opset)
    maker.tensors = dict(model.tensors)
    made = {name: step for step in model.steps for name in step.outputs}
    for step in model.steps:
        weights = made.get(step.inputs[1]) if step.kind in ("Conv", "MatMul") else None
        if weights and weights.kind == "DequantizeLinear" and rng.random() < 0.85:
            steps += dynamic_product(maker, step, weights)
        else:
            steps.append(step)
    return replace(model, tensors=maker.tensors, steps=tuple(steps))


def dynamic_product(maker: Maker, step: Step, weights: Step) -> Iterator[Step]:
    """ConvInteger or MatMulInteger of a value that is quantized by its own range."""
    x, y = step.inputs[0], step.outputs[0]
    shape, like = maker.tensors[y].shape, maker.tensors[y]
    types = {"q": ("uint8", maker.tensors[x].shape), "s": ("float32", ()), "z": ("uint8", ()),
             "a": ("int32", shape), "f": ("float32", shape), "t": ("float32", ()),
             "p": ("float32", shape)}  # fmt: skip
    names = {}
    for stem, (dtype, extents) in types.items():
        names[stem] = maker.name(f"{y}{stem}")
        maker.tensors[names[stem]] = replace(like, dtype=dtype, shape=extents)
    q, s, z, a, f, t, p = names.values()
    stored, scale, zero = weights.inputs
    yield Step("DynamicQuantizeLinear", (x,), (q, s, z))
    yield Step(step.kind + "Integer", (q, stored, z, zero), (a,), step.fields)
    yield Step("Cast", (a,), (f,), {"to": 1})
    yield Step("Mul", (s, scale), (t,))
    if len(step.inputs) == 2:
        yield Step("Mul", (f, t), (y,))
        return
    bias = maker.tensors[step.inputs[2]].data
    axes = (1, -1, *(1 for _ in shape[2:]))
    yield Step("Mul", (f, t), (p,))
    yield Step("Add", (p, maker.constant(bias.reshape(axes))), (y,))

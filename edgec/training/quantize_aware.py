"""Quantization-aware training on the exact integers that run.

1. The module is imported once, in evaluation mode: batch normalizations become parts of the
   convolutions before them. Samples show the ranges of values, as for quantization without
   training; these stay.
2. `forward` quantizes the module's current weights, makes the integer graph that a build compiles,
   and runs it with the reference interpreter's operators. Its results are exact in every bit. 3.
   The gradient is the float graph's at these numbers, with a straight path through each rounding
   and none where a value is clipped (Bengio, Leonard and Courville, arXiv:1308.3432).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from edgec.api import from_torch
from edgec.errors import EdgecError
from edgec.graph.ir import Constant, Function, Module, Value
from edgec.graph.types import Array
from edgec.passes.sequence import run_passes
from edgec.quantizer.batches import Batch
from edgec.quantizer.calibrate import has_weights
from edgec.quantizer.float_model import float_function
from edgec.quantizer.insert import Quantized, insert_qdq
from edgec.quantizer.post_training import WEIGHT_BITS, Recipe, quantize_function
from edgec.quantizer.scheme import Range, Stored
from edgec.training.gradients import compute, exactly

#: Choices of a recipe for training: weights are rounded to nearest in each step.
_UNTRAINED = {"reconstruct": False, "correct_biases": False}


def quantize_aware(
    module: Any,
    samples: Iterable[Sequence[Any]],
    *,
    observer: str = "mse",
    equalize: str = "never",
    weights: str = "int8",
    **recipe: Any,
) -> QuantizeAware:
    """A module that computes as the integers of `module` will, and can be trained.

    samples: each the inputs of one sample, float32, with a first axis of 1. observer, equalize,
    weights (`int8` or `int4`), recipe: fields of `edgec.quantizer.post_training.Recipe`. The result
    has its own weights: pass them to an optimizer; then `edgec.from_torch(result)` imports the
    integers. Raises EdgecError for models that cannot be imported, quantized or trained.
    """
    if weights not in ("int8", "int4"):
        raise EdgecError(f"weights of {weights} cannot be trained", hint="choose int8 or int4")
    arrays = [tuple(np.asarray(value) for value in sample) for sample in samples]
    if not arrays:
        raise EdgecError("there is no sample to calibrate with")
    imported = from_torch(module, tuple(map(torch.from_numpy, arrays[0]))).module
    chosen = Recipe(observer=observer, equalize=equalize, **{**recipe, **_UNTRAINED})
    ranges = replace(chosen, group=0)
    made = quantize_function(float_function(imported), arrays, ranges)
    name = f"{type(module).__name__.lower()}.pt2"
    chosen = replace(chosen, weights=weights)
    return QuantizeAware(made.source, made.ranges, chosen, name)


class QuantizeAware(torch.nn.Module):
    """A float function whose results are its integers' results; made by `quantize_aware`."""

    def __init__(
        self, function: Function, ranges: Mapping[Value, Range], recipe: Recipe, name: str
    ) -> None:
        super().__init__()
        self.function, self.ranges, self.recipe, self.name = function, ranges, recipe, name
        self.trained = torch.nn.ParameterList()
        self._numbers: dict[Constant, int] = {}
        for node in function.nodes:
            for value in node.inputs[1:3] if has_weights(node) else ():
                if isinstance(value, Constant) and value not in self._numbers:
                    self._numbers[value] = len(self.trained)
                    self.trained.append(torch.from_numpy(value.data.copy()))
        self._check()

    def forward(self, *inputs: Any) -> Any:
        """The outputs for samples [N, ...], float32: the integers that run, dequantized.

        Raises EdgecError for inputs of other shapes.
        """
        quantized, fakes = self._quantized()
        arrays = [self._checked(x, param) for x, param in self._pairs(inputs)]
        exact = _run(run_passes(quantized.function, "onnx"), arrays)
        known: dict[Value, Any] = {}
        for x, param in self._pairs(inputs):
            known[param] = _snapped(x, param, quantized.stored, exact)
        for node in self.function.nodes:
            operands = [self._operand(value, known, fakes) for value in node.inputs]
            known[node.output] = _snapped(
                compute(node, operands), node.output, quantized.stored, exact
            )
        results = [known[value] for value in self.function.results]
        return results[0] if len(results) == 1 else tuple(results)

    def integers(self, *inputs: Any) -> dict[str, Array]:
        """The stored integers of every value for these samples, by name in the integer graph."""
        arrays = [self._checked(x, param) for x, param in self._pairs(inputs)]
        return _run(run_passes(self._quantized()[0].function, "onnx"), arrays)

    def edgec_module(self) -> Module:
        """The integers as `edgec.from_torch` imports them."""
        name = f"{self.name.rpartition('.')[0]}.onnx"
        return Module({"main": self._quantized()[0].function}, source=name, format="onnx")

    def _quantized(self) -> tuple[Quantized, dict[Value, Any]]:
        """The graph with the weights of now, quantized; and the tensors of its constants."""
        current: dict[Value, Constant] = {}
        for value, number in self._numbers.items():
            data = self.trained[number].detach().numpy().astype(np.float32, copy=True)
            current[value] = Constant(value.name, value.type, value.origin, data=data)
        nodes = {
            node: replace(node, inputs=tuple(current.get(v, v) for v in node.inputs))
            for node in self.function.nodes
        }
        function = replace(self.function, nodes=tuple(nodes.values()))
        bits = None
        if self.recipe.weights != "int8":
            some = (node for node in function.nodes if has_weights(node))
            bits = dict.fromkeys(some, WEIGHT_BITS[self.recipe.weights])
        scheme = self.recipe.scheme(function, self.ranges, bits)
        fakes: dict[Value, Any] = {}
        for old, node in nodes.items():
            if node in scheme.weights:
                fakes[old.inputs[1]] = scheme.weights[node].real()
        return insert_qdq(function, scheme), fakes

    def _operand(self, value: Value, known: Mapping[Value, Any], fakes: Mapping[Value, Any]) -> Any:
        if value in known:
            return known[value]
        assert isinstance(value, Constant)
        if value not in self._numbers:
            return torch.from_numpy(value.data)
        real = self.trained[self._numbers[value]]
        if value not in fakes:
            return real
        return exactly(real, fakes[value])

    def _pairs(self, inputs: Sequence[Any]) -> list[tuple[Any, Value]]:
        if len(inputs) != len(self.function.params):
            raise EdgecError(f"{len(self.function.params)} inputs are needed, not {len(inputs)}")
        return list(zip(inputs, self.function.params, strict=True))

    def _checked(self, x: Any, param: Value) -> Array:
        array = np.asarray(x.detach(), np.float32)
        if array.shape[1:] != param.type.shape[1:] or array.ndim != len(param.type.shape):
            raise EdgecError(
                f"input {param.name} has the shape {list(array.shape)}",
                hint=f"it needs [samples, {', '.join(map(str, param.type.shape[1:]))}]",
            )
        return array

    def _check(self) -> None:
        """Raise EdgecError before training for operators that mix samples or have no gradient."""
        if any(len(node.outputs) != 1 or node.bodies for node in self.function.nodes):
            raise EdgecError("control flow and layers with several results cannot be trained yet")
        if Batch(self.function).count == 1:
            raise EdgecError("the module mixes samples, or has no axis of samples")
        self(*(torch.zeros(param.type.shape) for param in self.function.params))


def _run(integers: Function, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every value of the integer graph, by its name, for all samples."""
    found: dict[str, Array] = {}
    batch = Batch(integers, len(inputs[0]))
    if batch.count == 1 and len(inputs[0]) > 1:
        raise EdgecError("the integer graph of the module mixes the samples of a batch")
    batch.run(inputs, lambda value, array: found.__setitem__(value.name, array))
    return found


def _snapped(
    y: Any, value: Value, stored: Mapping[Value, Stored], exact: Mapping[str, Array]
) -> Any:
    """A float value with the number that its integers stand for, and the float's gradient."""
    if value not in stored:
        return y
    how = stored[value]
    y = torch.clamp(y, *how.bounds)
    name = f"{value.name}.q" if f"{value.name}.q" in exact else value.name
    array = exact.get(name)
    if array is None or array.dtype != how.dtype:
        return y  # a part of the next operator
    scale, zero_point = np.float32(how.quant.scale[0]), how.quant.zero_point[0]
    real = (array.astype(np.int32) - zero_point).astype(np.float32) * scale
    return exactly(y, real)

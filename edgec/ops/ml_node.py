"""A node of the domain ai.onnx.ml: its attributes checked, and ONNX nodes that take its place.

Where the standard is vague, the source is ONNX Runtime's kernels
(`onnxruntime/core/providers/cpu/ml`); the tests compare with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.cast import CastAttrs, cast_to
from edgec.ops.onnx_call import append_onnx
from edgec.ops.op import RawNode

#: The names of the domain's operators begin with it.
DOMAIN = "ai.onnx.ml"
#: The operator set of the ONNX nodes that are appended.
OPSET = 18
_STRINGS = "strings are not supported: train with numbers in their place"


@dataclass(frozen=True)
class MlNode:
    """One node of the file, and the builder of the nodes that replace it."""

    builder: GraphBuilder
    raw: RawNode

    def numbers(self, key: str, dtype: str = "float32") -> Array:
        """A list of numbers [n], or its form as a tensor; empty where it is absent.

        Raises BadNode if it is not a list of numbers.
        """
        found = self.raw.attributes.get(f"{key}_as_tensor", self.raw.attributes.get(key, ()))
        array = np.asarray(found).reshape(-1)
        if array.dtype.kind not in "iufb":
            raise BadNode(f"attribute {key} is not a list of numbers")
        return array if f"{key}_as_tensor" in self.raw.attributes else array.astype(dtype)

    def integers(self, key: str) -> Array:
        """A list of integers [n]; empty where it is absent."""
        return self.numbers(key, "int64")

    def text(self, key: str, default: str) -> str:
        """A word. Raises ImportFailed where it is none."""
        return str(self.raw.attribute(key, default))

    def refuse_strings(self, *keys: str) -> None:
        """Raise ImportFailed where one of these attributes holds strings."""
        for key in keys:
            if self.raw.attributes.get(key):
                raise ImportFailed(f"{key} are given: {_STRINGS}")

    def value(self, operand: Value | Array | None) -> Value | None:
        """A graph value; arrays become constants."""
        if isinstance(operand, np.ndarray | np.generic):
            return self.builder.constant(f"{self.raw.name}.constant", np.asarray(operand))
        return operand

    def call(self, kind: str, *operands: Value | Array | None, **attributes: Any) -> Value:
        """The first result of a node of ONNX's standard domain."""
        inputs = [self.value(operand) for operand in operands]
        return append_onnx(
            self.builder, self.raw.name, kind, inputs, attributes, opset=OPSET
        )[0]  # fmt: skip

    def cast(self, x: Value, dtype: str) -> Value:
        """A value in another dtype."""
        return cast_to(self.builder, x, CastAttrs(dtype), self.raw.name)

    def shaped(self, x: Value, *shape: int) -> Value:
        """The same elements in another shape."""
        return x if x.type.shape == shape else self.call("Reshape", x, np.asarray(shape))

    def rows(self, position: int = 0) -> Value:
        """An input [rows, features] of floats; integers become float32, a vector is one row."""
        x = self.raw.operand(position)
        if len(x.type.shape) not in (1, 2):
            raise ImportFailed(f"an input of rank {len(x.type.shape)}: rows of features are needed")
        if x.type.dtype != "float64":
            x = self.cast(x, "float32")
        return self.shaped(x, 1, x.type.elements) if len(x.type.shape) == 1 else x

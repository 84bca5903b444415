"""A random graph of ONNX while it grows: its values, stored as integers or not, and its layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_models import Maker, Rng, Step, Tensor
from random_onnx import output_types

DTYPES = ("float32", "int8", "int16", "mixed", "uint8")
CHANNELS = (1, 2, 3, 4, 8, 12, 16, 24, 32)
ACTIVATIONS = ("Relu", "Relu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "LeakyRelu",
               "PRelu", "Elu", "Softplus", "Gelu", "none")  # fmt: skip


@dataclass
class GraphMaker:
    """Images are [N, C, H, W]."""

    rng: Rng
    dtype: str
    maker: Maker = field(init=False)
    #: Scale and zero point of values that are dequantized, by their names.
    stored: dict[str, list[str]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.maker = Maker(self.rng, "onnx", 21)

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def shape(self, x: str) -> tuple[int, ...]:
        return self.maker.tensors[x].shape

    def constant(self, data: Any, dtype: str = "") -> str:
        return self.maker.constant(np.asarray(data, dtype or None))

    def ints(self, *numbers: int) -> str:
        return self.constant(numbers, "int64")

    def nodes(self, kind: str, inputs: list[str], count: int = 1, **fields: Any) -> list[str]:
        maker = self.maker
        outputs = [maker.name(f"v{n}_") for n in range(count)]
        step = Step(kind, tuple(inputs), tuple(outputs), fields)
        made = output_types(step, {n: maker.tensors[n] for n in inputs if n}, maker.opset)
        if made is None or any(t.open or not all(t.shape) for t in made):
            raise LookupError(f"{kind} of {[self.shape(n) for n in inputs if n]} {fields}")
        maker.tensors.update(zip(outputs, made, strict=True))
        maker.steps.append(step)
        return outputs

    def node(self, kind: str, inputs: list[str], **fields: Any) -> str:
        return self.nodes(kind, inputs, **fields)[0]

    # ---- Stored values ----

    @property
    def is_stored(self) -> bool:
        return self.dtype != "float32" and not (self.dtype == "mixed" and self.chance(0.4))

    def parameters(self, kind: str) -> list[str]:
        """Scale and zero point for the results of an operator."""
        dtype = self.dtype if self.dtype in ("int16", "uint8") else "int8"
        scale, zero = float(self.rng.uniform(0.015, 0.06)), int(self.rng.integers(-128, 128))
        if kind in ("Sigmoid", "Softmax", "HardSigmoid"):
            scale, zero = 1 / 256, -128
        elif kind == "Tanh":
            scale, zero = 1 / 128, 0
        elif kind in ("Relu", "Clip") or self.chance(0.2):
            zero = self.one_of(-128, -128, 0)
        if dtype == "int16":
            scale, zero = scale / 256, 0
        zero += 128 * (dtype == "uint8")
        return [self.constant(scale, "float32"), self.constant(zero, dtype)]

    def store(self, x: str, kind: str = "", like: str = "") -> str:
        """The value quantized and dequantized, if values are; like: with the parameters of this."""
        if not self.is_stored or self.maker.tensors[x].dtype != "float32":
            return x
        given = self.stored.get(like) if like and self.chance(0.85) else None
        if like and given is None and self.chance(0.5):
            return x
        given = given or self.parameters(kind)
        made = self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *given]), *given])
        self.stored[made] = given
        return made

    def weights(self, shape: tuple[int, ...], terms: int, axis: int = 0) -> str:
        """Floats, or int8 that are dequantized for each channel or as one."""
        if not self.is_stored:
            return self.constant(self.rng.standard_normal(shape) / max(terms, 1) ** 0.5, "float32")
        stored = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = np.float32(self.rng.uniform(0.6, 1.6, shape[axis]) / 73 / max(terms, 1) ** 0.5)
        if self.dtype == "uint8" and self.chance(0.5):
            given = [self.constant(scales[0]), self.constant(self.one_of(128, 120), "uint8")]
            stored = (stored.astype(np.int16) + 128).astype(np.uint8)
            return self.node("DequantizeLinear", [self.constant(stored), *given])
        if self.chance(0.3):
            given = [self.constant(scales[0]), self.constant(0, "int8")]
            return self.node("DequantizeLinear", [self.constant(stored), *given])
        given = [self.constant(scales), self.constant(np.zeros(shape[axis], np.int8))]
        return self.node("DequantizeLinear", [self.constant(stored), *given], axis=axis)

    def bias(self, x: str, weights: str, count: int) -> list[str]:
        """Sometimes none; of stored values int32 by the product of their scales."""
        if self.chance(0.2):
            return []
        made = next((s for s in self.maker.steps if weights in s.outputs), None)
        if x not in self.stored or made is None:
            return [self.constant(self.rng.standard_normal(count) / 4, "float32")]
        data = [self.maker.tensors[n].data for n in (self.stored[x][0], made.inputs[1])]
        scale = np.float32(data[0]) * np.asarray(data[1])
        stored = self.constant(np.int32(self.rng.standard_normal(count) / 4 / scale))
        given = [self.constant(scale), self.constant(np.zeros(scale.shape, np.int32))]
        axis = {"axis": 0} if scale.ndim else {}
        return [self.node("DequantizeLinear", [stored, *given], **axis)]

    # ---- Layers ----

    def activation(self, x: str, kinds: tuple[str, ...] = ACTIVATIONS) -> str:
        kind = self.one_of(*kinds)
        if kind == "none":
            return self.store(x)
        inputs = [x]
        if kind == "Clip":
            inputs += [self.constant(0, "float32"), self.constant(6, "float32")]
        elif kind == "PRelu":
            slopes = (self.shape(x)[1], 1, 1) if len(self.shape(x)) == 4 else (1,)
            inputs.append(self.weights(slopes, 16))
        elif self.chance(0.3):  # a value that has two readers, or is quantized twice
            inputs = [self.store(x)]
        return self.store(self.node(kind, inputs), kind)

    def convolution(self, x: str, outputs: int = 0, kernel: int = 0, groups: int = 1,
                    kind: str = "Conv", **fields: Any) -> str:  # fmt: skip
        channels, *extents = self.shape(x)[1:]
        outputs = (outputs or self.one_of(*CHANNELS)) if groups == 1 else outputs or channels
        kernel = kernel or self.one_of(1, 3, 3, 5)
        sizes = [kernel if extent > 1 or kind != "Conv" else 1 for extent in extents]
        if not fields:
            reach = self.one_of(1, 1, 1, 2)
            fields = {"pads": [(k - 1) * reach // 2 for k in sizes] * 2,
                      "strides": [self.one_of(1, 1, 2)] * len(sizes),
                      "dilations": [reach] * len(sizes)}  # fmt: skip
        is_first = kind == "Conv"
        shape = (outputs, channels // groups) if is_first else (channels, outputs // groups)
        terms = int(np.prod(sizes)) * channels // groups
        w = self.weights((*shape, *sizes), terms, 0 if is_first else 1)
        return self.node(kind, [x, w, *self.bias(x, w, outputs)], group=groups, **fields)

    def dense(self, x: str, outputs: int = 0) -> str:
        """Of the last axis: Gemm where there are two, else MatMul."""
        depth, outputs = self.shape(x)[-1], outputs or self.one_of(*CHANNELS, 10)
        if len(self.shape(x)) == 2 and self.chance(0.6):
            w = self.weights((outputs, depth), depth)
            return self.node("Gemm", [x, w, *self.bias(x, w, outputs)], transB=1)
        made = self.node("MatMul", [x, self.weights((depth, outputs), depth, 1)])
        if self.chance(0.5):
            made = self.node("Add", [made, self.constant(self.rng.standard_normal(outputs) / 4,
                                                         "float32")])  # fmt: skip
        return made

    def moved(self, kind: str, x: str, *more: str, **fields: Any) -> str:
        return self.store(self.node(kind, [x, *more], **fields), like=x)

    def image_input(self, like: tuple[int, ...] = ()) -> str:
        shape = like or (self.one_of(1, 1, 1, 2), self.one_of(1, 2, 3, 4, 8),
                         int(self.rng.integers(1, 13)), int(self.rng.integers(1, 13)))  # fmt: skip
        if self.dtype in ("int8", "uint8") and self.chance(0.3):  # stored outside
            x = self.maker.input(Tensor(shape, self.dtype))
            given = self.parameters("")
            made = self.node("DequantizeLinear", [x, *given])
            self.stored[made] = given
            return made
        return self.store(self.maker.input(Tensor(shape, "float32", within=(-3, 3))))

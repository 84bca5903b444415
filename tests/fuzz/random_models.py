"""Random valid models of ONNX and TFLite, of the operators that edgec can import.

`random_onnx(rng)` and `random_tflite(rng)` make a `Model`: tensors and steps that a shrinker can
take away one by one, and `Model.write` makes a file of. Element-wise operators come from edgec's
own tables, so a new row is generated without a word here. Shapes of ONNX values come from the onnx
package, and a step that ONNX Runtime or edgec refuses as a model of one node is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tflite_builder import TfliteBuilder

Rng = np.random.Generator
Array = np.ndarray[Any, Any]

#: Elements of one value at most.
MOST_ELEMENTS = 4000
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17)
#: Operators of a model: most are short, since that many more of them are tried.
LENGTHS = (1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7, 11)
SCALES = (0.0078125, 0.05, 0.1, 0.25, 0.5, 0.0371, 1.0)
#: Versions of the ONNX domains that are not the standard one.
OTHER_OPSETS = {"ai.onnx.ml": 3}


@dataclass(frozen=True)
class Tensor:
    """A value; a constant has `data`. scale, zero_point: of its quantization along `axis`.

    open: axes of which data decide how much there is of them. variable: it is a state. within: an
    input's least and largest number, None for any.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    data: Array | None = None
    open: tuple[int, ...] = ()
    variable: bool = False
    within: tuple[float, float] | None = None


@dataclass(frozen=True)
class Step:
    """An operator by its name in the format; `options` is the table of TFLite's `fields`.

    captured: values that its bodies read.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fields: dict[str, Any] = field(default_factory=dict)
    options: str = ""
    captured: tuple[str, ...] = ()


def onnx_node(step: Step) -> Any:
    """A step as a node; what is before the last dot of its kind is a domain."""
    from onnx import helper

    domain, _, kind = step.kind.rpartition(".")
    name = f"n_{step.outputs[0]}"
    return helper.make_node(
        kind, step.inputs, step.outputs, name=name, domain=domain, **step.fields
    )


def onnx_opsets(steps: Iterable[Step], opset: int) -> list[Any]:
    """The versions of the domains that the steps are of."""
    from onnx import helper

    domains = sorted({step.kind.rpartition(".")[0] for step in steps} - {""})
    others = [helper.make_opsetid(domain, OTHER_OPSETS[domain]) for domain in domains]
    return [helper.make_opsetid("", opset), *others]


@dataclass(frozen=True)
class Model:
    """A model that `write` makes a file of. format: "onnx" or "tflite"."""

    format: str
    tensors: dict[str, Tensor]
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int = 17

    def write(self) -> bytes:
        """The bytes of the file."""
        return self._onnx() if self.format == "onnx" else self._tflite()

    def live(self) -> Model:
        """Without steps and tensors that no output depends on; inputs stay while one is left."""
        needed, steps = set(self.outputs), []
        for step in reversed(self.steps):
            if needed & set(step.outputs):
                needed |= {*step.inputs, *step.captured}
                steps.insert(0, step)
        inputs = tuple(n for n in self.inputs if n in needed) or self.inputs[:1]
        named = needed | set(inputs) | {name for step in steps for name in step.outputs}
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in named}
        return replace(self, tensors=tensors, steps=tuple(steps), inputs=inputs)

    def text(self) -> str:
        """What a person reads of it, a line for each step."""

        def word(name: str) -> str:
            tensor = self.tensors.get(name)
            if tensor is None:
                return repr(name)
            kind = f"{tensor.dtype}{list(tensor.shape)}"
            if tensor.scale:
                kind += f" {tensor.scale[0]:g},{tensor.zero_point[0]}"
            if tensor.data is not None:
                kind += f" = {tensor.data.reshape(-1)[:4].tolist()}"
            return f"{name}: {kind}"

        lines = [f"{self.format} {self.opset} inputs {', '.join(map(word, self.inputs))}"]
        lines += [
            f"  {', '.join(map(word, s.outputs))} = {s.kind}({', '.join(map(word, s.inputs))})"
            f" {s.fields or ''}" for s in self.steps
        ]  # fmt: skip
        return "\n".join([*lines, f"  outputs {', '.join(self.outputs)}"])

    def _onnx(self) -> bytes:
        import onnx
        from onnx import helper, numpy_helper

        def entry(name: str) -> Any:
            tensor = self.tensors[name]
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
            shape = [f"{name}_{axis}" if axis in tensor.open else extent
                     for axis, extent in enumerate(tensor.shape)]  # fmt: skip
            return helper.make_tensor_value_info(name, kind, shape)

        constants = [
            numpy_helper.from_array(tensor.data, name)
            for name, tensor in self.tensors.items() if tensor.data is not None
        ]  # fmt: skip
        graph = helper.make_graph(
            [onnx_node(s) for s in self.steps], "random", [entry(n) for n in self.inputs],
            [entry(n) for n in self.outputs], constants,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=onnx_opsets(self.steps, self.opset))
        model.ir_version = 10 if self.opset > 20 else 9
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _tflite(self) -> bytes:
        builder = TfliteBuilder()
        numbers = {
            name: builder.tensor(
                name, t.shape, t.dtype, scale=t.scale, zero_point=t.zero_point or None,
                axis=t.axis, data=t.data, variable=t.variable,
            )
            for name, t in self.tensors.items()
        }  # fmt: skip
        for step in self.steps:
            builder.operator(
                step.kind, [numbers.get(n, -1) for n in step.inputs],
                [numbers[n] for n in step.outputs], step.options, **step.fields,
            )  # fmt: skip
        return builder.build([numbers[n] for n in self.inputs], [numbers[n] for n in self.outputs])


def random_shape(rng: Rng, rank: int | None = None) -> tuple[int, ...]:
    """Odd extents, not too many elements."""
    rank = int(rng.choice([1, 2, 3, 4, 4, 4])) if rank is None else rank
    while True:
        shape = tuple(int(n) for n in rng.choice(EXTENTS, rank))
        shape = (1, *shape[1:]) if rank == 4 and rng.random() < 0.9 else shape
        if math.prod(shape) <= MOST_ELEMENTS // 4:
            return shape


def random_array(
    rng: Rng, shape: Sequence[int], dtype: str, within: tuple[float, float] | None = None
) -> Array:
    """Values of all sizes; floats of three digits, so that many sums are ties."""
    if within is not None and dtype != "bool":
        if dtype.startswith("float"):
            return np.asarray(rng.uniform(*within, shape), dtype)
        types = np.iinfo(dtype)
        low, high = max(int(within[0]), types.min), min(int(within[1]), types.max)
        return np.asarray(rng.integers(low, high, shape, dtype, endpoint=True))
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if dtype.startswith("float"):
        return np.asarray(rng.integers(-800, 800, shape) / rng.choice([64, 100, 256]), dtype)
    info = np.iinfo(dtype)
    low, high = max(info.min, -100), min(info.max, 100)
    if info.bits == 8 and rng.random() < 0.5:
        low, high = info.min, info.max
    return np.asarray(rng.integers(low, high, shape, endpoint=True), dtype)


class Maker:
    """A model in the making."""

    def __init__(self, rng: Rng, format_name: str, opset: int = 17) -> None:
        self.rng, self.format, self.opset = rng, format_name, opset
        self.tensors: dict[str, Tensor] = {}
        self.steps: list[Step] = []
        self.inputs: list[str] = []

    def name(self, stem: str) -> str:
        return f"{stem}{len(self.tensors)}"

    def input(self, tensor: Tensor) -> str:
        name = self.name("x")
        self.tensors[name] = tensor
        self.inputs.append(name)
        return name

    def constant(self, data: Array, **quant: Any) -> str:
        name = self.name("c")
        data = np.asarray(data)
        self.tensors[name] = Tensor(data.shape, data.dtype.name, data=data, **quant)
        return name

    def values(self, which: Callable[[Tensor], bool]) -> list[str]:
        """Names of values that are no constants and that hold; of ONNX's, the size may be open."""
        return [
            n for n, t in self.tensors.items()
            if t.data is None and not (t.open and self.format == "tflite") and not t.variable
            and which(t)
        ]  # fmt: skip

    def pick(self, which: Callable[[Tensor], bool] = lambda t: True) -> str:
        """One of those, later and open ones more often. Raises LookupError where there is none."""
        found = self.values(which)
        if not found:
            raise LookupError
        opened = [name for name in found if self.tensors[name].open]
        if opened and self.rng.random() < 0.5:
            found = opened
        if self.rng.random() < 0.6:
            return found[-1 - int(self.rng.integers(min(3, len(found))))]
        return found[int(self.rng.integers(len(found)))]

    def finish(self) -> Model:
        """The model so far; its outputs are ends, views, and sometimes inside values or inputs."""
        read = {name for step in self.steps for name in (*step.inputs, *step.captured)}
        made = [name for step in self.steps for name in step.outputs]
        ends = [name for name in made if name not in read]
        more = [name for name in made if name in read and self.rng.random() < 0.15]
        kept = ends[-1:] + [name for name in ends[:-1] if self.rng.random() < 0.7]
        outputs = tuple(dict.fromkeys([*kept, *more]))
        model = Model(self.format, dict(self.tensors), tuple(self.steps), tuple(self.inputs),
                      outputs, self.opset)  # fmt: skip
        # Unused inputs and steps stay now and then.
        return model if self.rng.random() < 0.2 else model.live()

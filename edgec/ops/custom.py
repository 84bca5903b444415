"""custom: an operator that a user declares in Python, computed by a C function of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, Arrays, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.foreign import Foreign, computed, find_foreign, register_foreign
from edgec.loop.lowering import Lowering
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, declare_importer
from edgec.resources import plain_file

Number = int | float
#: The declared type of a result: shape, dtype, and quantization of stored integers.
Declared = tuple[Any, ...]


@dataclass(frozen=True)
class CustomAttrs:
    """symbol: the C function. numbers: its arguments after the pointers. shapes, dtypes, quants: of
    each result. onnx: "domain.name" in ONNX files, "" if none. given: the node's attributes there,
    (name, number, text or tuple of these); None if it has others. room: scratch bytes of an
    accelerator for a group of operators. macs: MACs of that group.
    """

    symbol: str
    numbers: tuple[Number, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    quants: tuple[Quant | None, ...]
    onnx: str = ""
    given: tuple[tuple[str, Any], ...] | None = ()
    room: int = 0
    macs: int = 0


@register
class Custom(Op[CustomAttrs]):
    """Any inputs -> the results that its declaration says."""

    name = "custom"
    attrs_class = CustomAttrs
    fusion = Fusion.OPAQUE
    is_foreign = True

    def infer(self, attrs: CustomAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The types that were declared when the node was read."""
        if not inputs or not attrs.shapes:
            raise TypeMismatch(f"{attrs.symbol} needs an input and a result")
        return tuple(map(TensorType, attrs.shapes, attrs.dtypes, attrs.quants))

    def macs(self, attrs: CustomAttrs, inputs: Types) -> int:
        """The products of the operators that an accelerator runs."""
        return attrs.macs

    def evaluate(
        self, attrs: CustomAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """The declared reference."""
        results = [(type_.shape, type_.dtype) for type_ in output_types]
        return tuple(computed(_known(attrs.symbol), list(inputs), results, attrs.numbers))

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One call."""
        tensors = [
            target.table("constant", value.data) if isinstance(value, Constant) else value
            for value in inputs
        ]
        target.call(node.attrs.symbol, tensors, node.attrs.numbers, node.attrs.room)
        return target.targets[0]

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """The node as it was declared, which other programs must know as well."""
        attrs: CustomAttrs = node.attrs
        domain, _, kind = attrs.onnx.rpartition(".")
        if not kind or attrs.given is None:
            raise ImportFailed(
                f"{attrs.symbol} cannot be written as ONNX: "
                + ("an attribute has another type" if kind else "it has no name there"),
                hint="" if kind else 'add onnx="domain.Name" to its declaration',
            )
        outputs = [out.define_own(value) for value in node.outputs]
        inputs = [out.own(value) for value in node.inputs]
        out.emit_several(kind, inputs, outputs, domain=domain, **dict(attrs.given))


def _known(symbol: str) -> Foreign:
    found = find_foreign(symbol)
    if found is None:
        raise EdgecError(
            f"the C function {symbol} is not declared",
            hint="load its declaration: --custom-ops FILE.py, or edgec.custom_op(...)",
        )
    return found


@dataclass(frozen=True)
class _Declaration:
    symbol: str
    onnx: str
    results: Callable[..., Any]
    numbers: Callable[..., Any] | None
    room: int = 0
    macs: int = 0


def declare(
    *,
    symbol: str,
    source: str | Path,
    results: Callable[[Types, Mapping[str, Any]], Sequence[Declared]],
    reference: Callable[..., Any],
    onnx: str = "",
    tflite: str = "",
    numbers: Callable[[Types, Mapping[str, Any]], Sequence[Number]] | None = None,
    instructions: float = 0.0,
) -> None:
    """Declare an operator that a C function computes, so that models which use it can be built.

    onnx: "domain.name" in ONNX files. tflite: its custom code in TFLite files. symbol: the C
    function. It takes a pointer to each input in the node's order, then a pointer to each result,
    which it writes completely, then the numbers as int32_t or float. source: the C file that
    defines it; every build gets a copy. results: of the input types and the attributes, (shape,
    dtype) of each result, or (shape, dtype, scale, zero_point). numbers: of the same arguments, the
    numbers after the pointers. reference: the function in NumPy, from the input arrays and the
    numbers to the result or a tuple of results; every bit must equal the C function's.
    instructions: about how many one call executes.

    Raises EdgecError for a file that cannot be read, or an invalid name.
    """
    if not (onnx or tflite) or (onnx and "." not in onnx):
        raise EdgecError(
            f"the operator of {symbol} has no name in a model file",
            hint='give onnx="domain.Name" or tflite="Name", or both',
        )
    path = Path(source)
    register_foreign(Foreign(symbol, path, _text_of(path), reference, instructions))
    append = partial(_appended, declaration=_Declaration(symbol, onnx, results, numbers))
    if onnx:
        declare_importer("onnx", onnx, append)
    if tflite:
        declare_importer("tflite", f"CUSTOM:{tflite}", append)


def declare_group(foreign: Foreign, results: Types, room: int, macs: int) -> str:
    """Declare a function that an accelerator runs for a group of operators of a TFLite file.

    room: bytes of memory that it uses. macs: multiply-accumulates of the group. Returns the kind
    of an operator that stands for it.
    """
    register_foreign(foreign)
    declared = [(type_.shape, type_.dtype) for type_ in results]
    made = _Declaration(foreign.symbol, "", lambda inputs, given: declared, None, room, macs)
    kind = f"CUSTOM:{foreign.symbol}"
    declare_importer("tflite", kind, partial(_appended, declaration=made))
    return kind


def is_accelerated(node: Node) -> bool:
    """Whether an accelerator runs a node, which stands for operators of the model's file."""
    return isinstance(node.attrs, CustomAttrs) and node.attrs.room > 0


def _text_of(path: Path) -> str:
    try:
        return plain_file(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EdgecError(f"cannot read {path}: {error}") from error


def _appended(builder: GraphBuilder, raw: RawNode, declaration: _Declaration) -> tuple[Value, ...]:
    inputs = [raw.operand(number) for number in range(len(raw.inputs))]
    types = [value.type for value in inputs]
    attributes = dict(raw.attributes)
    try:
        results = [tuple(each) for each in declaration.results(types, attributes)]
        numbers = () if declaration.numbers is None else declaration.numbers(types, attributes)
        made = [_result(each, place, raw) for place, each in enumerate(results)]
        given = tuple(map(_number, numbers))
    except EdgecError:
        raise
    except Exception as error:  # the user's own code
        raise ImportFailed(
            f"the declaration of {declaration.symbol} failed: {type(error).__name__}: {error}"
        ) from error
    attrs = CustomAttrs(
        declaration.symbol, given, tuple(t.shape for t in made), tuple(t.dtype for t in made),
        tuple(t.quant for t in made), declaration.onnx, _plain(attributes), declaration.room,
        declaration.macs,
    )  # fmt: skip
    names = [raw.name, *(f"{raw.name}:{n}" for n in range(1, len(made)))]
    node = builder.node("custom", inputs, attrs, name=raw.name, output_names=names,
                        sources=(raw.name,))  # fmt: skip
    return node.outputs


def _plain(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...] | None:
    """Attributes that ONNX can hold; None if there are others."""
    found = []
    for name, value in attributes.items():
        plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        listed = tuple(plain) if isinstance(plain, (list, tuple)) else (plain,)
        if not all(isinstance(each, (bool, int, float, str)) for each in listed):
            return None
        found.append((name, listed if isinstance(plain, (list, tuple)) else plain))
    return tuple(found)


def _result(declared: Declared, place: int, raw: RawNode) -> TensorType:
    """The type of a result; stored integers have the file's quantization by default."""
    shape, dtype, *rest = declared
    extents = tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents) or len(rest) not in (0, 2):
        raise ImportFailed(f"result {place} is declared as {declared}")
    quant = Quant((float(rest[0]),), (int(rest[1]),)) if rest else None
    stated = raw.output_types[place] if place < len(raw.output_types) else None
    if quant is None and stated is not None and stated.dtype == dtype:
        quant = stated.quant
    return TensorType(extents, np.dtype(dtype).name, quant)


def _number(value: Any) -> Number:
    """An int of 32 bits, or a float as float32 holds it."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        if not -(2**31) <= int(value) < 2**31:
            raise ImportFailed(f"{value} does not fit in int32_t")
        return int(value)
    number = float(np.float32(value))
    if not math.isfinite(number):
        raise ImportFailed(f"{value} is not a finite number")
    return number

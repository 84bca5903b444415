"""Any operator as ONNX: each call of its loop program becomes a node on arrays.

Operators without an ONNX form are exported this way. Integers are equal in every bit; floats differ
in the order of sums and in the last bits of functions. Not supported: bits of floats, types of 16
and fewer bits, and very long loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from operator import methodcaller
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.ir import Constant, Node
from edgec.graph.types import Array
from edgec.loop import on_arrays, read_arrays
from edgec.loop.dtype import is_float
from edgec.loop.tape import Program
from edgec.loop.values import function_of
from edgec.numerics import fixed_point
from edgec.numerics.float_math import float_maximum, float_minimum
from edgec.ops.onnx_arrays import Operand, WrittenArray, shape_of, where
from edgec.ops.onnx_graph import OnnxGraph

#: Most calls of a program, most elements at offsets of their own, most steps one after the other.
MOST_CALLS, MOST_ELEMENTS, MOST_STEPS = 4000, 1 << 20, 512
#: Float functions that ONNX has as operators.
_FLOATS = {f"{name.lower()}_f32": name for name in (
    "Exp", "Log", "Sigmoid", "Tanh", "Erf", "Sqrt", "Floor", "Ceil", "Round", "Sin", "Cos", "Atan",
    "Sinh", "Cosh",
)} | {"exp_f64": "Exp", "log_f64": "Log"}  # fmt: skip
_REDUCTIONS: Mapping[Any, str] = {
    np.add: "ReduceSum", np.multiply: "ReduceProd", np.minimum: "ReduceMin",
    np.maximum: "ReduceMax",
}  # fmt: skip


def write_view(out: OnnxGraph, node: Node) -> None:
    """Write a node that is the same elements in another form."""
    (x,), value = node.inputs, node.output
    given = WrittenArray(out, out.own(x), x.type.shape, x.type.dtype)
    out.emit("Identity", [given.reshape(*value.type.shape).name], out.define_own(value))


def write_program(
    out: OnnxGraph, node: Node, program: Program, *, most_calls: int = MOST_CALLS
) -> None:
    """Write a node by its program. Raises ImportFailed for calls that ONNX lacks."""
    if len(program.calls) > most_calls:
        raise ImportFailed(f"{len(program.calls)} steps, at most {most_calls} are written")
    slots: list[Any] = list(program.slots)
    for slot, value in zip(program.inputs, node.inputs, strict=True):
        if isinstance(value, Constant):
            slots[slot] = value.data
            continue
        slots[slot] = WrittenArray(out, out.own(value), value.type.shape, value.type.dtype)
    with np.errstate(all="ignore"):
        for function, arguments, made, _ in program.calls:
            slots[made] = _called(function, [slots[slot] for slot in arguments])
    for slot, value in zip(program.outputs, node.outputs, strict=True):
        found = slots[slot]
        if not isinstance(found, WrittenArray):
            name = out.initializer(f"{value.name}/known", np.asarray(found))
            found = WrittenArray(out, name, value.type.shape, value.type.dtype)
        out.emit("Identity", [found.broadcast_to(value.type.shape).name], out.define_own(value))


def _called(function: Callable[..., Any], operands: Sequence[Operand]) -> Any:
    """The result of a program's call."""
    if not any(isinstance(x, WrittenArray) for x in operands):
        return function(*operands)
    if isinstance(function, partial):
        kind, given = function.func, function.args
    else:
        kind, given = type(function), (function,)
    if kind in _WRITTEN:
        return _WRITTEN[kind](*given, *operands)
    if kind is FunctionType and function in _PLAIN:
        return _PLAIN[function](*operands)
    raise ImportFailed(f"the function {getattr(function, '__name__', function)}")


def _applied(function: Callable[..., Any], *operands: Operand) -> Any:
    """NumPy's function, which writes itself."""
    return function(*operands)


def _seen(view: read_arrays.View, array: WrittenArray) -> WrittenArray:
    return _taken(view.offsets, array)


def _picked(function: read_arrays.Picked, array: Any, *at: Any) -> WrittenArray:
    """The elements at computed indices."""
    near = next(x for x in (array, *at) if isinstance(x, WrittenArray))
    offsets: Any = np.zeros((), np.int64)
    for axis, (grid, extent) in enumerate(zip(at, function.shape, strict=True)):
        inside = np.clip(grid.astype(np.int64), 0, extent - 1)
        offsets = offsets + inside * prod(function.shape[axis + 1 :])
    return _taken(offsets, near.known(array))


def _taken(offsets: Any, array: WrittenArray) -> WrittenArray:
    if prod(offsets.shape) > MOST_ELEMENTS:
        raise ImportFailed(f"{prod(offsets.shape)} elements at offsets of their own")
    return array.taken(offsets)


def _shaped(shape: tuple[int, ...], value: WrittenArray) -> WrittenArray:
    return value.broadcast_to(shape)


def _stored(
    indices: tuple[Array, ...], view: object, buffer: Operand, value: Operand
) -> WrittenArray:
    """The buffer with a value at some indices."""
    near = next(x for x in (buffer, value) if isinstance(x, WrittenArray))
    shape = shape_of(buffer)
    flat = np.zeros((), np.int64)
    for axis, grid in enumerate(indices):
        flat = flat + grid.astype(np.int64) * prod(shape[axis + 1 :])
    where_to = np.broadcast_to(flat, np.shape(indices[0]) if indices else ()).reshape(-1)
    whole, part = (near.known(x) for x in (buffer, value))
    rows = part.broadcast_to(np.shape(indices[0]) if indices else ()).reshape(where_to.size)
    flat_whole = whole.reshape(prod(shape))
    made = near.emit("ScatterElements", [flat_whole, where_to, rows], flat_whole.shape,
                     whole.dtype, axis=0)  # fmt: skip
    return made.reshape(*shape)


def _rows(x: Any, extents: tuple[int, ...], shape: tuple[int, ...], near: WrittenArray) -> Any:
    """The operands of all steps: the first axis goes over the steps."""
    if prod((*extents, *shape)) > MOST_ELEMENTS:
        raise ImportFailed(f"a reduction of {prod((*extents, *shape))} steps")
    return near.known(x).broadcast_to((*extents, *shape)).reshape(prod(extents), *shape)


def _reduced(
    function: Any, extents: tuple[int, ...], shape: tuple[int, ...], value: Any, *operands: Any
) -> Any:
    """All steps of a sum, a product, the smallest or the largest at once."""
    near = next(x for x in (value, *operands) if isinstance(x, WrittenArray))
    combine = function_of(
        {np.minimum: "min", np.maximum: "max"}.get(function, ""), value.dtype.name
        if isinstance(value, np.ndarray) else value.dtype,
    ) if function in (np.minimum, np.maximum) else function  # fmt: skip
    for x in operands:
        rows = _rows(x, extents, shape, near)
        if function not in _REDUCTIONS:
            value = _stepwise([(function, False)], rows.shape[0], value, [rows])
            continue
        wide = rows if is_float(rows.dtype) else rows.astype("int64")
        first = np.zeros(1, np.int64)
        total = wide.emit(_REDUCTIONS[function], [wide, first], shape, wide.dtype, keepdims=0)
        total = total.astype(rows.dtype)
        value = _called(combine, [value, total])
    return value


def _stepwise(chain: Any, count: int, value: Any, rows: Sequence[Any]) -> Any:
    """Step after step."""
    if count > MOST_STEPS:
        raise ImportFailed(f"{count} steps one after the other, at most {MOST_STEPS} are written")
    for step in range(count):
        for (function, swap), row in zip(chain, rows, strict=True):
            one = row.emit("Gather", [row, np.array(step)], row.shape[1:], row.dtype, axis=0)
            value = _called(function, [one, value] if swap else [value, one])
    return value


def _in_order(
    chain: Any, extents: tuple[int, ...], shape: tuple[int, ...], value: Any, *operands: Any
) -> Any:
    near = next(x for x in (value, *operands) if isinstance(x, WrittenArray))
    rows = [_rows(x, extents, shape, near) for x in operands]
    return _stepwise(chain, prod(extents), value, rows)


def _intrinsic(function: MethodType, *operands: Any) -> Any:
    """A scalar function of the runtime: ONNX's own, or its meaning on arrays."""
    definition: Any = function.__self__  # see IntrinsicDef.map
    name = definition.name
    if name in _MEANINGS:
        return _MEANINGS[name](*operands)
    if name in _OF_ARRAYS and definition.on_arrays is not None:
        return _as_dtype(definition.on_arrays(*operands), definition.dtype)
    if name not in _OF_INTEGERS:
        raise ImportFailed(f"the function {name}")
    wide = [x.astype(np.int64) for x in operands]
    return _as_dtype(definition.meaning(*wide), definition.dtype)


def _own(kind: str, x: WrittenArray) -> WrittenArray:
    """ONNX's function of floats."""
    return x.emit(kind, [x], x.shape, x.dtype)


def _as_dtype(value: Any, dtype: str) -> WrittenArray:
    made: WrittenArray = value.astype(dtype)
    return made


def _bit_length(x: Any) -> WrittenArray:
    """Return how many powers of two do not exceed a number from 0 on."""
    powers = np.int64(1) << np.arange(32, dtype=np.int64)
    wide: Any = x.astype("int64").reshape(*x.shape, 1)
    reached = np.greater_equal(wide, powers).astype("int32")
    made: WrittenArray = reached.emit(
        "ReduceSum", [reached, np.full(1, -1, np.int64)], x.shape, "int32", keepdims=0
    )
    return made


def _nearest(x: Any) -> WrittenArray:
    """The nearest int32, ties to even."""
    limited = np.minimum(np.maximum(x, np.float32(-(2.0**31))), np.float32(2.0**31 - 128))
    return _as_dtype(np.rint(np.where(np.isnan(x), np.float32(0), limited)), "int32")


def _by_float(acc: WrittenArray, scale: Any) -> WrittenArray:
    """float32(acc) * scale, rounded half to even."""
    return _nearest(acc.astype("float32") * scale)


def _rounded_twice(x: Any, multiplier: Any, shift: Any) -> WrittenArray:
    """`requantize_tflm`, also by computed factors."""
    wide = shift.astype(np.int64)
    left, right = np.maximum(wide, 0), np.maximum(-wide, 0)
    raised = x.astype(np.int64)
    if isinstance(left, WrittenArray) or left.any():
        raised = (raised << left).astype(np.int32).astype(np.int64)
    high = fixed_point.rounding_doubling_high_multiply(raised, multiplier)
    return _as_dtype(fixed_point.rounding_divide_by_power_of_two(high, right), "int32")


def _fma(a: Any, b: Any, c: Any) -> WrittenArray:
    """Compute it in float64, as its meaning says."""
    return _as_dtype(a.astype("float64") * b.astype("float64") + c.astype("float64"), "float32")


def _remainder(a: Any, b: Any) -> WrittenArray:
    """C's fmod."""
    near: WrittenArray = a if isinstance(a, WrittenArray) else b
    return near.emit("Mod", [a, b], np.broadcast_shapes(a.shape, b.shape), near.dtype, fmod=1)


def _quotient(a: Any, b: Any) -> WrittenArray:
    """C's, of integers."""
    near: WrittenArray = a if isinstance(a, WrittenArray) else b
    wide = "int64" if near.dtype in ("int64", "uint32") else "int32"
    shape = np.broadcast_shapes(a.shape, b.shape)
    made = near.emit("Div", [a.astype(wide), b.astype(wide)], shape, wide)
    return made.astype(near.dtype)


def _chosen(compare: Callable[..., Any]) -> Callable[..., Any]:
    """C's `a < b ? a : b`."""

    def choose(a: Any, b: Any) -> WrittenArray:
        near = a if isinstance(a, WrittenArray) else b
        return where(near, compare(a, b), a, b)

    return choose


def _rounded_root(x: WrittenArray) -> WrittenArray:
    """Start from the root of a double, which is off by one at most. The rest of a root is so
    small that it is known modulo 2**64."""
    whole = x.astype("int64")
    root: Any = x.emit("Sqrt", [x.astype("float64")], x.shape, "float64").astype("int64")
    root = root - (whole - root * root < 0).astype("int64")
    root = root + (whole - root * root > root * 2).astype("int64")
    is_short = (whole >= 0) & (whole < 1 << 32)
    largest = np.where(is_short, np.int64(0xFFFF), np.int64(0xFFFFFFFF))
    is_next = (whole - root * root > root) & (root < largest)
    return _as_dtype(root + is_next.astype("int64"), "uint32")


#: Functions of floats or bits by others.
_MEANINGS: dict[str, Callable[..., WrittenArray]] = {
    **{name: partial(_own, kind) for name, kind in _FLOATS.items()},
    "round_half_even_f32": _nearest,
    "round_half_even_bounded_f32": _nearest,
    "requantize_onnx": _by_float,
    "requantize_tflm": _rounded_twice,
    "requantize_tflm_right": _rounded_twice,
    "fma_f32": _fma,
    "bit_length_u32": _bit_length,
    "rounded_sqrt_u64": _rounded_root,
    "count_leading_zeros": lambda x: 32 - _bit_length(x),
    "fmod_f32": _remainder,
    "fmod_f64": _remainder,
    "rsqrt_f32": lambda x: np.float32(1) / x.emit("Sqrt", [x], x.shape, x.dtype),
}
#: Functions whose meaning on arrays is made of NumPy's, and needs no bits of floats.
_OF_ARRAYS = (
    "round_half_away_f32", "round_half_away_f64", "requantize_single", "requantize_tflm16",
    "one_over_one_plus_x", "reciprocal_root", "rounding_doubling_high_multiply",
    "rounding_divide_by_power_of_two",
)  # fmt: skip
#: Functions whose meaning, written for one integer, holds for arrays of int64.
_OF_INTEGERS = ("requantize_tflm16_high", "rescale_parts")
_PLAIN: dict[Any, Callable[..., Any]] = {
    function_of("div", "int32"): _quotient,
    float_minimum: _chosen(np.less),
    float_maximum: _chosen(np.greater),
}
_WRITTEN: dict[Any, Callable[..., Any]] = {
    on_arrays.whole: _shaped,
    on_arrays.copied: _shaped,
    on_arrays.stored_at: _stored,
    on_arrays.in_any_order: _reduced,
    on_arrays.accumulated: _reduced,
    on_arrays.extreme: _reduced,
    on_arrays.first_extreme: _reduced,
    on_arrays.in_order: _in_order,
    read_arrays.taken_at: _taken,
    read_arrays.View: _seen,
    read_arrays.Picked: _picked,
    np.ufunc: _applied,
    methodcaller: _applied,
    type(np.where): _applied,
    MethodType: _intrinsic,
}

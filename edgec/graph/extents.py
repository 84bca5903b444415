"""Open sizes: types whose dimensions are terms over named symbols, each with a range.

`TensorType.shape` holds the upper bounds, for which memory is planned; `extents` has the actual
size of each dimension. Operators do not handle extents: their type relations are evaluated at
several sizes, and the extents are terms that fit all results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.operator import Operator, Signature
from edgec.graph.types import TensorType, Types
from edgec.numerics.fit_term import Sizes, fit_term, value_at
from edgec.numerics.term import Term, Var, as_term

#: Sizes of one symbol at which type relations are asked.
MOST_SAMPLES = 16
#: Sizes one after the other at both ends of a range: windows divide them.
NEIGHBOURS = 4


def open_type(dtype: str, *extents: Term | Var | int) -> TensorType:
    """A tensor type without quantization whose dimensions are these."""
    terms = tuple(map(as_term, extents))
    shape = tuple(term.bounds()[1] for term in terms)
    return TensorType(shape, dtype, extents=terms)


def symbols_of(types: Iterable[TensorType]) -> tuple[Var, ...]:
    """All symbols of some types, by name."""
    found = {var for type_ in types for term in type_.extents or () for var in term.variables()}
    return tuple(sorted(found, key=lambda var: var.name))


def symbols_of_nodes(nodes: Iterable[Node]) -> tuple[Var, ...]:
    """All symbols in the types and attributes of some nodes, by name."""
    nodes = tuple(nodes)
    terms = (term for node in nodes for term in node.op.terms(node.attrs))
    found = {var for term in terms for var in term.variables()}
    found.update(var for n in nodes for body in n.bodies for var in symbols_of_nodes(body.nodes))
    found.update(symbols_of(v.type for node in nodes for v in (*node.inputs, *node.outputs)))
    return tuple(sorted(found, key=lambda var: var.name))


def at_sizes(type_: TensorType, sizes: Sizes) -> TensorType:
    """The closed type where the symbols have these values."""
    if type_.extents is None:
        return type_
    shape = tuple(value_at(term, sizes) for term in type_.extents)
    return replace(type_, shape=shape, extents=None)


def infer_types(
    op: Operator[Any], attrs: Any, bodies: Sequence[Signature], inputs: Types
) -> tuple[TensorType, ...]:
    """An operator's type relation; its outputs are open where its inputs are."""
    if bodies or (not symbols_of(inputs) and not op.terms(attrs)):
        return op.infer_bodies(attrs, bodies, *inputs)
    return _open_types(op, attrs, tuple(inputs))


@lru_cache(maxsize=1024)  # a module is verified after every pass
def _open_types(
    op: Operator[Any], attrs: Any, inputs: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    """The types of the outputs; each extent is a term that fits all results."""
    stated = [term for term in op.terms(attrs) if term.constant is None]
    symbols = symbols_of((*inputs, *(open_type("int8", term) for term in stated)))
    most = {var: var.stop - 1 for var in symbols}
    largest = [at_sizes(type_, most) for type_ in inputs]
    bounds = op.infer_bodies(op.attrs_of_sizes(attrs, most), (), *largest)

    def asked(sizes: Sizes) -> tuple[TensorType, ...]:
        smaller = [at_sizes(type_, sizes) for type_ in inputs]
        known = op.attrs_of_sizes(op.attrs_at(attrs, largest, smaller), sizes)
        return op.infer_bodies(known, (), *smaller)

    samples = _samples(symbols)
    answers = [asked(sizes) for sizes in samples]
    bases = [*(term for type_ in inputs for term in type_.extents or ()), *stated]
    found = tuple(
        _fitted(type_, [answer[position] for answer in answers], samples, bases)
        for position, type_ in enumerate(bounds)
    )
    if None in found:
        raise TypeMismatch(
            f"{op.name} of {_listed(inputs)}: the sizes of its outputs do not follow from"
            f" {', '.join(var.name for var in symbols)}",
            hint="fix the sizes that are open",
        )
    return tuple(type_ for type_ in found if type_ is not None)


def _fitted(
    bound: TensorType,
    answers: Types,
    samples: Sequence[Sizes],
    bases: Sequence[Term],
) -> TensorType | None:
    """The type that equals each result at its sizes; None if there is none."""
    shapes = list(zip(*(answer.shape for answer in answers), strict=True))
    terms = [fit_term(extents, samples, bases) for extents in shapes]
    known = tuple(term for term in terms if term is not None)
    most = tuple(term.bounds()[1] for term in known)
    if len(known) < len(terms) or most != bound.shape or any(t.bounds()[0] < 0 for t in known):
        return None
    found = opened(bound, known)
    pairs = zip(samples, answers, strict=True)
    return found if all(at_sizes(found, sizes) == answer for sizes, answer in pairs) else None


def function_at(function: Function, sizes: Sizes) -> Function:
    """The function where the symbols have these values: no size is open."""
    if not symbols_of(value.type for value in function.params):
        return function
    values: dict[Value, Value] = {param: _value_at(param, sizes) for param in function.params}
    nodes = []
    for node in function.nodes:
        nodes.append(node_at(node, sizes, values))
    results = tuple(values.get(value, value) for value in function.results)
    states = tuple(
        replace(s, before=values[s.before], after=values.get(s.after, s.after))
        for s in function.states
    )
    params = tuple(values[param] for param in function.params)
    return replace(function, params=params, nodes=tuple(nodes), results=results, states=states)


def _value_at(value: Value, sizes: Sizes) -> Value:
    """The value of the closed type; its source tensor has the same sizes."""
    type_, origin = at_sizes(value.type, sizes), value.origin
    if origin is not None and origin.kept_channels is None and value.type.extents is not None:
        axes = origin.permutation or tuple(range(len(origin.shape)))
        if tuple(origin.shape[axis] for axis in axes) == value.type.shape:
            shape = tuple(type_.shape[axes.index(axis)] for axis in range(len(axes)))
            origin = replace(origin, shape=shape)
    return replace(value, type=type_, origin=origin)


def at_largest(function: Function) -> Function:
    """The function at its largest sizes."""
    symbols = symbols_of(value.type for value in function.params)
    return function_at(function, {var: var.stop - 1 for var in symbols})


def node_at(node: Node, sizes: Sizes, values: dict[Value, Value]) -> Node:
    """The node on values of closed types; its outputs are added to `values`."""
    if not symbols_of_nodes([node]):
        values.update((value, value) for value in node.outputs)
        return replace(node, inputs=tuple(values.get(v, v) for v in node.inputs))
    inputs = tuple(v if isinstance(v, Constant) else values[v] for v in node.inputs)
    most = {var: var.stop - 1 for var in symbols_of(node.input_types)}
    largest = [at_sizes(type_, most) for type_ in node.input_types]
    attrs = node.op.attrs_at(node.attrs, largest, [value.type for value in inputs])
    attrs = node.op.attrs_of_sizes(attrs, sizes)
    outputs = tuple(_value_at(v, sizes) for v in node.outputs)
    values.update(zip(node.outputs, outputs, strict=True))
    bodies = tuple(function_at(body, sizes) for body in node.bodies)
    return replace(node, attrs=attrs, inputs=inputs, outputs=outputs, bodies=bodies)


def sizes_of(function: Function, shapes: Sequence[tuple[int, ...]]) -> Sizes:
    """The symbols' values for inputs of these shapes. Raises TypeMismatch where there are none."""
    sizes: dict[Var, int] = {}
    for param, shape in zip(function.inputs, shapes, strict=False):
        for term, extent in zip(param.type.extents or (), shape, strict=False):
            if (found := solved(term, extent)) is not None:
                sizes.setdefault(*found)
    for var in symbols_of(value.type for value in function.inputs):
        if var not in sizes or not var.start <= sizes[var] < var.stop:
            given = sizes.get(var, "not given")
            raise TypeMismatch(f"size {var.name} is {given}, not {var.start} to {var.stop - 1}")
    return sizes


def solved(term: Term, extent: int) -> tuple[Var, int] | None:
    """The symbol of a term that is a multiple of it and an offset, where the term is the extent."""
    if len(term.parts) != 1 or not isinstance(term.parts[0][0], Var):
        return None
    var, factor = term.parts[0]
    assert isinstance(var, Var)
    return var, (extent - term.offset) // factor


def opened(type_: TensorType, terms: tuple[Term, ...]) -> TensorType:
    """The type with these extents; without, if all are numbers."""
    is_open = any(term.constant is None for term in terms)
    return replace(type_, extents=terms if is_open else None)


def _samples(symbols: Sequence[Var]) -> list[Sizes]:
    """Every value of each symbol, or some of a long range; the others at both ends."""
    found: list[Sizes] = []
    for var in symbols:
        others = [other for other in symbols if other != var]
        step = max(1, (var.stop - var.start) // MOST_SAMPLES)
        every = range(var.start, var.stop)
        for value in sorted({*every[::step], *every[:NEIGHBOURS], *every[-NEIGHBOURS:]}):
            for ends in itertools.product(*((o.start, o.stop - 1) for o in others)):
                found.append({var: value, **dict(zip(others, ends, strict=True))})
    return found


def _listed(types: Types) -> str:
    return ", ".join(map(str, types))

"""open_constant: the part of a constant that a run's sizes select.

Values that depend only on sizes, such as positions[:time] or a causal mask [time, time], are parts
of a constant stored at the largest sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.evaluate import evaluate_constant
from edgec.graph.extents import at_largest
from edgec.graph.ir import Function, Value
from edgec.graph.operator import register
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.numerics.fit_term import Sizes, fit_term, value_at
from edgec.numerics.term import Term, as_term
from edgec.ops.moved import Moved
from edgec.ops.reshape import Reshape, attrs_of_view


@dataclass(frozen=True)
class PartAttrs:
    """For each axis of the constant the first index; of the result, which has its last axes, how
    many. Along the other axes there is one index.
    """

    begin: tuple[Term, ...]
    extents: tuple[Term, ...]


@register
class OpenConstant(Moved[PartAttrs]):
    """Moves elements of any dtype; quantization per tensor stays."""

    name = "open_constant"
    attrs_class = PartAttrs

    def terms(self, attrs: PartAttrs) -> tuple[Term, ...]:
        """The terms: first indices and extents."""
        return (*attrs.begin, *attrs.extents)

    def attrs_of_sizes(self, attrs: PartAttrs, sizes: Sizes) -> PartAttrs:
        """Places and extents as numbers."""
        begin, extents = (
            tuple(as_term(value_at(term, sizes)) for term in terms)
            for terms in (attrs.begin, attrs.extents)
        )
        return PartAttrs(begin, extents)

    def shape(self, attrs: PartAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """The shape in the attributes. TypeMismatch where an index leaves the constant."""
        shape = tuple(term.offset for term in attrs.extents)
        counts = (*(1 for _ in range(len(x.shape) - len(shape))), *shape)
        axes = zip(attrs.begin, counts, x.shape, strict=True)
        for axis, (begin, count, extent) in enumerate(axes):
            if begin.offset < 0 or begin.offset + count > extent:
                raise TypeMismatch(f"a part of {count} from {begin} on along axis {axis} of {x}")
        return shape

    def source(self, attrs: PartAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """Indices shifted."""
        axes = (*(0 for _ in range(len(attrs.begin) - len(at))), *at)
        return tuple(i + begin.offset for i, begin in zip(axes, attrs.begin, strict=True))


def with_cuts(function: Function, found: Mapping[Value, tuple[Array, PartAttrs]]) -> Function:
    """The function with cuts of these arrays instead of constants, one for each use.

    A loop that uses one reads it where it lies: nothing is held for others.
    """
    if not found:
        return function
    function = function.with_bodies(partial(with_cuts, found=found))
    builder = GraphBuilder(function.name)
    for param in function.params:
        builder.adopt(param)
    for value in (*function.values(), *function.constants()):
        if value not in found and value not in function.params:
            builder.unique(value.name)

    def used(value: Value) -> Value:
        if value not in found:
            return value
        array, attrs = found[value]
        table = builder.constant(value.name, array, value.type.quant, value.origin)
        return builder.op(OpenConstant, [table], attrs, name=f"{value.name}.cut")

    for node in function.nodes:
        builder.adopt_node(replace(node, inputs=tuple(map(used, node.inputs))))
    after = {value: used(value) for value in function.results}
    results = tuple(after[value] for value in function.results)
    states = tuple(replace(state, after=after[state.after]) for state in function.states)
    return builder.finish(results, states, function.counts)


def without_cuts(function: Function) -> tuple[Function, dict[str, PartAttrs]]:
    """The function at its largest sizes, and each cut constant's attributes by provenance."""
    closed, attrs = at_largest(function), {node.name: node.attrs for node in function.nodes}
    known: dict[Value, Value] = {}
    nodes = []
    for node in closed.nodes:
        inputs = tuple(known.get(value, value) for value in node.inputs)
        if not isinstance(node.op, OpenConstant):
            nodes.append(replace(node, inputs=inputs))
            continue
        origin = Origin(node.name, node.output.type.shape)
        (made,) = evaluate_constant(node, inputs)
        known[node.output] = replace(made, origin=origin)
    results = tuple(known.get(value, value) for value in closed.results)
    names = {value.origin.tensor for value in known.values() if value.origin}
    closed = replace(closed, nodes=tuple(nodes), results=results)
    return closed, {name: attrs[name] for name in names}


def with_cuts_again(function: Function, cuts: Mapping[str, PartAttrs]) -> Function:
    """The function with these cuts instead of constants of this provenance.

    Raises ImportFailed where one is not there in its own shape.
    """
    found: dict[Value, tuple[Array, PartAttrs]] = {}
    known = {(name, tuple(term.bounds()[1] for term in attrs.extents)): attrs
             for name, attrs in cuts.items() if len(attrs.begin) == len(attrs.extents)}  # fmt: skip
    missing = set(cuts)
    for value in function.constants():
        name = value.origin.tensor if value.origin else ""
        if (name, value.type.shape) in known:
            found[value] = value.data, known[name, value.type.shape]
            missing.discard(name)
    if missing:
        raise ImportFailed(
            f"the constants {', '.join(map(repr, sorted(missing)))} depend on open sizes, and"
            " quantization changes them",
            hint="quantize the model at one size, or build it in float",
        )
    return with_cuts(function, found)


def with_views_of(function: Function, opened: Function) -> Function:
    """The function at its largest sizes, whose views have the terms of the open function's."""
    known = {value.name: value.type for value in opened.values()}
    nodes = []
    for node in function.nodes:
        type_ = known.get(node.outputs[0].name)
        if isinstance(node.op, Reshape) and type_ is not None and type_.shape == node.attrs.shape:
            node = replace(node, attrs=attrs_of_view(type_.shape, type_.extents))
        nodes.append(node)
    return replace(function, nodes=tuple(nodes))


def cut_of(
    arrays: Sequence[Array], sizes: Sequence[Sizes], bases: Sequence[Term]
) -> tuple[Array, PartAttrs] | None:
    """A table, and the cut of it that equals each array at its sizes; the largest array comes
    first.

    bases: likely terms of its extents. None if no table and cut fit.
    """
    if len({array.ndim for array in arrays}) > 1:
        return None
    shapes = zip(*(array.shape for array in arrays), strict=True)
    fitted = [fit_term(extents, sizes, bases) for extents in shapes]
    extents = tuple(term for term in fitted if term is not None)
    if len(extents) < len(fitted):
        return None
    if all(term.constant is not None for term in extents):
        return _by_size(arrays, sizes, bases)
    missing = [as_term(term.bounds()[1]) - term for term in extents]
    for begin in product(*(dict.fromkeys((as_term(0), m, m // 2)) for m in missing)):
        attrs = PartAttrs(begin, extents)
        if all(map(partial(_is_cut, arrays[0], attrs), arrays, sizes)):
            return arrays[0], attrs
    return None


def _is_cut(table: Array, attrs: PartAttrs, array: Array, sizes: Sizes) -> bool:
    """Whether this cut of the table at these sizes equals the array."""
    starts = [value_at(term, sizes) for term in attrs.begin]
    part = tuple(slice(s, s + n) for s, n in zip(starts, array.shape, strict=True))
    return np.array_equal(table[part], array, equal_nan=array.dtype.kind == "f")


#: Functions of a size: a mean divides by size, attention by sqrt(size).
_OF_SIZE: tuple[Callable[[Any], Any], ...] = (
    lambda n: n, lambda n: 1 / n, np.sqrt, lambda n: 1 / np.sqrt(n), np.log, np.log2,
)  # fmt: skip
#: Largest table of a constant's values at every size, in elements.
MOST_ELEMENTS = 1 << 16


def _by_size(
    arrays: Sequence[Array], sizes: Sequence[Sizes], bases: Sequence[Term]
) -> tuple[Array, PartAttrs] | None:
    """A table of the values at every size, where the constant is a multiple of a known function."""
    for base, more, form in product(bases, (0, -1, 1), _OF_SIZE):
        low, high = base.bounds()
        if low + more < 1 or (high - low + 1) * arrays[0].size > MOST_ELEMENTS:
            continue
        factors = [
            a / form(float(value_at(base, s) + more)) for a, s in zip(arrays, sizes, strict=True)
        ]
        if np.allclose(factors, factors[0], rtol=1e-6, atol=0):
            places = np.arange(low, high + 1).reshape(-1, *(1,) * arrays[0].ndim)
            table = np.asarray(factors[0] * form(places + float(more)))
            whole = np.round(table) if arrays[0].dtype.kind in "iu" else table
            begin = (base - low, *(as_term(0) for _ in arrays[0].shape))
            attrs = PartAttrs(begin, tuple(map(as_term, arrays[0].shape)))
            return whole.astype(arrays[0].dtype), attrs
    return None

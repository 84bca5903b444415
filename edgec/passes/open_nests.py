"""Groups with open dimensions: one function whose loops run to the sizes of a run.

    for (h = 0; h < height; ++h) {
        for (w = 0; w < width; ++w) {
            out[h * width + w] = x[h * width + w] * 2;
    } }

The group is lowered at several sizes, and one function is made of these (`edgec.loop.unify`). It is
then run at small sizes, where borders are close to each other, and compared with the operators' own
meaning. Kernels stay if all sizes call them in the same way; vectors of plain loops are only for
static builds, which `--specialize` adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count, islice, starmap

import numpy as np

from edgec.errors import EdgecError, ImportFailed, ScheduleError
from edgec.graph.extents import at_sizes, node_at, symbols_of_nodes
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.types import Array
from edgec.loop.access import accesses, flat_address
from edgec.loop.cost import estimate
from edgec.loop.in_place import in_place_inputs
from edgec.loop.interpret import interpret
from edgec.loop.ir import Buffer, BufferRef, Call, Expr, For, PrimFunc, Stmt, Store
from edgec.loop.lowering import OpenAxes
from edgec.loop.microkernel import is_microkernel
from edgec.loop.rewrite import Rewriter, statements
from edgec.loop.schedule import Schedule
from edgec.loop.simplify import simplify
from edgec.loop.unify import Unifier, closed_at
from edgec.numerics.fit_term import Sizes, value_at
from edgec.numerics.term import Term, Var, product
from edgec.passes.few_pixels import with_few_pixels
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import (
    LoweredGroup,
    Variant,
    lower_group,
    plain_variant,
    scratch_buffers,
)
from edgec.targets.target import Target

#: Number of sizes at which a group is lowered: strides of 2 and 3 divide some of them.
NEIGHBOURS = 4
#: Elements that the comparison computes with; beyond, a size is left out.
MOST_ELEMENTS = 4_000


def lower_open_nests(group: Group, target: Target) -> LoweredGroup:
    """The menu of a group: its plain loops, scheduled if the schedule is the same at all sizes.

    Raises ImportFailed with the nodes' names where a constant or the order of loops follows from a
    size.
    """
    symbols = symbols_of_nodes(group.nodes)
    bases = _bases(group)
    points = _points(symbols, bases)
    groups = [group_at(group, sizes) for sizes in points]
    unifier = Unifier(tuple(points), bases)
    problems: list[str] = []
    found: list[Variant] = []
    for versions in (_on_kernels(groups, target), _versions(groups, target, _open_axes(group))):
        for each in versions:
            try:
                variant = _unified(group, unifier, each)
                _compare(group, variant, symbols)
                found.append(variant)
                break
            except EdgecError as error:
                problems.append(error.message)
    if found:
        return LoweredGroup(group, tuple(found))
    operators = "+".join(node.op.name for node in group.nodes)
    raise ImportFailed(
        f"{operators} node {group.name!r} cannot run at open sizes: {problems[-1]}",
        hint="fix the sizes that are open",
    )


def _points(symbols: Sequence[Var], bases: Sequence[Term]) -> list[Sizes]:
    """The largest sizes and some above them, where no window is larger than its input.

    Consecutive sizes that change the group's extents.
    """
    most = {var: var.stop - 1 for var in symbols}
    found: list[Sizes] = [most]
    together = [most]
    for var in symbols:
        steps = list(islice(_changing(most, var, bases), NEIGHBOURS))
        found += steps
        for at, step in enumerate(steps[:3], start=1):
            known = together[at] if at < len(together) else most
            together[at:] = [{**known, var: step[var]}]
    return found + (together[1:] if len(symbols) > 1 else [])


def _changing(most: Sizes, var: Var, bases: Sequence[Term]) -> Iterator[Sizes]:
    """Larger values of one symbol; each changes a term."""
    known = [value_at(term, most) for term in bases]
    for value in count(most[var] + 1):
        sizes = {**most, var: value}
        here = [value_at(term, sizes) for term in bases]
        if here != known:
            known = here
            yield sizes


def group_at(group: Group, sizes: Sizes) -> Group:
    """The group where the symbols have these values."""
    values: dict[Value, Value] = {
        value: replace(value, type=at_sizes(value.type, sizes))
        for value in group.inputs
        if not isinstance(value, Constant)
    }
    nodes = tuple(node_at(node, sizes, values) for node in group.nodes)
    return Group(nodes, tuple(values.get(value, value) for value in group.inputs))


def _bases(group: Group) -> tuple[Term, ...]:
    """The extents of all values of a group, then the products of one value's extents."""
    values = (v for node in group.nodes for v in (*node.inputs, *node.outputs))
    opened = [[t for t in v.type.extents or () if t.constant is None] for v in values]
    pairs = (pair for terms in opened for pair in combinations(terms, 2))
    stated = (t for node in group.nodes for t in node.op.terms(node.attrs) if t.constant is None)
    terms = (*(term for terms in opened for term in terms), *stated, *starmap(product, pairs))
    return tuple(dict.fromkeys(terms))


def _on_kernels(groups: Sequence[Group], target: Target) -> Iterator[list[Variant]]:
    """The variants that call kernels, one for each size, as far as the schedules correspond.

    None for GPUs, whose threads run kernels together.
    """
    if target.core.has_gpu:
        return
    largest, *others = groups
    first = lower_group(largest, target).variants
    calls = [any(map(is_microkernel, _called(variant.function))) for variant in first]
    if not any(calls):
        return
    menus = [lower_group(group, target).variants for group in others]
    for does_call, *versions in zip(calls, first, *menus, strict=False):
        if does_call:
            yield versions


def _called(function: PrimFunc) -> list[str]:
    return [stmt.callee for stmt in statements(function.body) if isinstance(stmt, Call)]


def _open_axes(group: Group) -> OpenAxes:
    """The open axes of each value that has any."""
    values = (v for node in group.nodes for v in (*node.inputs, *node.outputs))
    return {v.name: [t.constant is None for t in v.type.extents] for v in values if v.type.extents}


def _versions(
    groups: Sequence[Group], target: Target, open_axes: OpenAxes
) -> Iterator[list[Variant]]:
    """The group's variants, one for each size, if schedules correspond; last, without schedules."""
    loops = replace(target, only_loops=True)
    menus = [lower_group(group, loops).variants for group in groups]
    for versions in zip(*menus, strict=False):
        yield list(versions)
    yield [plain_variant(group) for group in groups]
    yield [plain_variant(group, open_axes) for group in groups]


def _unified(group: Group, unifier: Unifier, versions: Sequence[Variant]) -> Variant:
    """One variant of all; it keeps the arrays of the largest sizes."""
    largest = versions[0]
    if not all(is_microkernel(name) for name in _called(largest.function)):
        raise ScheduleError("it calls another function")
    function = with_few_pixels(unifier.function([_prepared(each.function) for each in versions]))
    for each in versions:
        _require_prefixes(largest.constants, each.constants)
    whole = {value.name: value for value in (*group.inputs, *group.outputs)}
    added = (None,) * (len(function.params) - len(largest.args))
    args = tuple(None if v is None else whole[v.name] for v in (*largest.args, *added))
    names = {param.name: value for param, value in zip(function.params, args, strict=True)}
    in_place = (names[name] for name in in_place_inputs(function))
    return replace(
        largest,
        schedule=Schedule(function),
        function=function,
        args=args,
        scratch=scratch_buffers(function),
        instructions=round(estimate(closed_at(function, unifier.sizes[0])).instructions),
        in_place=tuple(value for value in in_place if value is not None),
    )


def _prepared(function: PrimFunc) -> PrimFunc:
    """The function without vectors and threads, whose widths divide the sizes.

    A matrix of pixels is only for kernels: their numbers of pixels need not divide a size.
    """
    stores = [stmt for stmt in statements(function.body) if isinstance(stmt, Store)]
    others = {access.buffer for stmt in stores for access in accesses(stmt)}
    known = {
        buffer: replace(buffer, shape=(buffer.elements // buffer.shape[-1], buffer.shape[-1]))
        for buffer in function.params
        if buffer.scope == "arena" and len(buffer.shape) > 2 and buffer not in others
    }
    params = tuple(known.get(buffer, buffer) for buffer in function.params)
    return replace(function, params=params, body=_Prepare(known).stmt(function.body))


@dataclass(frozen=True)
class _Prepare(Rewriter):
    matrices: Mapping[Buffer, Buffer]

    def loop(self, loop: For) -> Stmt:
        kind = loop.kind if loop.kind in ("serial", "unrolled") else "serial"
        return super().loop(replace(loop, kind=kind))

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        if not isinstance(argument, BufferRef) or argument.buffer not in self.matrices:
            return super().argument(argument)
        flat = flat_address(argument.buffer, argument.indices)
        row, column = flat // argument.buffer.shape[-1], flat % argument.buffer.shape[-1]
        return replace(argument, buffer=self.matrices[argument.buffer], indices=(row, column))


def _require_prefixes(largest: Mapping[str, Array], others: Mapping[str, Array]) -> None:
    """Raise ScheduleError unless a table at other sizes begins with the same elements."""
    for name, array in largest.items():
        other = others.get(name)
        if other is None or other.ndim != array.ndim:
            raise ScheduleError(f"the table {name!r} has another rank at other sizes")
        axes = zip(array.shape, other.shape, strict=True)
        common = tuple(slice(0, min(pair)) for pair in axes)
        if not np.array_equal(array[common], other[common]):
            raise ScheduleError(f"the table {name!r} depends on a size")


def _compare(group: Group, variant: Variant, symbols: Sequence[Var]) -> None:
    """Raise ScheduleError unless the function computes the nodes' meaning at small sizes."""
    random = np.random.default_rng(1)
    for sizes in _small(symbols):
        closed = group_at(group, sizes)
        if sum(v.type.elements for v in (*closed.inputs, *closed.outputs)) > MOST_ELEMENTS:
            continue
        arrays = {v.name: _numbers(v, random) for v in closed.activations}
        found, outputs = _run(variant, sizes, arrays), {v.name for v in closed.outputs}
        for name, array in _evaluated(closed.nodes, arrays).items():
            if name not in outputs:
                continue
            made = found.get(name, np.zeros(0))  # not there if some elements were never written
            if not np.array_equal(made.ravel(), array.ravel(), equal_nan=True):
                words = ", ".join(f"{var.name}={size}" for var, size in sizes.items())
                raise ScheduleError(f"its loops compute other results at {words}")


def _run(variant: Variant, sizes: Sizes, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The function's buffers after a run at these sizes, by the values' names."""
    function = closed_at(variant.function, sizes)
    params = {
        param: value.name
        for param, value in zip(function.params, variant.args, strict=True)
        if value is not None
    }
    names = {param.name: name for param, name in params.items()}
    given = {p.name: arrays[n].reshape(p.shape) for p, n in params.items() if n in arrays}
    found = interpret(simplify(function), {**variant.constants, **given})
    return {names[param]: array for param, array in found.items() if param in names}


def _small(symbols: Sequence[Var]) -> Iterator[Sizes]:
    """The least sizes, those after them, and some larger ones."""
    for step in (0, 1, 2, 3, 6, 14):
        yield {var: min(var.start + step, var.stop - 1) for var in symbols}
    if len(symbols) > 1:
        for var in symbols:
            yield {v: v.start if v is var else min(v.start + 5, v.stop - 1) for v in symbols}


def _numbers(value: Value, random: np.random.Generator) -> Array:
    if value.type.is_float:
        return random.normal(size=value.type.shape).astype(value.type.dtype)
    most = np.iinfo(value.type.dtype) if value.type.quant is not None else None
    low, high = (0, 2) if most is None else (most.min // 2, most.max // 2)
    return random.integers(low, high, value.type.shape).astype(value.type.dtype)


def _evaluated(nodes: Sequence[Node], arrays: Mapping[str, Array]) -> dict[str, Array]:
    known = dict(arrays)
    for node in nodes:
        inputs = [v.data if isinstance(v, Constant) else known[v.name] for v in node.inputs]
        for value, array in zip(node.outputs, node.evaluate(inputs, _no_body), strict=True):
            known[value.name] = array
    return known


def _no_body(*_: object) -> tuple[Array, ...]:
    raise ScheduleError("bodies take no open sizes")

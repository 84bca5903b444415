"""Groups whose first dimension is open: the function of one slice, in a loop over all slices.

    for (n = 0; n < batch; ++n) {
        m_dense(&x[n * 16], weights, &out[n * 3]);
    }

A slice is lowered and scheduled like every other group, so that kernels serve it as well. The
accesses of the group's plain loops prove that slices are independent. The first dimension is the
first that is not always 1: of a sequence [1, time, 8] it is the time.
"""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.graph.extents import at_sizes, infer_types, symbols_of, symbols_of_nodes
from edgec.graph.ir import Node, Value
from edgec.graph.types import TensorType
from edgec.loop.access import Access, accesses, writes
from edgec.loop.cost import estimate
from edgec.loop.ir import Buffer, BufferRef, Call, For, PrimFunc
from edgec.loop.schedule import Schedule
from edgec.loop.simplify import lower_blocks
from edgec.loop.spot import Spot
from edgec.numerics.term import Term, Var, as_term
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group, plain_nest
from edgec.passes.open_nests import lower_open_nests
from edgec.targets.target import Target


def is_open(group: Group) -> bool:
    """Whether a value of the group has an open size."""
    return bool(symbols_of_nodes(group.nodes))


def lower_open_group(group: Group, target: Target) -> LoweredGroup:
    """The menu of a group's slice, each variant in a loop.

    Of a group whose slices depend on each other, or where another dimension than the first is open,
    the loops of `edgec.passes.open_nests`. Raises ImportFailed, with the nodes' names, where these
    have no open form.
    """
    try:
        extent = _first_extent(group)
        _require_slices(group, extent)
    except ScheduleError:
        return lower_open_nests(group, target)
    values: dict[Value, Value] = {}
    for value in group.inputs:
        values[value] = replace(value, type=_slice_type(value.type))
    nodes = tuple(_on_slices(node, values) for node in group.nodes)
    inner = lower_group(Group(nodes, tuple(values[v] for v in group.inputs)), target)
    whole = {after: before for before, after in values.items()}
    variants = tuple(_looped(variant, extent, whole) for variant in inner.variants)
    return LoweredGroup(group, variants)


def _first_extent(group: Group) -> Term:
    """Number of slices: the only size that is open in the group."""
    if any(node.op.terms(node.attrs) for node in group.nodes):
        raise ScheduleError("the shape of a slice depends on the open sizes")
    found: set[Term] = set()
    for value in (*group.inputs, *(v for node in group.nodes for v in node.outputs)):
        extents = value.type.extents
        if extents is None:
            continue
        axis = open_axis(value.type)
        before, after = value.type.shape[:axis], extents[axis + 1 :]
        if any(extent != 1 for extent in before) or any(t.constant is None for t in after):
            raise ScheduleError(f"{value} is {value.type}: another size than the first is open")
        found.add(extents[axis])
    if len(found) != 1 or any(value.type.extents is None for value in group.outputs):
        sizes = ", ".join(sorted(map(str, found)))
        raise ScheduleError(f"its values do not all have one open size ({sizes})")
    return found.pop()


def open_axis(type_: TensorType) -> int:
    """The first axis whose size is open."""
    extents = type_.extents or ()
    return next(axis for axis, term in enumerate(extents) if term.constant is None)


def _require_slices(group: Group, extent: Term) -> None:
    """Prove that every step of the outermost loops works on a slice of its own."""
    count = extent.bounds()[1]
    func = plain_nest(_closed(group))
    is_sliced = {value.name for value in group.inputs if value.type.extents is not None}
    names = _input_names(group)
    for access in accesses(lower_blocks(func.body)):
        buffer = access.buffer
        is_whole = buffer.scope == "constant" or (
            buffer.name in names and names[buffer.name].name not in is_sliced
        )
        if not (_is_fixed(access) if is_whole else _is_own_slice(access, count)):
            raise ScheduleError("its slices along the first size depend on each other")


def _outermost(access: Access) -> For | None:
    """The outermost loop around an access that runs more than once."""
    return next((loop for loop in access.loops if not _runs_once(loop)), None)


def _is_fixed(access: Access) -> bool:
    """Whether every step of the outermost loop accesses the same elements."""
    outer = _outermost(access)
    if access.indices is None or outer is None:
        return False
    return not any(outer.var in term.variables() for term in access.indices)


def _is_own_slice(access: Access, count: int) -> bool:
    """Whether each of `count` steps of the outermost loop has a slice of the buffer to itself."""
    outer, indices, shape = _outermost(access), access.indices, access.buffer.shape
    if outer is None or not indices or _along(shape) != count:
        return False
    covers = outer.start.constant == 0 and outer.stop.constant == count
    return covers and indices[_first_wide(shape)] == as_term(outer.var)


def _runs_once(loop: For) -> bool:
    return loop.start.constant == 0 and loop.stop.constant == 1


def _first_wide(shape: tuple[int, ...]) -> int:
    """The first axis with more than one index; the last one if there is none."""
    return next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape) - 1)


def _along(shape: tuple[int, ...]) -> int:
    return shape[_first_wide(shape)] if shape else 0


def _input_names(group: Group) -> dict[str, Value]:
    """Map each parameter of `plain_nest` to the activation that it reads."""
    return {f"x{n + 1}" if n else "x": value for n, value in enumerate(group.activations)}


def _closed(group: Group) -> Group:
    """The group at its largest sizes."""
    values: dict[Value, Value] = {}

    def closed(value: Value) -> Value:
        if value.type.extents is None:
            return value
        if value not in values:
            most = {var: var.stop - 1 for var in symbols_of([value.type])}
            values[value] = replace(value, type=at_sizes(value.type, most))
        return values[value]

    nodes = tuple(
        replace(node, inputs=tuple(map(closed, node.inputs)),
                outputs=tuple(map(closed, node.outputs)))
        for node in group.nodes
    )  # fmt: skip
    return Group(nodes, tuple(map(closed, group.inputs)))


def _slice_type(type_: TensorType) -> TensorType:
    if type_.extents is None:
        return type_
    axis = open_axis(type_)
    return type_.with_shape((*(1 for _ in range(axis + 1)), *type_.shape[axis + 1 :]))


def _on_slices(node: Node, values: dict[Value, Value]) -> Node:
    """The node on slices; its outputs are added to `values`."""
    inputs = tuple(values[value] for value in node.inputs)
    types = [value.type for value in inputs]
    attrs = node.op.attrs_at(node.attrs, node.input_types, types)
    made = infer_types(node.op, attrs, (), types)
    outputs = tuple(replace(v, type=t) for v, t in zip(node.outputs, made, strict=True))
    values.update(zip(node.outputs, outputs, strict=True))
    return replace(node, attrs=attrs, inputs=inputs, outputs=outputs)


def _looped(variant: Variant, extent: Term, whole: dict[Value, Value]) -> Variant:
    """A variant of one slice in a loop over all slices; `whole`: the value that each slice is part
    of.
    """
    inner, count = variant.function, extent.bounds()[1]
    n = Var("n", 0, count)
    written = writes(inner.body)
    params: list[Buffer] = []
    args: list[BufferRef] = []
    for param, value in zip(inner.params, variant.args, strict=True):
        use = "updates" if param in written else "reads"
        if value is None:
            params.append(param)
            start = tuple(as_term(0) for _ in param.shape)
            args.append(BufferRef(param, start, use, param.shape))  # type: ignore[arg-type]
            continue
        type_ = whole[value].type
        params.append(Buffer(param.name, (type_.elements,), param.dtype, "arena"))
        spot = Spot(params[-1], type_.elements)
        part = spot if type_.extents is None else spot.slice(n, count)
        args.append(part.ref("reads" if param not in written else "writes"))
    callee = f"{inner.name}_slice"
    loop = For(n, as_term(0), extent, "serial", Call(callee, tuple(args)))
    symbols = tuple(sorted(extent.variables(), key=lambda var: var.name))
    function = PrimFunc(f"{inner.name}_slices", tuple(params), (), loop, symbols)
    callees = {callee: inner}
    return replace(
        variant,
        schedule=Schedule(function),
        function=function,
        args=tuple(None if value is None else whole[value] for value in variant.args),
        instructions=round(estimate(function, callees=callees).instructions),
        in_place=(),
        callees=callees,
    )

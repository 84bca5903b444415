"""ONNX's If, Loop and Scan as if, while and scan.

A Loop with a known number of rounds is a scan. A Loop that a computed condition or count ends is a
while; the file must declare the number of slices that it stacks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import edgec.ops.elementwise  # noqa: F401  registers what is named here
from edgec.errors import EdgecError, ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import TensorType, Types
from edgec.ops.bodies import Body, closed
from edgec.ops.concat import ConcatAttrs
from edgec.ops.control import If, Scan, ScanAttrs, While, WhileAttrs
from edgec.ops.op import NotConstant, RawNode, from_onnx
from edgec.ops.pad import PadAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import sliced
from edgec.ops.slice_at import UpdateSlice, limited_count
from edgec.ops.transpose import transposed

#: Rounds of a loop that are written one after the other where its values change their shapes.
MOST_UNROLLED = 64

COUNT = TensorType((), "int64")
FLAG = TensorType((), "bool")
TRUE = np.array(True)


@from_onnx("If")
def import_if(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX If; a condition that is known leaves one branch."""
    condition = raw.operand(0)
    names = ("then_branch", "else_branch")
    if isinstance(condition, Constant):
        name = names[0 if condition.data.any() else 1]
        results = raw.inline(name, ())
        _require_outputs(raw, name, len(results))
        return results
    branches = [raw.read_body(name, ()) for name in names]
    for name, branch in zip(names, branches, strict=True):
        _require_outputs(raw, name, len(branch.results))
    opened = _made_alike(branches)
    outside, bodies = closed(branches)
    outputs = builder.node(If, [condition, *outside], name=raw.name, bodies=bodies).outputs
    for (output, axis), number in zip(opened, outputs[len(raw.outputs) :], strict=True):
        builder.open(outputs[output], axis, number)
    return outputs[: len(raw.outputs)]


def _made_alike(branches: Sequence[Body]) -> list[tuple[int, int]]:
    """Pad each result to the larger of two sizes along an axis.

    Returns the outputs and axes whose size depends on data. The used length of each is appended to
    the results in this order.
    """
    opened: list[tuple[int, int]] = []
    known = [dict(branch.builder.open_axes) for branch in branches]
    for branch in branches:
        branch.builder.open_axes.clear()
    for output, results in enumerate(list(zip(*(b.results for b in branches), strict=True))):
        shapes = [result.type.shape for result in results]
        if len({len(shape) for shape in shapes}) > 1:
            continue  # which is refused
        largest = tuple(map(max, *shapes))
        counts = [found.get(result, {}) for found, result in zip(known, results, strict=True)]
        axes = [
            axis for axis in range(len(largest))
            if len({shape[axis] for shape in shapes}) > 1 or any(axis in each for each in counts)
        ]  # fmt: skip
        for branch, result, own in zip(branches, results, counts, strict=True):
            branch.results[output] = _padded(branch.builder, result, largest)
            branch.results += [
                own.get(axis) or branch.builder.constant(
                    f"{result.name}.extent{axis}", np.array([result.type.shape[axis]], np.int32)
                )
                for axis in axes
            ]  # fmt: skip
        opened += [(output, axis) for axis in axes]
    return opened


def _padded(builder: GraphBuilder, value: Value, shape: tuple[int, ...]) -> Value:
    """A value with zeros after it, up to a shape."""
    pairs = tuple((0, most - own) for own, most in zip(value.type.shape, shape, strict=True))
    if not any(after for _, after in pairs):
        return value
    return builder.op("pad", [value], PadAttrs(pairs), name=f"{value.name}.whole", sources=())


@from_onnx("Loop")
def import_loop(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Loop: in known rounds, or as long as a condition holds."""
    start = raw.optional(1)
    carried = [raw.operand(position) for position in range(2, len(raw.inputs))]
    rounds = _known_rounds(raw)
    if rounds == 0:
        if len(raw.outputs) > len(carried):
            raise ImportFailed("it never runs, and stacks slices: its outputs are empty")
        return tuple(carried)
    if rounds is not None and (start is None or isinstance(start, Constant)):
        return _in_rounds(builder, raw, carried, rounds)
    return _conditional(builder, raw, carried, rounds)


def _in_rounds(
    builder: GraphBuilder, raw: RawNode, carried: list[Value], rounds: int
) -> tuple[Value, ...]:
    """A loop that runs its first round, and at most `rounds`."""
    types = [value.type for value in carried]
    try:
        body = raw.read_body("body", [COUNT, TRUE, *types])
        _require_outputs(raw, "body", len(body.results) - 1)
        if _is_true(body.results[0]):
            return _counted(builder, raw, body, rounds, carried)
    except TypeMismatch:
        pass  # values change their shapes from round to round
    try:
        return _conditional(builder, raw, carried, rounds)
    except EdgecError:
        if rounds > MOST_UNROLLED:
            raise
        return _unrolled(builder, raw, carried, rounds)


def _require_outputs(raw: RawNode, name: str, count: int) -> None:
    if count != len(raw.outputs):
        raise ImportFailed(f"its {name} computes {count} values for {len(raw.outputs)} outputs")


def _known_rounds(raw: RawNode) -> int | None:
    """The most rounds, None where that is computed or without a limit."""
    most, start = raw.optional(0), raw.optional(1)
    if isinstance(start, Constant) and not start.data.any():
        return 0
    if not isinstance(most, Constant):
        return None
    rounds = max(int(most.data.reshape(-1)[0]), 0)
    return rounds if rounds < np.iinfo(np.int32).max else None


def _is_true(value: Value) -> bool:
    return isinstance(value, Constant) and bool(value.data.all())


def _add_one(body: Body, count: Value) -> Value:
    one = body.builder.constant("one", np.array(1, count.type.dtype))
    return body.builder.op("int_add", [count, one], name=f"{count.name}.next", sources=())


def _counted(
    builder: GraphBuilder, raw: RawNode, body: Body, rounds: int, carried: Sequence[Value]
) -> tuple[Value, ...]:
    """A scan over nothing, which counts only where its body reads the count."""
    count = body.builder.params[0]
    body.results = body.results[1:]
    starts = list(carried)
    counts = body.reads(count)
    if counts:
        body.results.insert(0, _add_one(body, count))
        starts.insert(0, builder.constant(f"{raw.name}.count", np.array(0, np.int64)))
    else:
        body.builder.params.remove(count)
    outside, bodies = closed([body])
    attrs = ScanAttrs(rounds, len(starts))
    node = builder.node(Scan, [*starts, *outside], attrs, name=raw.name, bodies=bodies)
    return node.outputs[counts:]


def _conditional(
    builder: GraphBuilder, raw: RawNode, carried: Sequence[Value], rounds: int | None
) -> tuple[Value, ...]:
    """A while; it carries its stacked outputs too, and each round writes one slice."""
    most, start = raw.optional(0), raw.optional(1)
    begin = start if start is not None else builder.constant(f"{raw.name}.begin", TRUE)
    types = [value.type for value in carried]
    body = raw.read_body("body", [COUNT, begin.type, *types])
    _require_outputs(raw, "body", len(body.results) - 1)
    slices = body.results[1 + len(carried) :]
    declared = raw.output_types[len(carried) :]
    limit, stacks = rounds, []
    for each, type_ in zip(slices, declared, strict=True):
        size = rounds if type_ is None else type_.shape[0]
        if size is None:
            why = "the number of slices depends on the data: declare the shape in the file"
            raise NotConstant(why, most)
        stacks.append(each.type.with_shape((size, *each.type.shape)))
        limit = size if limit is None else min(size, limit)
    count = body.builder.params[0]
    body.results[0] = _shaped(body.builder, body.results[0], begin.type.shape)
    body.results[1 + len(carried) :] = [
        _stored(body, each, stack, count) for each, stack in zip(slices, stacks, strict=True)
    ]
    body.results.insert(0, _add_one(body, count))
    head = _condition([value.type for value in body.builder.params], body, most, rounds)
    outside, bodies = closed([head, body])
    zeros = (np.zeros(stack.shape, stack.dtype) for stack in stacks)
    starts = [
        builder.constant(f"{raw.name}.count", np.array(0, np.int64)), begin, *carried,
        *(builder.constant(f"{raw.name}.start", zero) for zero in zeros),
    ]  # fmt: skip
    attrs = WhileAttrs(len(starts), limit)
    node = builder.node(While, [*starts, *outside], attrs, name=raw.name, bodies=bodies)
    for type_, stack in zip(declared, node.outputs[2 + len(carried) :], strict=True):
        if type_ is None:
            made = limited_count(builder, [node.outputs[0]], stack.type.shape[0], raw.name)
            builder.open(stack, 0, made)
    return node.outputs[2:]


def _condition(types: Types, body: Body, most: Value | None, rounds: int | None) -> Body:
    """Whether there is another round: the body's own answer, and a count that is computed."""
    builder = GraphBuilder("condition")
    own = len(types) - len(body.captured)
    params = [builder.param(f"p{number}", type_) for number, type_ in enumerate(types[:own])]
    head = Body(builder, [params[1]])
    if most is not None and rounds is None:
        limit = head.captured[most] = builder.param("most", most.type)
        counts = builder.op("less", [params[0], limit], name="counts", sources=())
        head.results = [builder.op("logical_and", [counts, params[1]], name="holds", sources=())]
    return head


def _stored(body: Body, each: Value, stack: TensorType, count: Value) -> Value:
    """The stack, a new parameter, with a slice at the place of this round."""
    builder = body.builder
    captured = set(body.captured.values())
    own = sum(param not in captured for param in builder.params)
    before = builder.param(f"{each.name}.stack", stack)
    builder.params.insert(own, builder.params.pop())
    part = _shaped(builder, each, (1, *each.type.shape))
    place = _shaped(builder, count, (1,))
    return builder.op(UpdateSlice, [before, part, place], name=f"{each.name}.stored", sources=())


def _shaped(builder: GraphBuilder, value: Value, shape: tuple[int, ...]) -> Value:
    if value.type.shape == shape:
        return value
    return builder.op("reshape", [value], ReshapeAttrs(shape), name=f"{value.name}.shaped",
                      sources=())  # fmt: skip


def _unrolled(
    builder: GraphBuilder, raw: RawNode, carried: Sequence[Value], rounds: int
) -> tuple[Value, ...]:
    """Round after round, each with constants of its own; only a condition that is known ends it."""
    values, slices = list(carried), []
    for number in range(rounds):
        given = [
            builder.constant(f"{raw.name}.count", np.array(number, np.int64)),
            builder.constant(f"{raw.name}.holds", TRUE),
        ]
        holds, *results = raw.inline("body", [*given, *values])
        values = results[: len(carried)]
        slices.append(results[len(carried) :])
        if not isinstance(holds, Constant):
            raise ImportFailed("values change their shapes in a loop that a condition ends")
        if not holds.data.any():
            break
    stacked = []
    for parts in zip(*slices, strict=True):
        rows = [_shaped(builder, part, (1, *part.type.shape)) for part in parts]
        stacked.append(builder.op("concat", rows, ConcatAttrs(0), name=raw.name))
    return (*values, *stacked)


@from_onnx("Scan", since=9)
def import_scan(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Scan along any axes, in either direction."""
    scanned = int(raw.attribute("num_scan_inputs"))
    inputs = raw.operands()
    states, whole = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
    slices = len(raw.outputs) - len(states)
    axes, back, out_axes, out_back = (
        _listed(raw, f"scan_{side}_{what}", count)
        for side, count in (("input", scanned), ("output", slices))
        for what in ("axes", "directions")
    )
    turned = [
        _reversed(builder, _moved(builder, x, axis, 0), backwards)
        for x, axis, backwards in zip(whole, axes, back, strict=True)
    ]
    outputs = _scan(builder, raw, states, turned)
    made = [
        _moved(builder, _reversed(builder, y, backwards), 0, axis)
        for y, axis, backwards in zip(outputs[len(states) :], out_axes, out_back, strict=True)
    ]
    return (*outputs[: len(states)], *made)


@from_onnx("Scan", since=8)
def import_batched_scan(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX Scan of opset 8: the first axis of everything is a batch, the second is scanned."""
    if raw.optional(0) is not None:
        raise ImportFailed("sequences of several lengths in one batch are not supported")
    scanned = int(raw.attribute("num_scan_inputs"))
    inputs = tuple(raw.operand(position) for position in range(1, len(raw.inputs)))
    back = _listed(raw, "directions", scanned)
    inner = GraphBuilder("batch")
    params = [inner.param(x.name, x.type.with_shape(x.type.shape[1:])) for x in inputs]
    states, whole = params[: len(params) - scanned], params[len(params) - scanned :]
    turned = [_reversed(inner, x, b) for x, b in zip(whole, back, strict=True)]
    captured: dict[Value, Value] = {}
    results = _scan(inner, raw, states, turned, captured)
    outside, bodies = closed([Body(inner, list(results), captured)])
    attrs = ScanAttrs(inputs[0].type.shape[0], 0, len(inputs))
    return builder.node(Scan, [*inputs, *outside], attrs, name=raw.name, bodies=bodies).outputs


def _scan(
    builder: GraphBuilder,
    raw: RawNode,
    states: Sequence[Value],
    whole: Sequence[Value],
    captured: dict[Value, Value] | None = None,
) -> tuple[Value, ...]:
    """A scan along first axes; outer values that its body reads from around `raw` are captured."""
    if not whole or not whole[0].type.shape:
        raise ImportFailed("there is nothing to scan")
    slices = [x.type.with_shape(x.type.shape[1:]) for x in whole]
    outside, bodies = closed([raw.read_body("body", [*(s.type for s in states), *slices])])
    if captured is not None:
        captured.update((value, builder.param(value.name, value.type)) for value in outside)
        outside = tuple(captured[value] for value in outside)
    attrs = ScanAttrs(whole[0].type.shape[0], len(states), len(whole))
    node = builder.node(Scan, [*states, *whole, *outside], attrs, name=raw.name, bodies=bodies)
    return node.outputs


def _listed(raw: RawNode, name: str, count: int) -> tuple[int, ...]:
    listed = raw.attribute(name, (0,) * count)
    if len(listed) != count:
        raise ImportFailed(f"{name} {listed} of {count} tensors")
    return tuple(listed)


def _moved(builder: GraphBuilder, x: Value, start: int, to: int) -> Value:
    """The value with an axis at another place."""
    rank = len(x.type.shape)
    order = [axis for axis in range(rank) if axis != start % rank]
    order.insert(to % rank, start % rank)
    if order == list(range(rank)):
        return x
    return transposed(builder, x, tuple(order), f"{x.name}.moved")


def _reversed(builder: GraphBuilder, x: Value, backwards: int) -> Value:
    if not backwards:
        return x
    first, *rest = x.type.shape
    ranges = [(first - 1, -1, first), *((0, 1, extent) for extent in rest)]
    return sliced(builder, x, ranges, f"{x.name}.reversed", ())

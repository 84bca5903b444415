"""if, while, scan, call: control flow, with closed functions as bodies.

A condition is one integer or bool and holds if it is not zero. A body's parameters have exactly the
types of its arguments. A body reads only its parameters and returns only its results, so all four
operators are pure.

`arrange` says how the loops of the bodies stand in one function: see `Bodies`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.extents import opened
from edgec.graph.ir import Node
from edgec.graph.operator import UNKNOWN_ROUNDS, Fusion, NoAttrs, RunBody, Signature, register
from edgec.graph.types import Array, TensorType, Types
from edgec.loop.ir import Branch, For, Stmt
from edgec.loop.ir import While as Repeat
from edgec.loop.rewrite import sequence
from edgec.loop.spot import Spot
from edgec.numerics.term import Term, Var, as_term
from edgec.ops.onnx_control_out import write_call, write_if, write_scan, write_while
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op


class Bodies(Protocol):
    """The interface for lowering a node with bodies: buffers of its values, code of its bodies."""

    @property
    def types(self) -> Types:
        """The types of the node's inputs."""

    @property
    def inputs(self) -> Sequence[Spot]:
        """The node's inputs, which nothing may write."""

    @property
    def outputs(self) -> Sequence[Spot]:
        """The node's outputs."""

    def flag(self, body: int) -> Spot:
        """A new place for the first result of a body."""

    def copy(self, source: Spot, to: Spot) -> Stmt:
        """Copy a value."""

    def run(
        self,
        body: int,
        carried: Sequence[Spot],
        given: Sequence[Spot],
        results: Sequence[Spot],
        *,
        times: int = 1,
    ) -> Stmt:
        """The code of a body, from its carried and fixed arguments to its results.

        Carried values are updated in place as the body's first results. times: an upper bound of
        its runs.
        """


class Control(Op[Any]):
    """An operator whose nodes have bodies."""

    fusion = Fusion.OPAQUE

    def arrange(self, attrs: Any, bodies: Bodies) -> Stmt:
        """The code of a node, which encloses the code of its bodies."""
        raise NotImplementedError


#: Of a loop that has no limit, this many rounds can be shown to whoever watches over a link.
MOST_SHOWN_ROUNDS = 4096


def _require_condition(name: str, type_: TensorType) -> None:
    is_integer = not type_.is_float
    zero_is_zero = type_.quant is None or set(type_.quant.zero_point) == {0}
    if type_.elements != 1 or not is_integer or not zero_is_zero:
        raise TypeMismatch(f"{name}: the condition is {type_}, not one integer or bool")


def _require_params(name: str, body: Signature, given: Types) -> None:
    if body.params != tuple(given):
        raise TypeMismatch(
            f"{name}: the types of a body's parameters differ from its arguments",
            details=(f"takes: {_listed(body.params)}", f"is given: {_listed(given)}"),
        )


def _listed(types: Types) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _require_bodies(name: str, bodies: Sequence[Signature], count: int) -> None:
    if len(bodies) != count:
        raise TypeMismatch(f"{name} takes {count} bodies, {len(bodies)} are given")


@register
class If(Control):
    """if(condition, x…) {then} {otherwise}: the results of one of two bodies on x…."""

    name = "if"

    def infer_bodies(
        self, attrs: NoAttrs, bodies: Sequence[Signature], *inputs: TensorType
    ) -> tuple[TensorType, ...]:
        """Both bodies take all inputs except the first, and return the same types."""
        _require_bodies(self.name, bodies, 2)
        _require_condition(self.name, inputs[0])
        for body in bodies:
            _require_params(self.name, body, self.given_to_bodies(attrs, inputs))
        then, otherwise = bodies
        if then.results != otherwise.results:
            raise TypeMismatch(
                "if: the two bodies return different types",
                details=(f"then: {_listed(then.results)}", f"else: {_listed(otherwise.results)}"),
            )
        return then.results

    def given_to_bodies(self, attrs: NoAttrs, inputs: Types) -> tuple[TensorType, ...]:
        """All but the condition."""
        return tuple(inputs[1:])

    def evaluate_bodies(
        self, attrs: NoAttrs, bodies: Sequence[RunBody], inputs: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Only the body that is chosen runs."""
        return tuple(bodies[0 if inputs[0].any() else 1](inputs[1:]))

    def macs_of_bodies(self, attrs: NoAttrs, macs: Sequence[int], inputs: Types) -> int:
        """The work of the larger body."""
        return max(macs)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """If."""
        write_if(out, node)

    def arrange(self, attrs: NoAttrs, bodies: Bodies) -> Stmt:
        """Both bodies make the outputs."""
        condition, *given = bodies.inputs
        then, otherwise = (bodies.run(number, (), given, bodies.outputs) for number in (0, 1))
        return Branch(condition.element(), then, otherwise)


@dataclass(frozen=True)
class WhileAttrs:
    """carried: how many inputs are, the first ones. limit: the most rounds, None for any number."""

    carried: int
    limit: int | None = None


@register
class While(Control):
    """while(carried…, fixed…) {condition} {body}: run the body while the condition holds.

    Both bodies take all inputs. The body's results are the carried values of the next round; the
    last round's results are the node's. The loop ends after `limit` rounds at the latest.
    """

    name = "while"
    attrs_class = WhileAttrs

    def infer_bodies(
        self, attrs: WhileAttrs, bodies: Sequence[Signature], *inputs: TensorType
    ) -> tuple[TensorType, ...]:
        """Carried values keep their types."""
        _require_bodies(self.name, bodies, 2)
        condition, body = bodies
        for each in bodies:
            _require_params(self.name, each, inputs)
        if len(condition.results) != 1:
            raise TypeMismatch(f"while: the condition returns {len(condition.results)} results")
        _require_condition(self.name, condition.results[0])
        if attrs.limit is not None and attrs.limit < 0:
            raise TypeMismatch(f"while of at most {attrs.limit} rounds")
        if len(body.results) != attrs.carried or body.results != inputs[: attrs.carried]:
            raise TypeMismatch(
                "while: the first results and parameters of the body differ in type",
                details=(f"takes: {_listed(inputs)}", f"gives: {_listed(body.results)}"),
            )
        return body.results

    def evaluate_bodies(
        self, attrs: WhileAttrs, bodies: Sequence[RunBody], inputs: Sequence[Array]
    ) -> tuple[Array, ...]:
        """The condition is computed before every round."""
        condition, body = bodies
        values = list(inputs)
        for _ in itertools.count() if attrs.limit is None else range(attrs.limit):
            if not np.any(condition(values)[0]):
                break
            values[: attrs.carried] = body(values)
        return tuple(values[: attrs.carried])

    def most_rounds(self, attrs: WhileAttrs) -> int:
        """The limit."""
        return UNKNOWN_ROUNDS if attrs.limit is None else attrs.limit

    def macs_of_bodies(self, attrs: WhileAttrs, macs: Sequence[int], inputs: Types) -> int:
        """The work of one round: data decide how many there are."""
        return sum(macs)

    def ends(self, attrs: WhileAttrs) -> bool:
        """The loop ends if it has a limit."""
        return attrs.limit is not None

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Loop."""
        write_while(out, node)

    def arrange(self, attrs: WhileAttrs, bodies: Bodies) -> Stmt:
        """The outputs hold the carried values from the start."""
        carried, fixed = bodies.outputs, bodies.inputs[attrs.carried :]
        starts = map(bodies.copy, bodies.inputs, carried)
        flag = bodies.flag(0)
        rounds = MOST_SHOWN_ROUNDS if attrs.limit is None else attrs.limit
        head = bodies.run(0, (), (*carried, *fixed), (flag,), times=rounds + 1)
        body = bodies.run(1, carried, fixed, (), times=rounds)
        return sequence(*starts, Repeat(head, flag.element(), body, attrs.limit))


@dataclass(frozen=True)
class ScanAttrs:
    """steps: how often the body runs. carried, scanned: how many inputs are, in this order."""

    steps: int
    carried: int
    scanned: int = 0


@register
class Scan(Control):
    """scan(carried…, scanned…, fixed…) {body}: run the body once for each index of the first axis.

    In each round the body takes the carried values, one slice of each scanned input, and the fixed
    values. Its first results are the carried values of the next round; each other result is a slice
    of an output. The node's outputs are the last carried values, then the outputs made of slices.
    """

    name = "scan"
    attrs_class = ScanAttrs

    def infer_bodies(
        self, attrs: ScanAttrs, bodies: Sequence[Signature], *inputs: TensorType
    ) -> tuple[TensorType, ...]:
        """Slices have the type of the whole without its first axis."""
        _require_bodies(self.name, bodies, 1)
        (body,) = bodies
        carried, scanned = inputs[: attrs.carried], inputs[attrs.carried :][: attrs.scanned]
        if attrs.steps < 1 or min(attrs.carried, attrs.scanned) < 0:
            raise TypeMismatch(f"scan has no meaning with {attrs}")
        if len(inputs) < attrs.carried + attrs.scanned or len(body.results) < attrs.carried:
            raise TypeMismatch(f"scan: {len(inputs)} inputs, {len(body.results)} results: too few")
        count = _count(attrs, scanned)
        _require_params(self.name, body, self.given_to_bodies(attrs, inputs))
        if body.results[: attrs.carried] != carried:
            raise TypeMismatch(
                "scan: the first results and parameters of the body differ in type",
                details=(f"takes: {_listed(carried)}", f"gives: {_listed(body.results)}"),
            )
        return (*carried, *(_stack(t, count) for t in body.results[attrs.carried :]))

    def given_to_bodies(self, attrs: ScanAttrs, inputs: Types) -> tuple[TensorType, ...]:
        """The carried values, a slice of each scanned input, and the fixed values."""
        last = attrs.carried + attrs.scanned
        scanned = map(_slice, inputs[attrs.carried : last])
        return (*inputs[: attrs.carried], *scanned, *inputs[last:])

    def attrs_at(self, attrs: ScanAttrs, largest: Types, inputs: Types) -> ScanAttrs:
        """The number of rounds is the number of slices of the scanned inputs."""
        scanned = inputs[attrs.carried :][: attrs.scanned]
        return replace(attrs, steps=scanned[0].shape[0]) if scanned else attrs

    def evaluate_bodies(
        self, attrs: ScanAttrs, bodies: Sequence[RunBody], inputs: Sequence[Array]
    ) -> tuple[Array, ...]:
        """Step after step."""
        last = attrs.carried + attrs.scanned
        carried, scanned = list(inputs[: attrs.carried]), inputs[attrs.carried : last]
        slices = []
        for step in range(attrs.steps):
            results = bodies[0]([*carried, *(x[step] for x in scanned), *inputs[last:]])
            carried = list(results[: attrs.carried])
            slices.append(results[attrs.carried :])
        return (*carried, *(np.stack(each) for each in zip(*slices, strict=True)))

    def most_rounds(self, attrs: ScanAttrs) -> int:
        """The loop's number of steps."""
        return attrs.steps

    def macs_of_bodies(self, attrs: ScanAttrs, macs: Sequence[int], inputs: Types) -> int:
        """The work of all steps."""
        return attrs.steps * sum(macs)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Scan or Loop."""
        write_scan(out, node)

    def arrange(self, attrs: ScanAttrs, bodies: Bodies) -> Stmt:
        """Carried values lie in the first outputs from the start."""
        last, step = attrs.carried + attrs.scanned, Var("step", 0, attrs.steps)
        starts = map(bodies.copy, bodies.inputs, bodies.outputs[: attrs.carried])
        scanned = [x.slice(step, attrs.steps) for x in bodies.inputs[attrs.carried : last]]
        results = [y.slice(step, attrs.steps) for y in bodies.outputs[attrs.carried :]]
        body = bodies.run(
            0, bodies.outputs[: attrs.carried], (*scanned, *bodies.inputs[last:]), results,
            times=attrs.steps,
        )  # fmt: skip
        count = _count(attrs, bodies.types[attrs.carried : last])
        return sequence(*starts, For(step, as_term(0), count, "serial", body))


def _count(attrs: ScanAttrs, scanned: Types) -> Term:
    """Number of slices of the scanned inputs, each of which the body runs on."""
    counts = {as_term((type_.extents or type_.shape or (0,))[0]) for type_ in scanned}
    count = counts.pop() if counts else as_term(attrs.steps)
    if counts or count.bounds()[1] != attrs.steps:
        raise TypeMismatch(f"scan of {attrs.steps} steps over {_listed(scanned)}")
    return count


def _slice(type_: TensorType) -> TensorType:
    if type_.quant is not None and not type_.quant.per_tensor:
        raise TypeMismatch(f"scan over {type_}: it is quantized along an axis")
    if any(term.constant is None for term in (type_.extents or ())[1:]):
        raise TypeMismatch(f"scan over {type_}: slices of an open size")
    return type_.with_shape(type_.shape[1:])


def _stack(type_: TensorType, count: Term) -> TensorType:
    if type_.quant is not None and not type_.quant.per_tensor:
        raise TypeMismatch(f"scan makes slices {type_}, quantized along an axis")
    if type_.extents is not None:
        raise TypeMismatch(f"scan makes slices {type_} of an open size")
    return opened(
        type_.with_shape((count.bounds()[1], *type_.shape)), (count, *map(as_term, type_.shape))
    )


@register
class Call(Control):
    """call(x…) {body}: the results of a function on x…."""

    name = "call"

    def infer_bodies(
        self, attrs: NoAttrs, bodies: Sequence[Signature], *inputs: TensorType
    ) -> tuple[TensorType, ...]:
        """The function's results."""
        _require_bodies(self.name, bodies, 1)
        _require_params(self.name, bodies[0], inputs)
        return bodies[0].results

    def evaluate_bodies(
        self, attrs: NoAttrs, bodies: Sequence[RunBody], inputs: Sequence[Array]
    ) -> tuple[Array, ...]:
        """The function on the inputs."""
        return tuple(bodies[0](inputs))

    def macs_of_bodies(self, attrs: NoAttrs, macs: Sequence[int], inputs: Types) -> int:
        """The work of the function."""
        return sum(macs)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """The nodes of its body."""
        write_call(out, node)

    def arrange(self, attrs: NoAttrs, bodies: Bodies) -> Stmt:
        """The function's code."""
        return bodies.run(0, (), bodies.inputs, bodies.outputs)

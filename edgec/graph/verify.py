"""The contract of a graph function, checked plainly after every stage that makes one."""

from __future__ import annotations

from weakref import WeakSet

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.extents import infer_types
from edgec.graph.ir import Constant, Function, Module, Node, Value

#: Nodes do not change, and most passes leave most nodes as they are: each is verified once.
_VERIFIED: WeakSet[Node] = WeakSet()


def verify_module(module: Module) -> None:
    """Raise ContractError unless every function is well formed."""
    if "main" not in module.functions:
        raise ContractError("a module has no function main")
    for function in module.functions.values():
        verify_function(function)


def verify_function(function: Function) -> None:
    """SSA, unique names, defined before use, types equal to each operator's type relation."""
    where = f"function {function.name}"
    defined: set[Value] = set()
    names: set[str] = set()

    def define(value: Value) -> None:
        if value.name in names:
            raise ContractError(f"{where}: two values are named {value.name}")
        names.add(value.name)
        defined.add(value)

    for value in (*function.params, *function.constants()):
        define(value)
    for node in function.nodes:
        for value in node.inputs:
            if value not in defined:
                raise ContractError(f"{where}: node {node.name!r} reads undefined {value}")
        if node not in _VERIFIED:
            _verify_node(node, where)
        for value in node.outputs:
            define(value)
    _verify_counts(function, where)
    for value in function.results:
        if value not in defined and not isinstance(value, Constant):
            raise ContractError(f"{where}: result {value} is undefined")
    _verify_states(function, where)


def _verify_node(node: Node, where: str) -> None:
    """Attributes of its operator, and outputs of the types that its operator gives its inputs."""
    if not isinstance(node.attrs, node.op.attrs_class):
        raise ContractError(f"{where}: node {node.name!r} has attributes of another operator")
    try:
        signatures = [body.signature for body in node.bodies]
        types = infer_types(node.op, node.attrs, signatures, node.input_types)
    except TypeMismatch as mismatch:
        raise ContractError(f"{where}: node {node.name!r}: {mismatch.message}") from None
    if types != tuple(value.type for value in node.outputs):
        raise ContractError(
            f"{where}: node {node.name!r} ({node.op.name}) has another output type",
            details=tuple(f"{v}: {v.type}, by its operator {t}"
                          for v, t in zip(node.outputs, types, strict=False)),
        )  # fmt: skip
    for body in node.bodies:
        verify_body(body)
    _VERIFIED.add(node)


def verify_body(body: Function) -> None:
    """A body is a function without states: its node carries them."""
    if body.states or body.counts:
        raise ContractError(f"function {body.name}: a body has states, or open results")
    verify_function(body)


def _verify_counts(function: Function, where: str) -> None:
    """Counts name outputs and their axes; the outputs that they are come last, one int32 each."""
    answers, outputs = function.answers, function.outputs
    for count in function.counts:
        is_answer = 0 <= count.output < len(answers)
        if not is_answer or not 0 <= count.axis < len(answers[count.output].type.shape):
            raise ContractError(f"{where}: {count} is of no axis of an output")
        is_last = len(answers) <= count.number < len(outputs)
        if not is_last or str(outputs[count.number].type) != "int32[1]":
            raise ContractError(f"{where}: {count} is not an int32 after the other outputs")


def _verify_states(function: Function, where: str) -> None:
    """The last parameters and results belong to the states; a state keeps its type."""
    befores = tuple(state.before for state in function.states)
    afters = tuple(state.after for state in function.states)
    if befores != function.params[len(function.inputs) :]:
        raise ContractError(f"{where}: the last parameters are not its states")
    if afters != function.results[len(function.outputs) :]:
        raise ContractError(f"{where}: the last results are not its states")
    for state in function.states:
        if state.before.type != state.after.type:
            raise ContractError(
                f"{where}: state {state.before} changes its type to {state.after.type}"
            )
        if state.before.type != state.initial.type:
            raise ContractError(
                f"{where}: state {state.before} is {state.before.type}, its initial value"
                f" {state.initial.type}"
            )

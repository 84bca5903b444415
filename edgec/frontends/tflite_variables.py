"""TFLite's resource variables as functional state.

    VAR_HANDLE        which variable, by container and shared name
    READ_VARIABLE     its value: at first the state's parameter, later what was assigned in this run
    ASSIGN_VARIABLE   its value from here on; the last one is what the state becomes
    CALL_ONCE         another subgraph of the file that assigns the initial values

A variable that nothing assigns outside of CALL_ONCE is a constant. One without an initial value
starts, as in TFLite Micro, with every byte equal to its zero point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.tflite_reader import RawGraph, RawModel, RawOperator, RawTensor
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Array, TensorType

#: Container and shared name.
Key = tuple[str, str]


class Variables:
    """The variables of one file, while its main graph is imported operator by operator."""

    def __init__(self, model: RawModel, builder: GraphBuilder) -> None:
        self.model = model
        self.builder = builder
        self.handles: dict[int, Key] = {}
        self.values: dict[Key, Value] = {}
        self.states: dict[Key, Value] = {}
        self.initial: dict[Key, RawTensor] = {}
        self.assigned = self._assigned()

    def run(
        self,
        operator: RawOperator,
        operand: Callable[[int, RawOperator], Value | None],
        type_of: Callable[[RawTensor], TensorType],
        origin_of: Callable[[RawTensor], Origin],
    ) -> Value | None:
        """Import one operator of VARIABLE_KINDS; a READ_VARIABLE returns a value.

        operand, type_of, origin_of: functions from a tensor to its value, type and provenance.
        Raises ImportFailed for unsupported uses.
        """
        if operator.problem:
            raise ImportFailed(operator.problem)
        if operator.kind == "CALL_ONCE":
            self._call_once(int(operator.attributes["init_subgraph"]))
            return None
        if operator.kind == "VAR_HANDLE":
            self.handles[operator.outputs[0]] = _key(operator)
            return None
        key = self._variable(operator)
        if operator.kind == "ASSIGN_VARIABLE":
            value = operand(operator.inputs[1], operator)
            if value is None:
                raise ImportFailed("the value to assign is absent")
            self._assign(key, value)
            return None
        tensor = self.model.main.tensors[operator.outputs[0]]
        type_ = type_of(tensor)
        if key not in self.values:
            self.values[key] = self._first_value(key, type_, origin_of(tensor))
        value = self.values[key]
        if value.type != type_:
            raise ImportFailed(f"reads {type_} from a variable that holds {value.type}")
        return value

    def _first_value(self, key: Key, type_: TensorType, origin: Origin) -> Value:
        data = self._initial_data(key, type_)
        name = key[1] or origin.tensor
        if key not in self.assigned:
            return self.builder.constant(name, data, type_.quant)
        self.states[key] = self.builder.state(name, type_, data, origin)
        return self.states[key]

    def _assign(self, key: Key, value: Value) -> None:
        before = self.states.get(key)
        if before is not None:
            if before.type != value.type:
                raise ImportFailed(f"assigns {value.type} to a variable of {before.type}")
            self.builder.become(before, value)
        self.values[key] = value

    def _variable(self, operator: RawOperator) -> Key:
        handle = operator.inputs[0] if operator.inputs else -1
        if handle not in self.handles:
            raise ImportFailed("its variable is not the result of a VAR_HANDLE before it")
        return self.handles[handle]

    def _assigned(self) -> set[Key]:
        """The variables that the main graph assigns somewhere."""
        handles: dict[int, Key] = {}
        found: set[Key] = set()
        for operator in self.model.main.operators:
            if operator.kind == "VAR_HANDLE" and operator.outputs and not operator.problem:
                handles[operator.outputs[0]] = _key(operator)
            if operator.kind == "ASSIGN_VARIABLE" and operator.inputs:
                key = handles.get(operator.inputs[0])
                if key is not None:
                    found.add(key)
        return found

    def _call_once(self, number: int) -> None:
        if not 0 < number < len(self.model.graphs):
            raise ImportFailed(f"calls subgraph {number} of {len(self.model.graphs)}")
        if self.values:
            raise ImportFailed("stands after operators that use variables")
        graph: RawGraph = self.model.graphs[number]
        handles: dict[int, Key] = {}
        for operator in graph.operators:
            if operator.problem:
                raise ImportFailed(f"subgraph {number}: {operator.problem}")
            if operator.kind == "VAR_HANDLE" and operator.outputs:
                handles[operator.outputs[0]] = _key(operator)
                continue
            if operator.kind != "ASSIGN_VARIABLE" or len(operator.inputs) != 2:
                raise ImportFailed(
                    f"calls subgraph {number} with {operator.kind}: only assignments of constants"
                    " are supported"
                )
            handle, value = operator.inputs
            tensor = graph.tensors[value] if value >= 0 else None
            if handle not in handles or tensor is None or tensor.data is None:
                raise ImportFailed(f"calls subgraph {number}, which assigns computed values")
            self.initial[handles[handle]] = tensor

    def _initial_data(self, key: Key, type_: TensorType) -> Array:
        tensor = self.initial.get(key)
        if tensor is None:
            return initial_fill(type_)
        if tensor.shape != type_.shape or tensor.dtype.lower() != type_.dtype:
            raise ImportFailed(
                f"its initial value is {tensor.dtype.lower()}{list(tensor.shape)}, not {type_}"
            )
        assert tensor.data is not None
        if tensor.data.size != type_.nbytes:
            raise ImportFailed(
                f"its initial value has {tensor.data.size} bytes, not {type_.nbytes}"
            )
        data = np.frombuffer(tensor.data.tobytes(), np.dtype(type_.dtype).newbyteorder("<"))
        return data.astype(type_.dtype).reshape(type_.shape)


def initial_fill(type_: TensorType) -> Array:
    """TFLite Micro's content of a variable without initial value: its zero point in each byte.

    Source: MicroResourceVariables::Allocate.
    """
    fill = type_.quant.zero_point[0] & 0xFF if type_.quant is not None else 0
    raw = np.full(type_.nbytes, fill, np.uint8)
    return raw.view(type_.dtype).reshape(type_.shape)


def _key(operator: RawOperator) -> Key:
    attributes: dict[str, Any] = operator.attributes
    return str(attributes.get("container", "")), str(attributes.get("shared_name", ""))

"""Float models as quantization takes them: imported, simplified, without state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.ir import Function
from edgec.numerics.fixed_point import Rounding
from edgec.passes.rewriter import eliminate_dead
from edgec.pipeline import PASSES
from edgec.quantize.prepare import prepare
from edgec.quantize.undo_dynamic_range import undo_dynamic_range


def float_function(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    from_start: bool = False,
    values: Mapping[str, float] | None = None,
) -> Function:
    """The function to quantize: imported and simplified. Raises ImportFailed if it is not float.

    shapes: of inputs that the file leaves open, by name. from_start: each run is a sequence of its
    own, so that states are what they are initially. values: of inputs that are constants, by
    name.
    """
    module = import_model(path, shapes=shapes, values=values)
    main = without_states(module.main) if from_start else module.main
    function = undo_dynamic_range(
        with_passes(main, "onnx" if module.format in ("onnx", "torch") else "tflm")
    )
    if any(value.type.is_quantized for value in function.values()):
        raise ImportFailed(
            f"{path.name} is quantized already",
            hint="build it as it is; to quantize anew, start from the float model",
        )
    if function.states:
        raise ImportFailed(
            f"{path.name} keeps state from run to run: such models cannot be quantized yet",
            hint="if every run is a sequence of its own, use --from-start: the states are then"
            " what they are at first",
        )
    return prepare(function)


def without_states(function: Function) -> Function:
    """The function with its states' initial values as constants: what the first run computes."""
    initial = {state.before: state.initial for state in function.states}
    nodes = tuple(
        replace(node, inputs=tuple(initial.get(value, value) for value in node.inputs))
        for node in function.nodes
    )
    outputs = tuple(initial.get(value, value) for value in function.outputs)
    return eliminate_dead(Function(function.name, function.inputs, nodes, outputs))


def with_passes(function: Function, rounding: Rounding) -> Function:
    """The function after the passes of the pipeline."""
    for _, run in PASSES:
        function = run(function, rounding)
    return function

"""Float models as quantization takes them: simplified, and without state."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ImportFailed
from edgec.graph.extents import symbols_of
from edgec.graph.ir import Function, Module
from edgec.numerics.fixed_point import Rounding
from edgec.passes.rewriter import eliminate_dead
from edgec.passes.sequence import run_passes
from edgec.quantizer.prepare import prepare
from edgec.quantizer.undo_dynamic_range import undo_dynamic_range


def float_function(module: Module, *, from_start: bool = False) -> Function:
    """The function to quantize, from a frontend's module.

    from_start: each run is a separate sequence, so states have their initial values. Raises
    ImportFailed if the model is not float.
    """
    if symbols_of(param.type for param in module.main.params):
        raise ImportFailed(
            f"{module.source} has open sizes: such files cannot be quantized yet",
            hint="quantize it with its sizes as numbers",
        )
    main = without_states(module.main) if from_start else module.main
    rounding: Rounding = "onnx" if module.format in ("onnx", "torch") else "tflm"
    function = undo_dynamic_range(run_passes(main, rounding))
    if any(value.type.is_quantized for value in function.values()):
        raise ImportFailed(
            f"{module.source} is quantized already",
            hint="build it without quantizing; to quantize again, start from the float model",
        )
    if function.states:
        raise ImportFailed(
            f"{module.source} keeps state from run to run: such models cannot be quantized yet",
            hint="if every run starts a new sequence, use --from-start: each run then begins"
            " with the initial states",
        )
    return prepare(function)


def without_states(function: Function) -> Function:
    """The function of the first run: states' initial values become constants."""
    initial = {state.before: state.initial for state in function.states}
    nodes = tuple(
        replace(node, inputs=tuple(initial.get(value, value) for value in node.inputs))
        for node in function.nodes
    )
    outputs = tuple(initial.get(value, value) for value in function.outputs)
    return eliminate_dead(
        Function(function.name, function.inputs, nodes, outputs, counts=function.counts)
    )

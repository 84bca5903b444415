"""Steps of random ONNX models: element-wise rows from edgec's tables, and makers for the others."""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx_found_makers import MAKERS
from onnx_makers import Proposal, Propose, operand
from random_models import (
    LENGTHS,
    MOST_ELEMENTS,
    Maker,
    Model,
    Rng,
    Step,
    Tensor,
    onnx_node,
    onnx_opsets,
    random_shape,
)

OPSETS = (13, 17, 17, 18, 21, 24)
#: dtypes of inputs; most models are of floats.
DTYPES = ("float32",) * 8 + ("int32", "int64", "int8", "uint8", "bool")

#: The part of the models that begin with a selection, whose size data decide.
SELECTING = 0.25

#: Makers to choose from; QDQ pairs and convolutions more often.
RANDOM: list[Propose] = [propose for found in MAKERS.values() for propose in found]
RANDOM += [*MAKERS["QuantizeLinear"], *MAKERS["DequantizeLinear"]] * 3 + MAKERS["Conv"] * 2


def random_onnx(rng: Rng) -> Model:
    """A model of up to 12 nodes, each of which ONNX Runtime and edgec also take alone."""
    maker = Maker(rng, "onnx", int(rng.choice(OPSETS)))
    for _ in range(int(rng.integers(1, 3))):
        maker.input(Tensor(random_shape(rng), str(rng.choice(DTYPES))))
    wanted = int(rng.choice(LENGTHS))
    if rng.random() < SELECTING:
        with contextlib.suppress(LookupError):
            select(maker)
        wanted += len(maker.steps)
    for _ in range(6 * wanted):
        if len(maker.steps) >= wanted:
            break
        propose = RANDOM[int(rng.integers(len(RANDOM)))] if rng.random() < 0.7 else _row
        count = len(maker.tensors)
        try:
            taken = take(maker, propose(maker))
        except LookupError:
            taken = False
        if not taken:  # its constants go again
            for name in list(maker.tensors)[count:]:
                del maker.tensors[name]
    return maker.finish() if maker.steps else random_onnx(rng)


def select(maker: Maker) -> None:
    """Append a selection of the parts along an axis whose largest element exceeds one's."""
    rng = maker.rng
    x = maker.pick()
    shape = maker.tensors[x].shape
    axis = int(rng.integers(len(shape)))
    others = [each for each in range(len(shape)) if each != axis]
    row = x
    if others and maker.opset < 18:
        row = taken(maker, "ReduceMax", [row], axes=others, keepdims=0)
    elif others:
        row = taken(maker, "ReduceMax", [row, maker.constant(np.int64(others))], keepdims=0)
    place = maker.constant(np.int64([rng.integers(shape[axis])]))
    kind = "Greater" if rng.random() < 0.3 else "GreaterOrEqual"  # which selects one at least
    condition = taken(maker, kind, [row, taken(maker, "Gather", [row, place], axis=0)])
    taken(maker, "Compress", [x, condition], axis=axis)


def taken(maker: Maker, kind: str, inputs: list[str], **fields: Any) -> str:
    """The output of a node that is appended. Raises LookupError where it is not taken."""
    if not take(maker, Proposal(kind, inputs, fields)):
        raise LookupError
    return maker.steps[-1].outputs[0]


def take(maker: Maker, proposal: Proposal) -> bool:
    """Append a node, if the frameworks take it and its outputs are not too large."""
    outputs = [maker.name(f"v{number}_") for number in range(proposal.count)]
    read = (*proposal.inputs, *proposal.captured)
    given = {name: maker.tensors[name] for name in read if name}
    step = Step(proposal.kind, tuple(proposal.inputs), tuple(outputs), proposal.fields,
                captured=tuple(proposal.captured))  # fmt: skip
    made = output_types(step, given, maker.opset)
    if made is None or not all(map(_fits, made)):
        return False
    tensors = {**given, **dict(zip(outputs, made, strict=True))}
    inputs = tuple(name for name, t in given.items() if t.data is None)
    if any(t.open for t in given.values()):  # what selects is a part of it
        tensors, inputs = {**maker.tensors, **tensors}, tuple(maker.inputs)
        steps = (*maker.steps, step)
        alone = Model("onnx", tensors, steps, inputs, tuple(outputs), maker.opset).live()
    else:
        alone = Model("onnx", tensors, (step,), inputs, tuple(outputs), maker.opset)
    imported = imported_by(alone) if inputs else None
    if imported is None:
        return False
    opened = [[c.axis for c in imported.counts if c.output == n] for n in range(len(made))]
    made = [
        replace(t, shape=value.type.shape, open=tuple(axes))
        for t, axes, value in zip(made, opened, imported.outputs, strict=False)
    ]
    if not all(map(_fits, made)):
        return False
    maker.tensors.update(zip(outputs, made, strict=True))
    maker.steps.append(step)
    return True


def _fits(t: Tensor) -> bool:
    """Whether a value is neither empty nor too large."""
    return 0 < math.prod(t.shape) <= MOST_ELEMENTS and len(t.shape) <= 5


def output_types(step: Step, given: dict[str, Tensor], opset: int) -> list[Tensor] | None:
    """What the onnx package says of the outputs; None if it refuses or does not know."""
    import onnx
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [onnx_node(step)], "one",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)),
                                       t.shape) for n, t in given.items() if t.data is None],
        [onnx.ValueInfoProto(name=name) for name in step.outputs],
        [numpy_helper.from_array(t.data, n) for n, t in given.items() if t.data is not None],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=onnx_opsets([step], opset))
    if "." in step.kind:
        return run_types(model, given)
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception:  # whatever onnx raises for a node that is not valid
        return None
    found = []
    for entry in model.graph.output:
        tensor = entry.type.tensor_type
        if not tensor.elem_type:
            return None
        if not tensor.HasField("shape"):  # what a loop carries
            return run_types(model, given)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        dims = tensor.shape.dim
        open_axes = tuple(n for n, d in enumerate(dims) if not d.HasField("dim_value"))
        shape = tuple(1 if n in open_axes else d.dim_value for n, d in enumerate(dims))
        found.append(Tensor(shape, dtype, open=open_axes))
    return found


def run_types(model: Any, given: dict[str, Tensor]) -> list[Tensor] | None:
    """The outputs' types by a run of ONNX Runtime: onnx infers few of other domains."""
    import onnxruntime

    model.ir_version = 9
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        zeros = {n: np.zeros(t.shape, t.dtype) for n, t in given.items() if t.data is None}
        outputs = session.run(None, zeros)
    except Exception:  # whatever ONNX Runtime raises
        return None
    return [Tensor(array.shape, array.dtype.name) for array in outputs]


@functools.cache
def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="edgec_random_")
    return Path(folder) / "one.onnx"


def imported_by(model: Model) -> Any:
    """What edgec imports of a model; None unless it and ONNX Runtime take it."""
    import onnxruntime

    from edgec.errors import EdgecError
    from edgec.frontends import import_model

    try:
        data = model.write()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:  # onnx and ONNX Runtime raise what they like
        return None
    _scratch().write_bytes(data)
    try:
        return import_model(_scratch()).main
    except EdgecError:
        return None


# ---- Element-wise rows, from the tables ----


@functools.cache
def _rows() -> list[Any]:
    from edgec import ops
    from edgec.ops.row import _BY_KIND

    ops.load()
    return [row for (name, kind), rows in _BY_KIND.items() for row in rows
            if name == "onnx" and kind]  # fmt: skip


def _row(maker: Maker) -> Proposal:
    rng = maker.rng
    rows = [r for r in _rows() if r.since <= maker.opset]
    row = rows[int(rng.integers(len(rows)))]
    free = next(n for n in range(row.operands) if n not in row.fixed)
    x = maker.pick(lambda t: t.dtype in row.dtypes)
    like = maker.tensors[x]
    inputs = []
    for position in range(row.operands):
        dtype = row.fixed.get(position, like.dtype)
        inputs.append(x if position == free else operand(maker, like.shape, dtype))
    fields = {
        name: type(default)(rng.choice([0, 1]) if isinstance(default, int) else
                            round(float(rng.uniform(0.1, 2)), 2))
        for name, default in row.parameters.items() if rng.random() < 0.5
    }  # fmt: skip
    if row.onnx == "Mod" and (like.dtype == "float32" or rng.random() < 0.5):
        fields["fmod"] = 1
    return Proposal(row.onnx, inputs, fields)

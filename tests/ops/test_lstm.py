"""lstm: TFLite Micro's bits over sequences, its loops, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation, interpret
from edgec.loop.interpret import interpret as run_nest
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

INPUTS, UNITS = 7, 6


def lstm_model(
    steps: int = 4, cell_bits: int = 4, clip: float = 0.0, zero_point: int = -3, batch: int = 1,
    time_major: bool = False, activation: int = 4, dtype: str = "int8",
    depth: int = INPUTS, **absent: Any,
) -> bytes:  # fmt: skip
    rng = np.random.default_rng(steps + cell_bits)
    model = TfliteBuilder()
    outer = (steps, batch) if time_major else (batch, steps)
    step, is_wide = (0.05, False) if dtype == "int8" else (0.05 / 256, True)
    x = model.tensor("x", (*outer, depth), dtype, scale=step, zero_point=0 if is_wide else 11)

    def constant(name: str, shape: tuple[int, ...], dtype: str, scale: float) -> int:
        high = {"int8": 127, "int64": 5000 * 256}.get(dtype, 5000)
        data = rng.integers(-high, high + 1, shape).astype(dtype)
        data.flat[0] = absent.get(name, data.flat[0])
        return model.tensor(name, shape, dtype, scale=scale, data=data)

    weights = [constant(f"w{g}", (UNITS, depth), "int8", 0.004 + 0.001 * g) for g in range(4)]
    own = [constant(f"r{g}", (UNITS, UNITS), "int8", 0.011 - 0.001 * g) for g in range(4)]
    sums = "int64" if is_wide else "int32"
    biases = [constant(f"b{g}", (UNITS,), sums, step * (0.004 + 0.001 * g)) for g in range(4)]
    state: dict[str, Any] = {"scale": 0.0078, "zero_point": zero_point}
    if is_wide:
        state = {"scale": 2.0**-15, "zero_point": 0}
    hidden = model.tensor("hidden", (batch, UNITS), dtype, **state, variable=True)
    cell = model.tensor("cell", (batch, UNITS), "int16", scale=2.0 ** (cell_bits - 15),
                        variable=True)  # fmt: skip
    y = model.tensor("y", (*outer, UNITS), dtype, **state)
    inputs = [x, *weights, *own, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    for position in absent.get("positions", ()):
        inputs[position] = -1
    if "peephole" in absent:
        inputs[9] = constant("peephole", (UNITS,), "int16", 0.001)
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=activation, CellClip=clip, TimeMajor=time_major,
    )  # fmt: skip
    return model.build([x], [y])


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("cell_bits", [2, 3, 4, 6])
@pytest.mark.parametrize("steps", [1, 5])
def test_the_bits_of_tflite_micro(steps: int, cell_bits: int, dtype: str, tmp_path: Path) -> None:
    module = assert_same_bits(lstm_model(steps, cell_bits, dtype=dtype), tmp_path, range(1, 7))
    assert [state.before.type.dtype for state in module.main.states] == [dtype, "int16"]


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": 0.5},
        {"time_major": True},
        {"zero_point": 0},
        {"dtype": "int16", "clip": 0.5},
        {"dtype": "int16", "depth": 600},
    ],
    ids=str,
)
def test_options(changes: dict[str, Any], tmp_path: Path) -> None:
    assert_same_bits(lstm_model(**changes), tmp_path, range(1, 7))


@pytest.mark.parametrize(("dtype", "depth"), [("int8", INPUTS), ("int16", INPUTS), ("int16", 600)])
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("steps", [1, 3])
def test_loops(steps: int, core: str, dtype: str, depth: int, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(steps, clip=0.9, dtype=dtype, depth=depth))
    function = import_model(path).main
    reference = Interpretation(function)
    rng = np.random.default_rng(5)
    shape = function.inputs[0].type.shape
    policy = target_for(find_core(core), Options())
    (group,) = [g for g in fuse_groups(function) if g.nodes[0].op.name == "lstm"]
    has_kernel = core != "cortex-m0" and dtype == "int8"
    for _ in range(3):
        info = np.iinfo(dtype)
        inputs = [rng.integers(info.min, info.max, shape).astype(dtype), *reference.state]
        seen = dict(zip(function.params, inputs, strict=True))
        interpret(function, inputs, seen.__setitem__)
        variants = lower_group(group, policy).variants
        assert any(kernels_of(v.function) for v in variants) == has_kernel
        for variant in variants:
            arrays = dict(variant.constants)
            for param, value in zip(variant.function.params, variant.args, strict=True):
                if value is not None and value not in group.outputs:
                    arrays[param.name] = seen[value]
            made = run_nest(variant.function, arrays)
            for param, value in zip(variant.function.params, variant.args, strict=True):
                if value in group.outputs:
                    np.testing.assert_array_equal(made[param.name], seen[value], param.name)
        reference.run(inputs[:1])


@pytest.mark.parametrize(
    ("changes", "fits"),
    [({}, True), ({"w2": -128}, False), ({"r0": -128}, False), ({"b1": 1 << 23}, False)],
    ids=str,
)
def test_kernels_are_for_sums_that_share_words(
    changes: dict[str, int], fits: bool, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(**changes))
    policy = target_for(find_core("cortex-m4"), Options())
    (group,) = [g for g in fuse_groups(import_model(path).main) if g.nodes[0].op.name == "lstm"]
    variants = lower_group(group, policy).variants
    assert any(kernels_of(v.function) for v in variants) == fits
    plain = [v for v in variants if not kernels_of(v.function)]
    assert min(v.scratch_bytes for v in variants) == plain[0].scratch_bytes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"positions": (1,)}, "without an input gate"),
        ({"positions": (12,)}, "a bias or a state"),
        ({"peephole": True}, "peepholes"),
        ({"activation": 1}, "only the activation TANH"),
        ({"batch": 2}, "a batch of 2"),
        ({"clip": -1.0}, "clips -1.0"),
    ],
    ids=str,
)
def test_refusals(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(**changes))
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert words in failure.value.details[0]


def test_types(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model())
    (node,) = [n for n in import_model(path).main.nodes if n.op.name == "lstm"]
    x, hidden, cell, *rest = node.input_types
    assert node.op.macs(node.attrs, node.input_types) == 4 * 4 * UNITS * (INPUTS + UNITS)
    with pytest.raises(TypeMismatch, match="scale of a power of two"):
        quant = replace(cell.quant, scale=(0.3,))
        node.op.infer(node.attrs, x, hidden, replace(cell, quant=quant), *rest)
    with pytest.raises(TypeMismatch, match="lstm of"):
        node.op.infer(node.attrs, replace(x, dtype="int16"), hidden, cell, *rest)

"""lstm_float: near ONNX Runtime and TFLite Micro, every nest and C in the reference's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from onnx_builder import OnnxBuilder
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.types import TensorType
from edgec.ops.lstm_float import LstmFloat, LstmFloatAttrs
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session

STEPS, BATCH, DEPTH, SIZE = 3, 2, 5, 4


def constants(*, bias: bool = True, states: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    found: dict[str, Any] = {"w": normal(1, 4 * SIZE, DEPTH), "r": normal(1, 4 * SIZE, SIZE)}
    if bias or states:
        found["b"] = normal(1, 8 * SIZE) if bias else None
    if states:
        found |= {"lengths": None, "h": normal(1, BATCH, SIZE), "c": normal(1, BATCH, SIZE)}
    return found


@pytest.mark.parametrize(("bias", "states"), [(True, True), (False, True), (False, False)])
def test_against_onnxruntime(bias: bool, states: bool, tmp_path: Path) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    path = save_node(
        tmp_path / "m.onnx", "LSTM", x, constants(bias=bias, states=states), hidden_size=SIZE
    )
    check_nests(check_against_onnxruntime(path, x, 1e-6), [x])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "sideways"}, "direction 'sideways' is unknown"),
        ({"activations": ["Relu", "Tanh"]}, "activations Relu, Tanh"),
    ],
)
def test_what_is_not_supported_is_refused(
    attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    x = float_values((STEPS, BATCH, DEPTH))
    path = save_node(tmp_path / "m.onnx", "LSTM", x, constants(), hidden_size=SIZE, **attributes)
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in "\n".join(caught.value.details)


def lstm_model(
    steps: int = 4, batch: int = 1, clip: float = 0.0, time_major: bool = False,
    weights_dtype: str = "float32", depth: int = DEPTH, is_constant: bool = False,
) -> bytes:  # fmt: skip
    """TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM; its first three absent inputs are peepholes.

    is_constant: what it reads; the model's input is another's.
    """
    rng = np.random.default_rng(steps)
    model = TfliteBuilder()
    outer = (steps, batch) if time_major else (batch, steps)
    given = {"data": float_values((*outer, depth))} if is_constant else {}
    x = model.tensor("x", (*outer, depth), "float32", **given)

    def constant(name: str, *shape: int) -> int:
        data = rng.normal(size=shape).astype(weights_dtype)
        return model.tensor(name, shape, weights_dtype, data=data)

    weights = [constant(f"w{g}", SIZE, DEPTH) for g in range(4)]
    own = [constant(f"r{g}", SIZE, SIZE) for g in range(4)]
    biases = [constant(f"b{g}", SIZE) for g in range(4)]
    states = [model.tensor(f"s{n}", (batch, SIZE), "float32", variable=True) for n in range(2)]
    y = model.tensor("y", (*outer, SIZE), "float32")
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *weights, *own, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1], [y],
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4, CellClip=clip, TimeMajor=time_major,
    )  # fmt: skip
    if not is_constant:
        return model.build([x], [y])
    own, size = (model.tensor(name, (2,), "float32") for name in ("own", "size"))
    model.operator("ABS", [own], [size], "AbsOptions")
    return model.build([own], [y, size])


@pytest.mark.parametrize(
    "changes",
    [{}, {"steps": 1}, {"steps": 40}, {"batch": 3}, {"batch": 2, "time_major": True},
     {"time_major": True}, {"clip": 0.5}],
    ids=str,
)  # fmt: skip
def test_sequences_near_tflite_micro(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(**changes))
    main, oracle = import_model(path).main, open_oracle(path)
    reference = Interpretation(main)
    largest = 0.0
    for seed in range(4):  # both keep their state
        x = float_values(main.inputs[0].type.shape, seed=seed)
        (mine,), (wanted,) = reference.run([x]), oracle.run([x]).outputs
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=2e-6, strict=True)
        largest = max(largest, float(np.abs(wanted).max()))
    assert largest > 0.2


@pytest.mark.parametrize("board", ["host", "mps2_an386"])
def test_steps_of_a_constant(board: str, tmp_path: Path) -> None:
    """Its state makes each run another."""
    if board != "host":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(is_constant=True))
    target, oracle = load_board(board), open_oracle(path)
    compiled = compile_model(path, target.core, Options(float_sums="ordered"), board_name=board)
    reference = Interpretation(compiled.imported.main)
    built = deploy(compiled, target, tmp_path / "out")
    with open_session("host" if board == "host" else "core", built) as session:
        for _ in range(3):
            x = [np.array([-1, 2], np.float32)]
            found, wanted = session.run(x).outputs, oracle.run(x).outputs
            for mine, exact, near in zip(found, reference.run(x), wanted, strict=True):
                assert mine.tobytes() == exact.tobytes()
                np.testing.assert_allclose(mine, near, rtol=0, atol=2e-6, strict=True)


@pytest.mark.parametrize("changes", [{}, {"batch": 3, "clip": 0.5}], ids=str)
@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an386"])
def test_c_over_a_sequence(board: str, changes: dict[str, Any], tmp_path: Path) -> None:
    if board != "host":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(**changes))
    target = load_board(board)
    compiled = compile_model(path, target.core, Options(float_sums="ordered"), board_name=board)
    main = compiled.imported.main
    built = deploy(compiled, target, tmp_path / "out")
    reference = Interpretation(main)
    with open_session("host" if board == "host" else "core", built) as session:
        assert session.selftest() == 0
        session.reset()
        for seed in range(3):
            x = float_values(main.inputs[0].type.shape, seed=seed)
            (wanted,), (found,) = reference.run([x]), session.run([x]).outputs
            assert found.tobytes() == wanted.tobytes(), f"step {seed}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights_dtype": "int8"}, "must be a constant of float32"),
        ({"depth": DEPTH + 1}, "instead of"),
    ],
    ids=str,
)
def test_what_tflite_may_say_and_is_not_supported(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(lstm_model(**changes))
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in caught.value.details[0]


def test_types() -> None:
    shapes = [(2, 1, 3), (1, 4), (1, 4), (16, 3), (16, 4), (16,)]
    types = [TensorType(shape, "float32") for shape in shapes]
    y, *states = LstmFloat().infer(LstmFloatAttrs(), *types)
    assert y.shape == (2, 1, 4) and states == types[1:3]
    assert LstmFloat().macs(LstmFloatAttrs(), types) == 2 * 16 * (3 + 4)
    for position in range(1, 6):
        wrong = list(types)
        wrong[position] = types[position].with_shape((1, 1))
        with pytest.raises(TypeMismatch, match="lstm_float of"):
            LstmFloat().infer(LstmFloatAttrs(), *wrong)
    with pytest.raises(TypeMismatch, match="clipped at -1"):
        LstmFloat().infer(LstmFloatAttrs(-1.0), *types)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_weights_with_scales_along_any_axis(kind: str, axis: int, tmp_path: Path) -> None:
    rows = {"LSTM": 4, "GRU": 3}[kind] * 4
    model = OnnxBuilder(1, (5, 1, 3))
    inputs = ["x"]
    for name, shape in (("w", (1, rows, 3)), ("r", (1, rows, 4))):
        stored = model.rng.integers(-127, 128, shape).astype(np.int8)
        scales = model.rng.uniform(0.002, 0.02, shape[axis]).astype(np.float32)
        given = [model.constant(stored, name), model.constant(scales, f"{name}_scale"),
                 model.constant(np.zeros(shape[axis], np.int8), f"{name}_zero")]  # fmt: skip
        inputs.append(model.add("DequantizeLinear", given, axis=axis))
    path = model.save(model.add(kind, inputs, hidden_size=4), tmp_path / "m.onnx")
    x = float_values((5, 1, 3))
    compiled = compile_model(path, load_board("host").core, Options())
    (want,) = open_oracle(path).run([x]).outputs
    np.testing.assert_allclose(compiled.reference([x])[0], want, rtol=0, atol=1e-5)

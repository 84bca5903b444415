"""Pruned weights as a stream: TFLite Micro's bits, fewer instructions, off where it is slower."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared_folder import find_shared

from edgec import external
from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import Compiled, compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core

MODEL = find_shared() / "models" / "mlperf_ad_autoencoder_int8.tflite"
FULLY_CONNECTED = 9
pytestmark = pytest.mark.skipif(not MODEL.is_file(), reason="the sample models are not here")


def pruned(share: float, folder: Path) -> Path:
    """The anomaly detector with the smallest weights of each layer made zeros."""
    import flatbuffers

    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(MODEL.read_bytes(), 0))
    graph = model.subgraphs[0]
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        if max(code.builtinCode, code.deprecatedBuiltinCode) == FULLY_CONNECTED:
            buffer = model.buffers[graph.tensors[operator.inputs[1]].buffer]
            weights = np.frombuffer(bytes(buffer.data), np.int8).copy()
            order = np.argsort(np.abs(weights.astype(np.int32)), kind="stable")
            weights[order[: int(share * weights.size)]] = 0
            buffer.data = weights.view(np.uint8)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    path = folder / "pruned.tflite"
    path.write_bytes(builder.Output())
    return path


def symbols(compiled: Compiled) -> list[str]:
    return [name for variant in compiled.chosen for name in variant.their_functions]


def run(
    compiled: Compiled, board: str, folder: Path, inputs: list[np.ndarray]
) -> tuple[bytes, int]:
    built = deploy(compiled, load_board(board), folder)
    with open_session("core", built) as session:
        result = session.run(inputs)
    assert result.instructions
    return result.outputs[0].tobytes(), result.instructions


@pytest.mark.full
@pytest.mark.parametrize(
    ("board", "share", "most"),
    [("sim_m0", 0.9, 0.32), ("sim_m0", 0.8, 0.44), ("mps2_an385", 0.8, 0.55)],
)
def test_fewer_instructions_same_bits(
    board: str, share: float, most: float, tmp_path: Path
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    model = pruned(share, tmp_path)
    core = load_board(board).core
    ours = compile_model(model, core, Options(), board_name=board)
    theirs = compile_model(model, core, Options(kernels=external.sparse()), board_name=board)
    assert set(symbols(theirs)) == {"edgec_sparse_s8"}
    inputs = generate_inputs(1, [(p.type.shape, p.type.dtype) for p in ours.module.main.inputs])
    wanted = open_oracle(model, "tflm").run(inputs).outputs[0].tobytes()
    _, before = run(ours, board, tmp_path / "ours", inputs)
    found, after = run(theirs, board, tmp_path / "theirs", inputs)
    assert found == wanted
    assert after <= most * before
    stored = [sum(a.nbytes for a in c.program.constants.values()) for c in (ours, theirs)]
    assert stored[1] < 0.55 * stored[0]


@pytest.mark.full
def test_each_use_is_compared_on_the_simulated_core(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    given = Options(kernels=external.sparse())
    compiled = compile_model(pruned(0.9, tmp_path), find_core("cortex-m4"), given)
    assert set(symbols(compiled)) == {"edgec_sparse_s8"}


def test_it_is_off_where_it_does_not_pay(tmp_path: Path) -> None:
    options = Options(kernels=external.sparse())
    assert not symbols(compile_model(MODEL, find_core("cortex-m0"), options)), "too few zeros"
    assert not symbols(compile_model(pruned(0.7, tmp_path), find_core("cortex-m4"), options))

"""An input that is fed row by row: the frame never exists, the bits stay."""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_models import MODELS

from edgec.boards.board import load_board
from edgec.deploy.project import Built, deploy
from edgec.errors import PlanError
from edgec.graph.ir import Module
from edgec.ops.add import AddAttrs
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model, compile_module
from edgec.runners.engine import open_session
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "passes"))
from test_stream_groups import Network, mobile, pooled, residual

RANGE, NULL = -6, -1


def built(function: Any, board_name: str, out: Path) -> tuple[Compiled, Built]:
    board = load_board(board_name)
    module = Module({"main": function}, source="net.onnx")
    compiled = compile_module(module, board.core, Options(io="rows", optimize="ram"))
    return compiled, deploy(compiled, board, out, traced=True)


@pytest.mark.parametrize("make", [mobile, residual, pooled])
@pytest.mark.parametrize(("board", "engine"), [("host", "host"), ("mps2_an386", "core")])
def test_rows_give_the_same_bits(make: Any, board: str, engine: str, tmp_path: Path) -> None:
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    compiled, project = built(make(), board, tmp_path / "p")
    x = compiled.module.main.params[0].type
    assert "x" not in [buffer.name for buffer in compiled.problem.buffers]
    with open_session(engine, project) as session:
        for seed in (1, 2):
            inputs = generate_inputs(seed, [(x.shape, x.dtype)])
            (expected,) = compiled.reference(inputs)
            for trace in (False, True):
                found = session.run(inputs, trace=trace)
                assert np.array_equal(found.outputs[0].reshape(expected.shape), expected)


def test_rows_are_counted(tmp_path: Path) -> None:
    compiled, project = built(mobile(), "host", tmp_path / "p")
    assert project.artefact is not None
    model = HostModel(project.artefact, project.manifest)
    context = ctypes.c_void_p(model._context.address)
    feed, run = model._functions["feed_row"], model._functions["run"]
    x = compiled.module.main.params[0].type
    (image,) = generate_inputs(3, [(x.shape, x.dtype)])
    rows = [np.ascontiguousarray(row) for row in image[0]]

    def give(row: Any) -> int:
        status: int = feed(context, ctypes.c_void_p(row.ctypes.data))
        return status

    assert feed(context, None) == NULL
    assert run(context, None, None) == RANGE  # nothing was fed
    assert [give(row) for row in rows[:4]] == [0] * 4
    assert run(context, None, None) == RANGE  # not enough
    assert model.call("reset") == 0  # the four rows are forgotten
    assert [give(row) for row in rows] == [0] * len(rows)
    assert give(rows[0]) == RANGE  # a run is due
    assert run(context, None, None) == 0
    (expected,) = compiled.reference([image])
    output = ctypes.string_at(model._place("output", 0), expected.nbytes)
    model.check()
    model.close()
    assert output == expected.tobytes()


def test_the_header_says_how(tmp_path: Path) -> None:
    _, project = built(mobile(), "host", tmp_path / "p")
    header = (project.project / "net.h").read_text(encoding="utf-8")
    assert "#define NET_INPUT_0_ROWS 13u" in header
    assert "#define NET_INPUT_0_ROW_BYTES 24u" in header
    assert "ec_status net_feed_row(net_context *context, const void *row);" in header


def test_what_cannot_be_fed_is_refused() -> None:
    n = Network()
    x, y = n.input(6, 6, 2), n.b.param("y", n.input(6, 6, 2).type)
    two = n.b.finish([n.window(x, "a", 2, 1), n.window(y, "b", 2, 1)])
    core = load_board("host").core
    with pytest.raises(PlanError, match="models with one input, this one has"):
        compile_module(Module({"main": two}), core, Options(io="rows"))
    n = Network()
    flat = n.b.finish([n.window(n.input(1, 6, 2), "only", 2, 1)])  # one row is no image
    with pytest.raises(PlanError, match="only does not take an image row by row"):
        compile_module(Module({"main": flat}), core, Options(io="rows"))
    n = Network()
    x = n.input(6, 6, 2)
    y = n.b.op("add", [x, n.constant("c", (1, 6, 6, 2), "int8")], AddAttrs(x.type.quant), name="y")
    with pytest.raises(PlanError, match="y does not take an image row by row"):
        compile_module(Module({"main": n.b.finish([y])}), core, Options(io="rows"))


@pytest.mark.parametrize("name", ["vww", "person_detect"])
def test_images_fed_by_rows_need_16_kilobytes(
    name: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    board = load_board("mps2_an386")
    options = Options(io="rows", optimize="ram")
    compiled = compile_model(
        sample_model(MODELS[name]), board.core, options, arena_limit_bytes=16_000
    )
    assert compiled.program.arena_bytes <= 16_000
    project = deploy(compiled, board, tmp_path / "p")
    x = compiled.module.main.params[0].type
    inputs = generate_inputs(1, [(x.shape, x.dtype)])
    (expected,) = compiled.reference(inputs)
    with open_session("core", project) as session:
        found = session.run(inputs)
    assert np.array_equal(found.outputs[0].reshape(expected.shape), expected)

"""`edgec bench --peers`: another generator's C on the same core, and what is said without one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.errors import EdgecError, ToolMissing
from edgec.options import Options
from edgec.oracle import peers
from edgec.oracle.peers import find_peer_models, installed_peers, measure_peers, versions
from edgec.report.peers import render_peers

needs_peer = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or peers._emx(Path(), Path()) is None,
    reason="emx-onnx-cgen (edgec[packages]) or arm-none-eabi-gcc is not installed",
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two dense layers of floats, the second after a sigmoid, for which a peer needs libm."""
    rng, float_ = np.random.default_rng(1), TensorProto.FLOAT
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("a", (12, 16)), ("b", (16, 5)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Sigmoid", ["h"], ["s"]),
        helper.make_node("MatMul", ["s", "b"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "dense", [helper.make_tensor_value_info("x", float_, [3, 12])],
        [helper.make_tensor_value_info("y", float_, [3, 5])], weights,
    )  # fmt: skip
    path = tmp_path / "dense.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@needs_peer
def test_the_same_answer_on_the_same_core(model: Path) -> None:
    ours, theirs = measure_peers(model)[:2]
    assert (ours["by"], theirs["by"]) == ("edgec", "emx-onnx-cgen")
    assert theirs["max_abs_diff"] < 1e-5
    for row in (ours, theirs):
        assert row["instructions"] > 3 * 12 * 16 and row["flash_bytes"] > 4 * (12 * 16 + 16 * 5)
        assert row["ram_bytes"] >= 4 * (3 * 12 + 3 * 5)
    assert theirs["ratio"] == ours["instructions"] / theirs["instructions"]


@needs_peer
def test_an_open_batch_is_the_same_for_both(model: Path) -> None:
    leave_open(model, 0)
    assert measure_peers(model)[1]["max_abs_diff"] < 1e-5


@needs_peer
def test_sizes_and_values_that_a_file_leaves_open(model: Path) -> None:
    leave_open(model, 1)
    graph = onnx.load(model)
    graph.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, []))
    graph.graph.node[0].input[0] = "scaled"
    graph.graph.node.insert(0, helper.make_node("Mul", ["x", "scale"], ["scaled"]))
    onnx.save(graph, model)
    assert "symbolic dimension" in measure_peers(model)[0]["error"]
    given = Options(input_shapes=(("x", (3, 12)),), input_values=(("scale", 2.0),))
    theirs = measure_peers(model, options=given)[1]
    assert theirs["max_abs_diff"] < 1e-5 and theirs["ratio"] > 0


def leave_open(model: Path, axis: int) -> None:
    """Give a dimension of the input, and of the output, a name in place of its size."""
    graph = onnx.load(model)
    for value in (graph.graph.input[0], graph.graph.output[0]):
        value.type.tensor_type.shape.dim[axis].dim_param = "N" if axis == 0 else value.name
    onnx.save(graph, model)


@needs_peer
def test_a_peer_that_refuses_a_model_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = peers.Peer("none", lambda model, out: ("false",), "model", lambda: "1")
    monkeypatch.setattr(peers, "PEERS", (none,))
    rows = measure_peers(model)
    assert "instructions" in rows[0] and "none cannot compile dense.onnx" in rows[1]["error"]
    assert "none cannot compile dense.onnx" in render_peers(rows, peers.METHOD, versions(rows))


def test_stated_figures_stand_beside_the_network_it_was_measured_on(tmp_path: Path) -> None:
    figures = {"instructions": 200, "modelled_cycles": 300, "ram_bytes": 5, "flash_bytes": 6}
    stated = {
        "models": {"kws": {"file": "net_int8.tflite"}}, "published_ms": {},
        "tflm_cmsis_nn": {"m4": {"kws": figures}}, "tflm_reference_kernels": {},
        "layers_instructions": {},
        "onnx2c_float_m4_O3": {
            "kws": {"instructions": 500, "ram_bytes": 7, "flash_bytes": 8}
        },
    }  # fmt: skip
    path = tmp_path / "baselines.json"
    path.write_text(json.dumps(stated))
    row, onnx2c = peers._stated_rows(path, Path("net_qdq.onnx"), 50)
    assert (row["by"], row["version"]) == ("TFLite Micro", "as baselines.json states")
    assert (row["ratio"], row["cycles"], row["flash_bytes"]) == (0.25, 300, 6)
    ours = {**row, "by": "edgec", "instructions": 50}
    assert "RAM, beside TFLite Micro" in render_peers([ours, row], peers.METHOD, versions([row]))
    assert (onnx2c["by"], onnx2c["ratio"], onnx2c["cycles"]) == ("onnx2c in floats", 0.1, None)
    assert peers._stated_rows(path, Path("net_f32.onnx"), 50) == [{**onnx2c, "model": "net_f32"}]
    for model in ("net.onnx", "other_qdq.onnx"):
        assert peers._stated_rows(path, Path(model), 50) == []


def test_without_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PEERS", ())
    with pytest.raises(ToolMissing, match="no other generator"):
        installed_peers()


def test_names_of_models(tmp_path: Path) -> None:
    baselines = tmp_path / "baselines.json"
    with pytest.raises(EdgecError, match="cannot read"):
        find_peer_models(baselines, ["nothing"])


def test_a_page_measured_in_part_names_the_tools_of_all_of_it() -> None:
    from measure_peers import BY, _with_others

    page = f"# Page\n\n{BY}TFLite Micro as told, b 1.0, gcc 12.\n"
    assert _with_others(page, "a 3, b 2.0, gcc 13") == "TFLite Micro as told, a 3, b 2.0, gcc 13"

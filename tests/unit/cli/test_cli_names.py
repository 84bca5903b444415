"""A model whose names hold terminal escapes: no command prints one."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

EVIL = "\x1b]0;owned\x07\x9b2J\u202e"


def save_evil(path: Path) -> Path:
    weights = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [f"in{EVIL}", f"w{EVIL}"], [f"h{EVIL}"], name=f"m{EVIL}"),
            helper.make_node("Relu", [f"h{EVIL}"], [f"out{EVIL}\nerror: fake"], name=f"r{EVIL}"),
        ],
        "g",
        [helper.make_tensor_value_info(f"in{EVIL}", TensorProto.FLOAT, (2, 4))],
        [helper.make_tensor_value_info(f"out{EVIL}\nerror: fake", TensorProto.FLOAT, (2, 3))],
        [numpy_helper.from_array(weights, f"w{EVIL}")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save_model(model, path)
    return path


def test_no_command_prints_them(edgec, tmp_path: Path) -> None:
    model, out = save_evil(tmp_path / "m.onnx"), tmp_path / "out"
    for words in (
        ("inspect", model),
        ("inspect", model, "--graph"),
        ("build", model, "--board", "mps2_an386", "-o", out),
        ("report", out),
        ("run", model, "--board", "host"),
        ("verify", model, "--board", "host", "--layers"),
        ("build", model, "--target", "cortex-m4", "--max-ram", "1", "-o", out),
    ):
        ran = edgec(*words)
        acting = {c for c in ran.out + ran.err if unicodedata.category(c) in ("Cc", "Cf")}
        assert acting <= {"\n"}, (words, acting)
        assert "\nerror: fake" not in ran.out, words
        if words[0] in ("inspect", "verify"):
            assert "x1b" in ran.out, words

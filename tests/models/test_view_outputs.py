"""Outputs that are views of an input, of another output or of a constant, with every `--io`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.errors import PlanError
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session

#: What computes the outputs a and b, and the types of these.
GRAPHS = {
    "identity": ("a = Identity(x)  b = Relu(x)", "float[1,4,1,3] a, float[1,4,1,3] b"),
    "reshape": ("s = Constant<value_ints=[3,4]>()  a = Reshape(x, s)  b = Relu(x)",
                "float[3,4] a, float[1,4,1,3] b"),
    "squeeze": ("a = Squeeze(x)  b = Identity(x)", "float[4,3] a, float[1,4,1,3] b"),
    "transpose": ("a = Transpose<perm=[0,2,1,3]>(x)  b = Relu(x)",
                  "float[1,1,4,3] a, float[1,4,1,3] b"),
    "twice": ("a = Relu(x)  b = Squeeze(a)", "float[1,4,1,3] a, float[4,3] b"),
    "constant": ("a = Constant<value_floats=[1.0,2.0]>()  b = Relu(x)",
                 "float[2] a, float[1,4,1,3] b"),
}  # fmt: skip

#: With rows the input is never whole in memory.
VIEWS_OF_THE_INPUT = ("identity", "reshape", "squeeze", "transpose")


@pytest.mark.parametrize("io", ["arena", "caller", "rows"])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_output_is_written(name: str, io: str, tmp_path: Path) -> None:
    nodes, outputs = GRAPHS[name]
    text = (
        f'<ir_version: 9, opset_import: ["":17]> g (float[1,4,1,3] x) => ({outputs}) {{ {nodes} }}'
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    board = load_board("host")
    if io == "rows" and name in VIEWS_OF_THE_INPUT:
        with pytest.raises(PlanError, match="cannot be fed by rows"):
            compile_model(path, board.core, Options(io=io), board=board)
        return
    compiled = compile_model(path, board.core, Options(io=io), board=board)
    built = deploy(compiled, board, tmp_path / "out", traced=True)
    oracle = open_oracle(path)
    with open_session("host", built) as session:
        for seed in (1, 2):  # the second run shows what the first one left
            x = np.random.default_rng(seed).normal(size=(1, 4, 1, 3)).astype(np.float32)
            found = session.run([x], trace=True).outputs
            for mine, wanted in zip(found, oracle.run([x]).outputs, strict=True):
                np.testing.assert_array_equal(mine.reshape(wanted.shape), wanted)

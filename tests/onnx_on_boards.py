"""The C of ONNX models of one input on boards of four kinds, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from built_models import build
from test_same_bits import need_tools

from edgec.graph.types import Array
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import Compiled
from edgec.runners.engine import open_session

#: A board and the engine that runs it: plain C, a core with neither DSP nor MVE, one with each.
PLACES = (("host", "host"), ("sim_m0", "core"), ("mps2_an386", "core"), ("mps3_an547", "qemu"))


def onnx_runtime(path: Path, x: Array) -> Array:
    """What ONNX Runtime gives for the model's only output; skips where it is absent."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    (y,) = open_oracle(path).run([x]).outputs
    return y


def check_c_against_onnxruntime(path: Path, x: Array, board: str, engine: str) -> Compiled:
    """Assert that the C for `board` gives ONNX Runtime's values; skips where a tool is absent.

    path: with a name that no other model of the tests has.
    """
    need_tools(engine, "gcc", board)
    wanted = onnx_runtime(path, x)
    compiled, built = build(path, board)
    with open_session(engine, built) as session:
        (found,) = session.run([x]).outputs
    assert np.array_equal(found.reshape(wanted.shape), wanted)
    return compiled

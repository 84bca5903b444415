"""Columns that are moved one by one: few instructions for each element on the M4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

from edgec.api import compile as compile_model

AT = np.random.default_rng(0).integers(0, 50, 32)
#: Nodes from x [16, 64] to y, what y is, and the most instructions of an element.
#: Four at a time took 4.3, 3.1, 3.4, 3.4.
MOVES = {
    "chosen": ("y = Gather<axis = 1>(x, at)", lambda x: x[:, AT], 3.2),
    "every second": ("y = Slice(x, zero, end, one, two)", lambda x: x[:, ::2], 2.8),
    "backwards": ("y = Slice(x, last, first, one, back)", lambda x: x[:, ::-1], 3.0),
    "transposed": ("y = Transpose<perm = [1, 0]>(x)", lambda x: x.T, 3.2),
}


@pytest.mark.parametrize("name", MOVES)
def test_columns_take_few_instructions(name: str, tmp_path: Path) -> None:
    nodes, expected, most = MOVES[name]
    x = np.random.default_rng(1).normal(size=(16, 64)).astype(np.float32)
    wanted = expected(x)
    text = f"""<ir_version: 9, opset_import: ["" : 17]>
        m (float[16,64] x) => (float[{wanted.shape[0]},{wanted.shape[1]}] y)
        <int64[32] at = {{ {", ".join(map(str, AT))} }}, int64[1] zero = {{0}},
         int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] end = {{64}}, int64[1] last = {{63}},
         int64[1] first = {{-65}}, int64[1] back = {{-1}}>
        {{ {nodes} }}"""
    path = tmp_path / "m.onnx"
    path.write_bytes(parse_model(text).SerializeToString())
    with compile_model(path, board="stm32", engine="core") as compiled:
        result = compiled.run_all([x])
    np.testing.assert_array_equal(result.outputs[0], wanted)
    assert result.instructions / wanted.size < most

"""Rows that are only moved are copied: where, how long, and to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model
from onnx_builder import OnnxBuilder
from single_node import check_nests

from edgec.api import compile as compile_model
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.loop.ir import Call
from edgec.loop.rewrite import statements
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.targets.core import find_core
from edgec.targets.target import target_for

Make = Callable[[OnnxBuilder], str]


def ints(b: OnnxBuilder, *values: int) -> str:
    return b.constant(np.asarray(values, np.int64), "ints")


def table(b: OnnxBuilder, columns: int = 20) -> str:
    """Rows for the numbers 0 to 5."""
    return b.constant(b.rng.normal(size=(6, columns)).astype(np.float32), "table")


#: [the model of x [4, 6, 8], the elements of each row that is copied].
CASES: dict[str, tuple[Make, list[int]]] = {
    "joined_whole": (lambda b: b.add("Concat", ["x", "x"], axis=0), [192, 192]),
    "joined_rows": (lambda b: b.add("Concat", ["x", "x"], axis=1), [48, 48]),
    "part": (lambda b: b.add("Slice", ["x", ints(b, 1), ints(b, 5), ints(b, 1)]), [32]),
    "every_second": (
        lambda b: b.add("Slice", ["x", ints(b, 0), ints(b, 6), ints(b, 1), ints(b, 2)]), [8]),
    "turned": (lambda b: b.add("Transpose", ["x"], perm=[1, 0, 2]), [8]),
    "turned_whole": (lambda b: b.add("Transpose", ["x"], perm=[2, 1, 0]), []),
    "rows_by_number": (
        lambda b: b.add("Gather", [b.add("Reshape", ["x", ints(b, 24, 8)]), ints(b, 3, 0, 23, 3)]),
        [8]),
    "embedding": (
        lambda b: b.add("Gather", [table(b), b.add("ArgMax", ["x"], axis=1, keepdims=0)]), [20]),
    "embedding_of_one": (
        lambda b: b.add("Gather", [table(b, 1), b.add("ArgMax", ["x"], axis=1, keepdims=0)]), []),
    "few_channels": (
        lambda b: b.add("Slice", ["x", ints(b, 0), ints(b, 1), ints(b, 2)]), []),
    "padded_rows": (lambda b: b.add("Pad", ["x", ints(b, 1, 0, 0, 2, 0, 0)]), [192]),
    "padded_image": (lambda b: b.add("Pad", ["x", ints(b, 1, 2, 0, 1, 1, 0)]), [48]),
    "padded_columns": (lambda b: b.add("Pad", ["x", ints(b, 0, 1, 3, 1, 0, 2)]), [8]),
    "padded_to_one_step": (
        lambda b: b.add("Pad", ["x", ints(b, 0, 3, 1, 0, 1, 1)]), [8]),  # both end at step 9
    "padded_at_the_edge": (
        lambda b: b.add("Pad", ["x", ints(b, 0, 1, 0, 0, 2, 0)], mode="edge"), [8]),
    "mirrored": (
        lambda b: b.add("Pad", ["x", ints(b, 0, 1, 0, 0, 2, 0)], mode="reflect"),
        [8, 8, 8, 48, 16]),
}  # fmt: skip


def copied(function: Function, core: str) -> list[int]:
    """The elements of each copy of the quickest variant of each group."""
    found = []
    for group in fuse_groups(function):
        for variant in lower_group(group, target_for(find_core(core), Options())).variants[:1]:
            calls = [s for s in statements(variant.function.body) if isinstance(s, Call)]
            found += [int(c.args[-1].value) for c in calls if "_row_" in c.callee]
    return found


def test_copies_of_chosen_rows_take_few_instructions(tmp_path: Path) -> None:
    """24 rows of 32 floats: 3.2 instructions an element as loops."""
    b = OnnxBuilder(3, (4, 6, 8))
    rows = b.add("Reshape", ["x", ints(b, 6, 32)])
    chosen = ints(b, *(n * 5 % 6 for n in range(24)))
    path = b.save(b.add("Gather", [rows, chosen]), tmp_path / "m.onnx")
    with compile_model(path, board="stm32", engine="core") as compiled:
        result = compiled.run_all([b.rng.normal(size=(4, 6, 8)).astype(np.float32)])
    assert result.instructions < 2 * 24 * 32


#: Of int8: shapes before and after, the padding, and the most instructions an element on the M4
#: and on a core without unaligned loads; 4 to 10 as loops.
PADS = {
    "image": ("1,12,12,8", "1,14,14,8", "0,1,1,0,0,1,1,0", 1.5, 2.6),
    "start": ("1,12,12,8", "1,16,12,8", "0,4,0,0,0,0,0,0", 0.25, 1.2),
    "channels": ("1,12,12,6", "1,12,12,8", "0,0,0,1,0,0,0,1", 2.2, 6.0),
}


@pytest.mark.parametrize("name", PADS)
@pytest.mark.parametrize("board", ["stm32", "sim_m0"])
def test_pads_take_few_instructions(name: str, board: str, tmp_path: Path) -> None:
    before, after, pads, *most = PADS[name]
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> m (int8[{before}] x) => (int8[{after}] y)
        <int64[8] pads = {{{pads}}}, int8 value = {{3}}> {{ y = Pad(x, pads, value) }}"""
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    shape = tuple(map(int, before.split(",")))
    x = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    with compile_model(path, board=board, engine="core") as compiled:
        result = compiled.run_all([x])
    (expected,) = interpret(import_model(path).main, [x])
    np.testing.assert_array_equal(result.outputs[0], expected)
    assert result.instructions < most[board == "sim_m0"] * expected.size


@pytest.mark.parametrize("name", CASES)
def test_rows_are_copied_to_the_same_bits(name: str, tmp_path: Path) -> None:
    make, rows = CASES[name]
    b = OnnxBuilder(3, (4, 6, 8))
    path = b.save(make(b), tmp_path / "m.onnx")
    function = import_model(path).main
    assert copied(function, "cortex-m4") == rows
    assert copied(function, "cortex-m0") == rows
    x = b.rng.normal(size=(4, 6, 8)).astype(np.float32)
    check_nests(function, [x])
    with compile_model(path, board="stm32", engine="core") as compiled:
        np.testing.assert_array_equal(compiled.run(x), interpret(function, [x])[0])

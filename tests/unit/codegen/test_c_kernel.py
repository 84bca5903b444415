"""Kernels of a GPU as text, and where a function is cut into several."""

from __future__ import annotations

import re

import pytest

from edgec.codegen.c_kernel import emit_beside, emit_kernels, without_traces
from edgec.errors import ContractError
from edgec.loop.bound import kernel_parts
from edgec.loop.ir import Call
from edgec.loop.parser import parse_func
from edgec.loop.rewrite import walk

TURNED = """
func turned(x: arena int8[4, 30], w: constant int8[30], t: scratch int8[4, 30], y: arena int8[4, 30]) {
  alloc s: shared int8[30]
  alloc r: register int8[1]
  block_x for i in 0..4 { thread_x for j in 0..30 { t[i, j] = x[i, j] } }
  sync grid
  block_x for m in 0..4 {
    thread_x for n in 0..30 { s[n] = t[3 - m, n] }
    sync block
    thread_x for k in 0..20 { r[0] = w[k] y[m, k] = s[29 - k] | r[0] }
  }
}
"""  # noqa: E501


def test_a_barrier_of_the_grid_starts_another_kernel() -> None:
    first, second = emit_kernels(parse_func(TURNED), "turned", {}, {})
    assert (first.name, second.name) == ("turned", "turned_then_2")
    assert first.params == (0, 2) and second.params == (1, 2, 3)
    assert first.launch.extents == second.launch.extents == (4, 1, 1, 30, 1, 1)
    assert not first.waits and second.waits
    assert first.text == (
        "EC_GLOBAL void turned(const int8_t *x, int8_t *t) {\n"
        "    {\n"
        "        const int32_t i = EC_BLOCK_X;\n"
        "        {\n"
        "            const int32_t j = EC_THREAD_X;\n"
        "            t[i * 30 + j] = x[i * 30 + j];\n"
        "        }\n"
        "    }\n"
        "}"
    )
    assert "EC_SHARED_ARRAY(int8_t, s, 30);\n" in second.text
    assert "        EC_BLOCK_BARRIER();\n" in second.text
    # Fewer steps than threads: the others skip the body, and registers are the thread's own.
    assert "if (EC_THREAD_X < 20) {\n            const int32_t k = EC_THREAD_X;\n" in second.text
    assert "const int8_t *restrict w" in second.text


def test_kernels_beside_each_other_have_blocks_of_their_own() -> None:
    first, second = kernel_parts(parse_func(TURNED))
    kernel = emit_beside("both", [(first, {}), (second, {}), (first, {})], {})
    assert kernel.launch.extents == (12, 1, 1, 30, 1, 1) and kernel.waits
    assert kernel.text.startswith(
        "EC_GLOBAL void both(const int8_t *x_of_1, int8_t *t_of_1, const int8_t *restrict w_of_2,\n"
    )
    assert re.findall(r"(?:if|else).*|.*block_x.*;", kernel.text) == [
        "if (EC_BLOCK_X < 4) {",
        "        const int32_t block_x = EC_BLOCK_X;",
        "            const int32_t i = block_x;",
        "else if (EC_BLOCK_X < 8) {",
        "        const int32_t block_x = (EC_BLOCK_X - 4);",
        "            const int32_t m = block_x;",
        "if (EC_THREAD_X < 20) {",
        "else {",
        "        const int32_t block_x = (EC_BLOCK_X - 8);",
        "            const int32_t i = block_x;",
    ]


def test_what_nothing_is_bound_in_is_one_thread() -> None:
    text = "func one(x: arena int8[4], y: arena int8[4]) { for i in 0..4 { y[i] = x[i] } }"
    func = parse_func(text)
    (kernel,) = emit_kernels(func, "one", {}, {})
    assert kernel.launch.blocks == kernel.launch.threads == 1


def test_a_barrier_of_the_grid_in_a_loop_is_refused() -> None:
    text = TURNED.replace("sync grid", "").replace("sync block", "sync grid")
    with pytest.raises(ContractError, match="a barrier of the grid inside of a statement"):
        emit_kernels(parse_func(text), "turned", {}, {})


def test_traces_are_left_out() -> None:
    func = parse_func("func f(x: arena int8[4]) { call trace_part(3) x[0] = 1i8 }")
    silent = without_traces(func)
    assert [stmt for stmt, _ in walk(silent.body) if isinstance(stmt, Call)] == []
    assert kernel_parts(silent)[0].params == func.params

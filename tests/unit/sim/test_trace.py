"""Calls of the trace function are recorded, with memory as it is then, and cost nothing."""

import pytest

from edgec.errors import RunFailed
from edgec.sim.core import CORES, CoreSimulator

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

PROGRAM = r"""
#include <stddef.h>
void ec_trace(void *ctx, uint32_t id, const void *ptr, int32_t row, uint32_t bytes);
uint8_t arena[64];
static volatile uint32_t executed;
__attribute__((noinline, used)) void ec_trace(
    void *ctx, uint32_t id, const void *ptr, int32_t row, uint32_t bytes)
{ executed += id + bytes + (uint32_t)row + (ptr == ctx); }
__attribute__((used)) uint32_t was_executed(void) { return executed; }
__attribute__((used)) uint32_t work(uint32_t rows, uint32_t trace)
{
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t i = 0; i < 8; ++i) { ((volatile uint8_t *)arena)[i] = (uint8_t)(r * 8 + i); }
#ifdef __riscv
        if (trace) { __asm__ volatile("mv a0, %0\n li a1, 7\n mv a2, %0\n mv a3, %1\n li a4, 8\n"
            "li a5, 0\n li a6, 0\n jal ra, ec_trace"
            :: "r"(arena), "r"(r) : "a0", "a1", "a2", "a3", "a4", "a5", "a6", "ra", "memory"); }
#else
        if (trace) { __asm__ volatile("mov r0, %0\n movs r1, #7\n mov r2, %0\n mov r3, %1\n"
            "sub sp, #8\n movs r4, #8\n str r4, [sp]\n bl ec_trace\n add sp, #8"
            :: "r"(arena), "r"(r) : "r0", "r1", "r2", "r3", "r4", "ip", "lr", "memory"); }
#endif
    }
    return rows;
}
__attribute__((used)) void tail(const void *p) { ec_trace(NULL, 1, p, -1, 4); }
__attribute__((used)) void wrong(void) { ec_trace(NULL, 2, (const void *)0x50000000, 0, 4); }
"""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", CORES)
def test_events(firmware, name, native):
    with CoreSimulator(firmware.build(PROGRAM, name), name, native=native) as core:
        quiet = core.call("work", 5, 0)
        assert quiet.trace == ()
        traced = core.call("work", 5, 1)
        arena = core.symbols["arena"]
        assert [(e.id, e.row, e.data, e.address) for e in traced.trace] == [
            (7, row, bytes(range(row * 8, row * 8 + 8)), arena) for row in range(5)
        ]
        assert core.call("was_executed").value == 0
        # Not counted: BL and what is after it. Counted: the instructions around it, eight by gcc
        # and up to fifteen by clang for the M0.
        assert 5 * 6 <= traced.instructions - quiet.instructions <= 5 * 16
        steps = [
            b.instructions - a.instructions
            for a, b in zip(traced.trace, traced.trace[1:], strict=False)
        ]
        assert len(set(steps)) == 1
        assert steps[0] * 4 < traced.instructions
        assert traced.trace[-1].instructions < traced.instructions
        assert "ec_trace" not in traced.functions
        assert sum(traced.counts.values()) == traced.instructions + 2 * 5
        assert traced.cycles >= traced.instructions
        assert traced.functions["work"].cycles == traced.cycles


def test_another_call_before_it_is_kept(firmware):
    with CoreSimulator(firmware.build(PROGRAM), "cortex-m4") as core:
        core.write(core.symbols["arena"], b"\1\2\3\4")
        (event,) = core.call("tail", core.symbols["arena"]).trace
        assert (event.id, event.row, event.data) == (1, -1, b"\1\2\3\4")
        with pytest.raises(RunFailed, match="traces 4 bytes at 0x50000000"):
            core.call("wrong")


def test_other_symbol_and_none(firmware):
    elf = firmware.build(PROGRAM)
    with CoreSimulator(elf, "cortex-m4", trace_symbol="") as core:
        assert core.call("work", 2, 1).trace == ()
        assert core.call("was_executed").value != 0

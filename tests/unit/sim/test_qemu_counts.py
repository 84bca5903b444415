"""The core engine counts the instructions that QEMU executes, address by address and in sum."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from sim_programs import MIXED

from edgec.sim.core import CoreSimulator

pytest.importorskip("unicorn")
pytestmark = pytest.mark.skipif(
    shutil.which("qemu-system-arm") is None, reason="qemu-system-arm is absent"
)

MACHINES = [
    ("cortex-m0", "microbit"),
    ("cortex-m3", "mps2-an385"),
    ("cortex-m4", "mps2-an386"),
    ("cortex-m7", "mps2-an500"),
    ("cortex-m33", "mps2-an505"),
]
# The AN505 starts in the secure state, whose memory is elsewhere.
ORIGINS = {"mps2-an505": (0x1000_0000, 0x3800_0000)}
USUAL = (0, 0x2000_0000)

# The vector table; the FPU on; `ticks` holds what SysTick saw; semihosting prints and ends.
START = r"""
#define REG(address) (*(volatile uint32_t *)(address))
extern uint8_t load_address[], data_start[], data_end[];
static uint32_t semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
static void print(uint32_t v)
{
    char text[10];
    for (int i = 7; i >= 0; --i) { text[i] = "0123456789abcdef"[v & 15]; v >>= 4; }
    text[8] = '\n'; text[9] = 0;
    semihost(4, text);
}
volatile uint32_t wraps;
void SysTick_Handler(void) { wraps++; }
__attribute__((used)) void Reset_Handler(void)
{
#ifdef __ARM_FP
    REG(0xE000ED88) |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
#endif
    for (uint32_t i = 0; &data_start[i] != data_end; ++i) { data_start[i] = load_address[i]; }
#ifdef TICKS
    REG(0xE000E014) = 0xFFFFFF; REG(0xE000E018) = 0; REG(0xE000E010) = 7;
    while (REG(0xE000E018) == 0) { }
    wraps = 0;
    uint32_t start = REG(0xE000E018);
    uint32_t value = CALL;
    uint32_t stop = REG(0xE000E018);
    print(value);
    print(start - stop + wraps * 0x1000000);
#else
    print(CALL);
#endif
    uint32_t exit_[2] = {0x20026, 0};
    semihost(0x18, (const void *)exit_[0]);
    for (;;) { }
}
extern uint32_t __stack_top[];
void fault(void) { print(0xdeadbeef); semihost(0x18, (const void *)0x20024); for (;;) { } }
__attribute__((used, section(".vectors"))) const void *const vectors[16] = {
    __stack_top, (const void *)Reset_Handler, (const void *)fault, (const void *)fault,
    [11] = (const void *)fault, [15] = (const void *)SysTick_Handler};
"""
TRACE = re.compile(r"^Trace .*\[[0-9a-f]+/([0-9a-f]+)/", re.MULTILINE)


def qemu(machine: str, elf: Path, *options: str) -> list[int]:
    done = subprocess.run(
        [
            "qemu-system-arm",
            "-M",
            machine,
            "-kernel",
            str(elf),
            "-nographic",
            "-monitor",
            "none",
            "-serial",
            "none",
            "-semihosting-config",
            "enable=on,target=native",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    printed = re.findall(r"^[0-9a-f]{8}$", done.stdout + done.stderr, re.MULTILINE)
    assert printed, done.stdout + done.stderr
    return [int(line, 16) for line in printed]


def executed(log: Path, first: int, last: int) -> Counter:
    """Count the addresses in [first, last) that a single-stepped QEMU logged."""
    addresses = (int(found, 16) for found in TRACE.findall(log.read_text()))
    return Counter(address for address in addresses if first <= address < last)


@pytest.mark.parametrize("optimize", ["-O2", "-Os"])
@pytest.mark.parametrize(("name", "machine"), MACHINES)
def test_every_address_is_counted_as_in_qemu(firmware, tmp_path, name, machine, optimize):
    elf = firmware.build(
        MIXED + START,
        name,
        optimize=optimize,
        start=False,
        flags=("-DCALL=mixed(24)",),
        origins=ORIGINS.get(machine, USUAL),
    )
    log = tmp_path / "log"
    (value,) = qemu(machine, elf, "-singlestep", "-d", "exec,nochain", "-D", str(log))
    with CoreSimulator(elf, name) as core:
        result = core.call("mixed", 24)
        functions = {f.name: f for f in core.image.functions}
    assert result.value == value
    # Start-up uses none of these functions, nor the compiler's own ones.
    ours = [
        "divide",
        "clamp",
        "choose",
        "copy",
        "multiply",
        "dot",
        "requantize",
        "series",
        "lanes",
        "recurse",
        "mixed",
    ]
    ours += [name for name in functions if name.startswith("__aeabi")]
    for function in (functions[name] for name in ours if name in functions):
        stop = function.address + function.size
        theirs = executed(log, function.address, stop)
        here = {a: n for a, n in result.counts.items() if function.address <= a < stop}
        assert here == theirs, function.name


@pytest.mark.parametrize("machine", [machine for _, machine in MACHINES[1:]])
def test_sum_agrees_with_systick(firmware, machine):
    name = dict((m, n) for n, m in MACHINES)[machine]
    elf = firmware.build(
        MIXED + START,
        name,
        start=False,
        origins=ORIGINS.get(machine, USUAL),
        flags=("-DCALL=mixed(20000)", "-DTICKS"),
    )
    value, ticks = qemu(machine, elf, "-icount", "shift=0")
    with CoreSimulator(elf, name) as core:
        result = core.call("mixed", 20000)
    assert result.value == value
    # SysTick runs at 25 MHz (AN505: 20): a tick is 40 (50) instructions of 1 ns.
    tick = 50 if machine == "mps2-an505" else 40
    assert result.instructions > 4_000_000
    assert abs(ticks * tick - result.instructions) <= 2 * tick

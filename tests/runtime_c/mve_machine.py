"""Call C functions on the emulated Cortex-M55 (QEMU's mps3-an547), many calls in one run.

Every array of a call ends where a memory ends, so that reading or writing after it is a fault.
The cases come in, and what they did goes out, through files (the loader device, semihosting).
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from kernel_images import meant

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, Toolchain, available_toolchains
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.targets.core import find_core

REPO_ROOT = Path(__file__).resolve().parents[2]
RUNTIME = REPO_ROOT / "runtime_c"
PROGRAM = "qemu-system-arm"

Build = tuple[str, tuple[str, ...]]
#: Compilers and flags that kernels are tested with.
QUICK_BUILDS: list[Build] = [
    ("gcc", ("-O2",)),
    ("gcc", ("-O2", "-DEC_NO_ASM")),
    ("clang", ("-Os",)),
]
BUILDS = [*QUICK_BUILDS, pytest.param(("gcc", ("-O0",)), marks=pytest.mark.full)]

# Where memories of the AN547 end: DTCM, both halves of the internal SRAM, the FPGA's SRAM.
START = r"""
#include "edgec/ec_kernel.h"
typedef void (*call_fn)(void *out, const void *x, const void *stream, const int32_t *numbers);
extern const call_fn functions[];
void Reset_Handler(void);
void fault(void);
void run_all(void);
extern uint32_t __stack_top[];
#define REG(address) (*(volatile uint32_t *)(address))
#define CASES ((const uint8_t *)0x31000000u)
#define RESULTS ((uint8_t *)0x31200000u)
#define OUT_END 0x31400000u
#define X_END 0x30080000u
#define STREAM_END 0x11200000u

static uint32_t semihost(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i]; }
    return to;
}
void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile uint8_t *)to)[i] = (uint8_t)value; }
    return to;
}
void __aeabi_memcpy(void *to, const void *from, size_t bytes);
void __aeabi_memcpy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void __aeabi_memcpy4(void *to, const void *from, size_t bytes);
void __aeabi_memcpy4(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void __aeabi_memclr4(void *to, size_t bytes);
void __aeabi_memclr4(void *to, size_t bytes) { memset(to, 0, bytes); }
void __aeabi_memclr8(void *to, size_t bytes);
void __aeabi_memclr8(void *to, size_t bytes) { memset(to, 0, bytes); }
static void finish(const char *name, uint32_t bytes) {
    uint32_t length = 0;
    while (name[length] != 0) { ++length; }
    const uint32_t open[3] = { (uint32_t)(uintptr_t)name, 5u, length };
    const uint32_t file = semihost(1u, open);
    const uint32_t write[3] = { file, (uint32_t)(uintptr_t)RESULTS, bytes };
    semihost(5u, write);
    semihost(2u, &file);
    semihost(0x18u, (const void *)0x20026u);
    for (;;) { }
}
/* Each case: function, bytes of out, x, stream, count of numbers; the numbers; the arrays, each
 * from a multiple of four bytes. The result: ticks; out. */
void run_all(void) {
    const uint32_t *at = (const uint32_t *)CASES;
    const uint32_t cases = *at++;
    uint8_t *result = RESULTS;
    for (uint32_t number = 0; number < cases; ++number) {
        const uint32_t *const head = at;
        int32_t numbers[24];
        memcpy(numbers, at + 5, 4u * head[4]);
        at += 5 + head[4];
        uint8_t *const out = (uint8_t *)(OUT_END - head[1]);
        uint8_t *const x = (uint8_t *)(X_END - head[2]);
        uint8_t *const stream = (uint8_t *)(STREAM_END - head[3]);
        memcpy(out, at, head[1]);
        at += (head[1] + 3u) / 4u;
        memcpy(x, at, head[2]);
        at += (head[2] + 3u) / 4u;
        memcpy(stream, at, head[3]);
        at += (head[3] + 3u) / 4u;
        REG(0xE000E018) = 0;
        const uint32_t before = REG(0xE000E018);
        functions[head[0]](out, x, stream, numbers);
        const uint32_t ticks = before - REG(0xE000E018);
        memcpy(result, &ticks, 4u);
        memcpy(result + 4, out, head[1]);
        result += 4u + (head[1] + 3u) / 4u * 4u;
    }
    finish(RESULT_FILE, (uint32_t)(result - RESULTS));
}
__attribute__((used)) void Reset_Handler(void) {
    REG(0xE000ED88) |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    REG(0xE000E014) = 0xFFFFFF;
    REG(0xE000E010) = 5;
    run_all();
}
void fault(void) {
    semihost(4u, "fault\n");
    semihost(0x18u, (const void *)0x20024u);
    for (;;) { }
}
__attribute__((used, section(".vectors"))) const void *const vectors[16] = {
    __stack_top,         (const void *)Reset_Handler, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault,         (const void *)fault, (const void *)fault };
"""
SCRIPT = """
ENTRY(Reset_Handler)
SECTIONS {
  . = 0x10000000; .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) }
  . = 0x30000000; .data : { *(.data*) *(.bss*) }
  __stack_top = 0x30020000;
  /DISCARD/ : { *(.comment) *(.ARM.attributes) *(.ARM.exidx*) *(.ARM.extab*) }
}
"""


@dataclass(frozen=True)
class Call:
    """One call: function by its position, what `out` holds before, constants, numbers."""

    function: int
    out: np.ndarray
    x: np.ndarray
    stream: np.ndarray
    numbers: Sequence[int]


def has_qemu() -> bool:
    """Whether the emulator is installed."""
    return shutil.which(PROGRAM) is not None


class MveMachine:
    """A program of some functions, compiled for the Cortex-M55."""

    def __init__(
        self, tool: Toolchain, source: str, functions: Sequence[str], flags: Sequence[str], at: Path
    ) -> None:
        self.folder = at
        wanted = find_core("cortex-m55")
        self.results = at / "results"
        table = "const call_fn functions[] = { " + ", ".join(functions) + " };\n"
        (at / "kernels.c").write_text(START + source + table)
        (at / "link.ld").write_text(SCRIPT)
        command = [
            *tool.command, *(wanted.clang_flags if tool.is_zig else wanted.gcc_flags),
            *LANGUAGE_FLAGS, *WARNING_FLAGS, "-Wno-pedantic", *flags, "-ffreestanding",
            "-fno-builtin", f'-DRESULT_FILE="{self.results}"',
            "-I", str(RUNTIME), "-I", str(RUNTIME / "include"), "-nostdlib",
            "-Wl,-e,Reset_Handler", "-T", str(at / "link.ld"),
            "-o", str(at / "kernels.elf"), str(at / "kernels.c"),
        ]  # fmt: skip
        if tool.is_zig:
            command += ["-fno-sanitize=all", "-g"]  # without -g, -Os strips the symbols
        else:
            command.append("-lgcc")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def run(self, calls: Sequence[Call]) -> list[tuple[np.ndarray, int]]:
        """What each call left in `out`, and about how many instructions it took (within 32)."""
        blob = [struct.pack("<I", len(calls))]
        for call in calls:
            arrays = [np.ascontiguousarray(a).tobytes() for a in (call.out, call.x, call.stream)]
            sizes = [len(a) for a in arrays]
            numbers = [int(n) for n in call.numbers]
            blob.append(struct.pack("<5I", call.function, *sizes, len(numbers)))
            blob.append(struct.pack(f"<{len(numbers)}i", *numbers))
            blob += [a + b"\0" * (-len(a) % 4) for a in arrays]
        (self.folder / "cases").write_bytes(b"".join(blob))
        assert sum(map(len, blob)) <= 0x200000, "the cases do not fit"
        self.results.unlink(missing_ok=True)
        done = subprocess.run(
            [
                PROGRAM, "-M", "mps3-an547", "-kernel", str(self.folder / "kernels.elf"),
                "-device", f"loader,file={self.folder / 'cases'},addr=0x31000000,force-raw=on",
                "-icount", "shift=0", "-nographic", "-monitor", "none", "-serial", "none",
                "-semihosting-config", "enable=on,target=native",
            ],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert self.results.is_file(), done.stdout + done.stderr
        raw = self.results.read_bytes()
        found = []
        position = 0
        for call in calls:
            (ticks,) = struct.unpack_from("<I", raw, position)
            out = np.frombuffer(raw, call.out.dtype, call.out.size, position + 4)
            position += 4 + -(-call.out.nbytes // 4) * 4
            found.append((out.reshape(call.out.shape).copy(), (ticks & 0xFFFFFF) * 1000 // 32))
        return found


def build_name(build: Build) -> str:
    """The name of a build in a test's identifier."""
    return "-".join((build[0], *build[1]))


def machine_of(build: Build, source: str, functions: Sequence[str], at: Path) -> MveMachine:
    """The machine of one of BUILDS; skips the test where its compiler is absent."""
    compiler, flags = build
    tools = available_toolchains(find_core("cortex-m55"))
    tools = [t for t in tools if t.is_zig == (compiler == "clang")]
    if not tools:
        pytest.skip(f"no {compiler} for cortex-m55")
    return MveMachine(tools[0], source, functions, flags, at)


#: A call of the kernel at a position of a list: its sizes, x, and the constants of its stream.
Case = tuple[int, tuple[int, ...], np.ndarray, dict[str, np.ndarray]]


#: What `_case` gave; the same for every compiler.
_CASES: dict[object, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}


def _case(
    name: str, numbers: tuple[int, ...], x: np.ndarray, constants: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The stream of a case, which holds the constants; `out` before a call; and what is meant."""
    arrays = tuple((key, a.shape, a.tobytes()) for key, a in (("x", x), *constants.items()))
    key = (name, tuple(map(int, numbers)), arrays)
    if key not in _CASES:
        kernel = get_microkernel(name)
        sizes = dict(zip(kernel.sizes, numbers, strict=True))
        stream = kernel.stream.pack(constants, **sizes)
        assert stream.dtype == np.int32 and stream.size == kernel.stream.words(**sizes)
        found = kernel.stream.unpack(stream, **sizes)
        for field, array in constants.items():
            assert np.array_equal(np.asarray(found[field]).reshape(-1), array.reshape(-1)), field
        to = next(p for p in meaning_of(kernel, numbers).params if p.name == "out")
        out = np.full(to.elements, 77, to.dtype)
        _CASES[key] = stream, out, meant(kernel, out, [x, stream], numbers)
    return _CASES[key]


def check_cases(
    machine: MveMachine, kernels: Sequence[str], cases: Sequence[Case]
) -> list[np.ndarray]:
    """Run all cases at once; streams hold the constants, and results must equal the meaning's.

    Returns these.
    """
    calls, wanted = [], []
    for which, numbers, x, constants in cases:
        stream, out, want = _case(kernels[which], numbers, x, constants)
        wanted.append(want)
        calls.append(Call(which, out, x, stream, list(numbers)))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), (kernels[call.function], call.numbers)
    return wanted

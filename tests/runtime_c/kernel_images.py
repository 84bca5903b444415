"""Images with microkernels for simulated cores: build them, call them, compare with meanings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.codegen.c_struct import struct_value
from edgec.loop.microkernel import get_microkernel
from edgec.sim.core import CoreSimulator
from edgec.targets.core import find_core

REPO_ROOT = Path(__file__).resolve().parents[2]
RUNTIME = REPO_ROOT / "runtime_c"
#: What an image needs besides the kernels.
START = """
#include "edgec/ec_kernel.h"

#define WORDS(n) const int32_t *n
void Reset_Handler(void);
void Reset_Handler(void) { for (;;) { } }
void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile char *)to)[i] = ((const char *)from)[i]; }
    return to;
}
void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) { ((volatile char *)to)[i] = (char)value; }
    return to;
}
void __aeabi_memcpy(void *to, const void *from, size_t bytes);
void __aeabi_memcpy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void __aeabi_memset(void *to, size_t bytes, int value);
void __aeabi_memset(void *to, size_t bytes, int value) { memset(to, value, bytes); }
void __aeabi_memclr4(void *to, size_t bytes);
void __aeabi_memclr4(void *to, size_t bytes) { memset(to, 0, bytes); }
"""
SCRIPT = """
ENTRY(Reset_Handler)
SECTIONS {
  . = 0; .text : { KEEP(*(.text*)) *(.rodata*) }
  . = 0x20000000; .data : { *(.data*) *(.bss*) }
  __stack_limit = 0x20002000; __stack_top = 0x20004000;
  /DISCARD/ : { *(.comment) *(.ARM.attributes) *(.ARM.exidx*) *(.ARM.extab*) }
}
"""
#: Core, compiler and flags of images with kernels for the DSP extension.
DSP_BUILDS = [
    ("cortex-m4", "gcc", ("-O2",)),
    pytest.param(("cortex-m4", "gcc", ("-O0",)), marks=pytest.mark.full),
    ("cortex-m4", "gcc", ("-O2", "-DEC_NO_ASM")),
    pytest.param(("cortex-m4", "clang", ("-Os",)), marks=pytest.mark.full),
    pytest.param(("cortex-m7", "gcc", ("-O3",)), marks=pytest.mark.full),
    ("cortex-m33", "clang", ("-O2",)),
]


def with_arguments(source: str) -> str:
    """C text with each ARGUMENTS(kernel) replaced by what it takes after its pointers, of n[]."""
    return re.sub(r"ARGUMENTS\((\w+)\)", lambda found: _arguments(found[1]), source)


def _arguments(name: str) -> str:
    kernel = get_microkernel(name)
    values = {size: f"n[{i}]" for i, size in enumerate((*kernel.sizes, *kernel.indices))}
    if kernel.struct is None:
        return ", ".join(values.values())
    first, *others = sorted(kernel.struct.members, key=kernel.sizes.index)
    others += kernel.struct.unread
    members = [values[member] for member in kernel.struct.members]
    value = struct_value(kernel.struct, members, is_known=False)
    values[first] = f"(const {kernel.struct.name}[1]){value}"
    return ", ".join(text for size, text in values.items() if size not in others)


def build_image(
    folder: Path, source: str, name: str, compiler: str, flags: tuple[str, ...]
) -> Path:
    """The image of C text; skips the test where the compiler is absent."""
    wanted = find_core(name)
    tools = [t for t in available_toolchains(wanted) if t.is_zig == (compiler == "clang")]
    if not tools:
        pytest.skip(f"no {compiler} for {name}")
    (folder / "kernels.c").write_text(source)
    (folder / "link.ld").write_text(SCRIPT)
    command = [
        *tools[0].command, *(wanted.clang_flags if tools[0].is_zig else wanted.gcc_flags),
        *LANGUAGE_FLAGS, *WARNING_FLAGS, *flags, "-ffreestanding", "-fno-builtin",
        "-I", str(RUNTIME), "-I", str(RUNTIME / "include"), "-nostdlib", "-Wl,-e,Reset_Handler",
        "-T", str(folder / "link.ld"), "-o", str(folder / "kernels.elf"), str(folder / "kernels.c"),
    ]  # fmt: skip
    if tools[0].is_zig:
        command += ["-fno-sanitize=all", "-g"]  # without -g, -Os strips the symbols
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "kernels.elf"


def dsp_image(request, tmp_path_factory, source):
    """A simulator of the image for `request.param`, one of DSP_BUILDS."""
    name, compiler, flags = request.param
    folder = tmp_path_factory.mktemp("kernels")
    return CoreSimulator(build_image(folder, START + source, name, compiler, flags), name)


def run_on_core(core, function, out, inputs, numbers):
    """The bytes of `out` after the call; any access outside the arrays is a fault."""
    spans = []
    arrays = [out, *inputs, np.array(numbers, np.int32)]
    for position, array in enumerate(arrays):
        span = core.allocate(f"argument {position}", array.nbytes, write=position == 0)
        core.write(span.address, array.tobytes())
        spans.append(span)
    core.call(function, *(span.address for span in spans), allow=spans)
    found = np.frombuffer(core.read(spans[0].address, out.nbytes), out.dtype)
    core.release()
    return found


#: What meanings gave; the same for every core and compiler.
_MEANT: dict[tuple[str, tuple[int, ...], bytes], np.ndarray] = {}


def meant(kernel, out, inputs, numbers):
    """What the registered meaning gives."""
    key = (kernel.name, tuple(map(int, numbers)), b"".join(a.tobytes() for a in (out, *inputs)))
    if key not in _MEANT:
        flat = [array.reshape(-1).tolist() for array in (out, *inputs)]
        args = []
        for values in flat:
            args += [values, 0]
        kernel.run(*args, *(int(n) for n in numbers))
        _MEANT[key] = np.array(flat[0], out.dtype)
    return _MEANT[key]


def onnx_tables(rng, weights, channels, *, ties, shift, largest):
    """Constants of a product that the policies accept, rounded as ONNX does it.

    Scales are at most 2**largest. ties: sums on and beside halves, weights of zero, scales of
    2**-shift and below.
    """
    if ties:
        exponents = rng.integers(shift, shift + 7, channels)
        halves = (2 * rng.integers(-150, 150, channels) + 1) * (1 << exponents) // 2
        return {
            "bias": (halves + rng.integers(-1, 2, channels)).astype(np.int32),
            "w": np.zeros(weights, np.int8),
            "scale": (2.0**-exponents).astype(np.float32),
        }
    return {
        "bias": rng.integers(-(1 << 18), 1 << 18, channels).astype(np.int32),
        "w": rng.integers(-127, 128, weights).astype(np.int8),
        "scale": (2.0 ** rng.uniform(-14, largest, channels)).astype(np.float32),
    }


def onnx_scales(rng, channels):
    """Biases and scales of int4 weights: integers stand for some of the scales."""
    scale = (2.0 ** rng.uniform(-13, 0.2, channels)).astype(np.float32)
    reach = np.minimum(300 / scale, 1 << 16)
    return {"bias": (rng.uniform(-1, 1, channels) * reach).astype(np.int32), "scale": scale}


def packed_by_four(x):
    """Inputs [quad][s][room for 6][r] of four pixels as kernels pack them: half-words of a pixel
    plus 128 and 256 times another one."""
    p, q, r, s = np.moveaxis(x.reshape(-1, 2, 6, 2)[:, :, :4].astype(np.int64), 2, 0)
    words = np.stack([p + 128 + 256 * q, q + 128 + 256 * r, r + 128 + 256 * s], axis=2)
    return np.ascontiguousarray(words.astype(np.int16)).reshape(-1).view(np.int8)

"""The kernels on RISC-V's vectors do what they are registered to mean, with vectors and without.

With vectors of 128 and 512 bits under QEMU, and as plain C on this computer.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from kernel_images import RUNTIME

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, find_toolchain
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.targets.core import CORES, host_core

SERVER = Path(__file__).parent / "kernel_server.c"
NAMES = [
    f"ec_{kernel}_s8_rvv"
    for kernel in ("conv_windows", "conv_tile", "depthwise_windows", "depthwise_two", "pack_two")
]
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90), (-128, -100, 20)]
#: Height, width, channels, kernel, strides, dilations, corner, row of outputs, padded; channels of
#: outputs, and the row.
WINDOWS = [
    ((1, 13, 21, 1, 1, 1, 1, 1, 1, 0, 0, 13, 0), 40, 0),
    ((5, 9, 3, 3, 3, 1, 1, 1, 1, 1, 1, 9, 1), 17, 0),
    ((5, 9, 3, 3, 3, 1, 1, 1, 1, 1, 1, 9, 1), 16, 2),
    ((6, 12, 4, 3, 3, 2, 2, 1, 1, 0, 0, 6, 1), 12, 2),
    ((9, 7, 1, 4, 3, 2, 1, 2, 1, 3, 1, 7, 1), 33, 1),
    ((4, 6, 2, 2, 6, 1, 1, 1, 1, 0, 3, 7, 1), 5, 3),
    ((3, 10, 5, 1, 1, 1, 2, 1, 1, 0, 0, 5, 0), 16, 1),
]
CHANNELS = [
    ((5, 9, 16, 3, 3, 1, 1, 1, 1, 1, 1, 9, 1), 0),
    ((5, 9, 37, 3, 3, 1, 1, 1, 1, 1, 1, 9, 1), 2),
    ((7, 12, 19, 3, 3, 2, 2, 1, 1, 0, 0, 6, 1), 2),
    ((7, 9, 8, 3, 3, 1, 1, 2, 2, 2, 2, 9, 1), 3),
    ((5, 8, 20, 5, 2, 1, 1, 1, 1, 2, 0, 7, 1), 1),
]
#: Kernel, rows, pixels and their distance, channels.
TWO = [(3, 3, 2, 5, 2, 4), (3, 3, 3, 17, 2, 2), (3, 3, 2, 9, 4, 6), (2, 5, 1, 3, 2, 2)]
PLANES = [(5, 4, 6, 1, 1, 7, 6), (3, 70, 2, 0, 2, 4, 75), (6, 5, 4, 2, 0, 8, 3)]
ENDS = ("outputs", "out_zero_point", "minimum", "maximum")


def window(name, number, numbers, outputs):
    kernel = get_microkernel(name)
    zero_point = (-128, 5, 0)[number % 3]
    ends = outputs, *LIMITS[number % len(LIMITS)]
    return dict(zip(kernel.sizes, (*numbers, zero_point, *ends), strict=True))


def cases(name):
    """Sizes and indices of each case of a kernel."""
    if "conv_windows" in name:
        for number, (numbers, outputs, row) in enumerate(WINDOWS):
            yield {**window(name, number, numbers, outputs), "row": row}
    elif "conv_tile" in name:
        for number, pixels in enumerate((4, 1, 4)):
            shape = (1, pixels, 21, 1, 1, 1, 1, 1, 1, 0, 0, pixels, 0)
            yield window(name, number, shape, 16 + 16 * number)
    elif "windows" in name:
        for number, (numbers, row) in enumerate(CHANNELS):
            yield {**window(name, number, numbers, numbers[2]), "row": row}
    elif "two" in name and "pack" not in name:
        for number, (kernel_h, kernel_w, rows, pixels, step, channels) in enumerate(TWO):
            pitch = (pixels - 1) * step + 2 * kernel_w
            sizes = (kernel_h, kernel_w, pitch, 2, pitch, rows, step, pixels, channels)
            yield dict(zip(get_microkernel(name).sizes, (*sizes, *LIMITS[number]), strict=True))
    else:
        for sizes in PLANES:
            yield dict(zip(get_microkernel(name).sizes, (*sizes, -128), strict=True))


def constants(rng, meaning):
    found = {}
    for param in meaning.params:
        if param.name == "bias":
            found["bias"] = rng.integers(-(1 << 20), 1 << 20, param.shape).astype(np.int32)
        elif param.name == "w":
            found["w"] = rng.integers(-128, 128, param.shape).astype(np.int8)
            found["w"][rng.random(param.shape) < 0.3] = -128
        elif param.name == "multiplier":
            found[param.name] = rng.integers(1 << 30, 1 << 31, param.shape).astype(np.int32)
        elif param.name == "shift":
            found["shift"] = rng.integers(-15, 0, param.shape).astype(np.int8)
    return found


@pytest.fixture(scope="module")
def meant():
    """The bytes of each case for the program, and what the kernel means by it."""
    data, values = [], []
    for index, name in enumerate(NAMES):
        kernel = get_microkernel(name)
        for number, sizes in enumerate(cases(name)):
            rng = np.random.default_rng(number)
            numbers = tuple(sizes.values())
            meaning = meaning_of(kernel, numbers)
            params = {param.name: param for param in meaning.params}
            result = params.get("out") or params["plane"]
            x = rng.integers(-128, 128, params["x"].elements).astype(np.int8)
            x[rng.random(x.size) < 0.3] = -128
            arrays, stream = constants(rng, meaning), np.zeros(0, np.int32)
            if kernel.stream is not None:
                stream = kernel.stream.pack(arrays, **sizes)
                assert stream.size == kernel.stream.words(**sizes)
                for key, array in kernel.stream.unpack(stream, **sizes).items():
                    assert np.array_equal(np.asarray(array).reshape(-1), arrays[key].reshape(-1))
            out, constant = [77] * result.elements, (stream.tolist(), 0)[: 2 * bool(stream.size)]
            kernel.run(out, 0, x.tolist(), 0, *constant, *numbers)
            head = [index, len(numbers), len(out), x.size, stream.size, *numbers]
            data.append(
                np.array(head, "<i4").tobytes() + x.tobytes() + stream.astype("<i4").tobytes()
            )
            values.append((name, sizes, np.array(out, np.int8)))
    return b"".join(data), values


def build(core_name, folder):
    core = host_core() if core_name == "host" else CORES[core_name]
    (folder / "kernels.h").write_text('#include "kernels/riscv/products_s8.h"\n')
    tool = find_toolchain(core, "gcc" if core_name == "host" else "clang")
    pointers = ", ".join(f"(any){name}" for name in NAMES)
    flags = [*tool.core_flags, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", f"-DNAMES={pointers}"]
    flags += ["-I", str(RUNTIME), "-I", str(RUNTIME / "include"), '-DKERNELS="kernels.h"', "-I."]
    if core_name != "host":
        flags += ["-nostdlib", "-static", "-Wno-missing-prototypes"]
    program = folder / "program"
    done = subprocess.run(
        [*tool.command, *flags, str(SERVER), "-o", str(program)], cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("core_name", ["host", "rv32imc_zve32x"])
def test_kernels(core_name, meant, tmp_path):
    runs = [[]]
    if core_name != "host":
        pytest.importorskip("ziglang")
        if shutil.which("qemu-riscv32") is None:
            pytest.skip("qemu-riscv32 is not installed (Debian package qemu-user)")
        runs = [["qemu-riscv32", "-cpu", f"rv32,v=true,vlen={bits}"] for bits in (128, 512)]
    program = build(core_name, tmp_path)
    data, values = meant
    for command in runs:
        run = subprocess.run([*command, str(program)], input=data, capture_output=True, check=False)
        assert run.returncode == 0, run.stderr
        at = 0
        for name, sizes, wanted in values:
            found = np.frombuffer(run.stdout[at : at + wanted.size], np.int8)
            assert np.array_equal(found, wanted), (name, sizes, command)
            at += wanted.size
        assert at == len(run.stdout)

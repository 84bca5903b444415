"""The kernels of 64-bit Arm do what they are registered to mean, with vectors and without.

With SDOT and without it under QEMU, and as plain C on this computer.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulated import emulator
from kernel_images import RUNTIME

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, find_toolchain
from edgec.loop.microkernel import get_microkernel
from edgec.targets.common.kernels.products import groups_at
from edgec.targets.core import CORES, host_core

HEADERS = (
    "aarch64/conv_neon_s8",
    "aarch64/conv_dotprod_s8",
    "aarch64/conv_i8mm_s8",
    "aarch64/depthwise_s8",
    "aarch64/winograd_s8",
)
#: A core with SMMLA runs the kernels with SDOT as well.
CORE_NAMES = (
    "aarch64", pytest.param("aarch64+dotprod", marks=pytest.mark.full), "aarch64+i8mm", "host",
)  # fmt: skip
SERVER = Path(__file__).parent / "kernel_server.c"
NAMES = [
    f"ec_{kernel}{rounding}_s8_{suffix}"
    for kernel, suffix in (
        ("conv", "neon"),
        ("conv", "dotprod"),
        ("conv", "i8mm"),
        ("depthwise", "neon"),
        ("winograd", "neon"),
    )
    for rounding in ("", "_onnx", "_single")
]
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]
#: Rows and columns of the window, input channels, pixels, channels.
CONVOLUTIONS = [
    (1, 1, 16, 1, 1), (1, 1, 21, 7, 16), (1, 1, 64, 13, 40), (3, 3, 6, 5, 17), (3, 3, 16, 9, 33),
    (2, 1, 17, 4, 22), (1, 10, 2, 2, 8), (1, 1, 130, 1, 60), (2, 3, 11, 3, 28), (1, 1, 18, 6, 3),
]  # fmt: skip
#: The same whose rows have fewer inputs than NEON alone takes, and than SMMLA does.
MIDDLE = [(3, 3, 3, 7, 9), (1, 1, 8, 14, 21), (2, 1, 13, 3, 13)]
SHORT = [(3, 5, 1, 7, 9), (1, 1, 5, 14, 21), (10, 4, 1, 5, 64), (2, 1, 7, 3, 13)]
#: Rows and columns of the window, rows, pixels, channels.
DEPTHWISE = [(3, 3, 1, 1, 8), (3, 3, 2, 5, 16), (5, 5, 1, 9, 3), (1, 3, 3, 4, 40), (3, 3, 2, 3, 71)]

#: Input channels, rows, pixels and channels of images of 4, 5, 9, 4 and 12 tiles.
TILED = [(8, 4, 4, 16), (16, 2, 10, 32), (24, 6, 6, 16), (128, 4, 4, 16), (8, 8, 6, 48)]


def cases(name: str):
    """Sizes, the shape of the output, and the input's length, of each case of a kernel."""
    if "winograd" in name:
        for depth, rows, pixels, channels in TILED:
            sizes = {"in_channels": depth, "rows": rows, "pixels": pixels, "channels": channels}
            yield sizes, (rows, pixels, channels), (rows + 2) * (pixels + 2) * depth
        return
    if "depthwise" in name:
        for number, (kernel_h, kernel_w, rows, pixels, channels) in enumerate(DEPTHWISE):
            step = channels * (1 + number % 2)
            row_step = (pixels - 1) * step + kernel_w * channels
            sizes = {
                "kernel_h": kernel_h, "kernel_w": kernel_w, "pitch": row_step, "tap": channels,
                "row_step": row_step, "rows": rows, "step": step, "pixels": pixels,
                "channels": channels,
            }  # fmt: skip
            yield sizes, (rows, pixels, channels), (rows + kernel_h - 1) * row_step
        return
    more = {"neon": [], "i8mm": MIDDLE, "dotprod": MIDDLE + SHORT}
    shapes = CONVOLUTIONS + more[name.rpartition("_")[2]]
    for number, (kernel_h, kernel_w, depth, pixels, channels) in enumerate(shapes):
        run, step = kernel_w * depth, depth * (1 + number % 2)
        pitch = (pixels - 1) * step + run + number % 3
        sizes = {
            "kernel_h": kernel_h, "kernel_w": kernel_w, "in_channels": depth, "pitch": pitch,
            "step": step, "pixels": pixels, "channels": channels,
        }  # fmt: skip
        yield sizes, (pixels, channels), (kernel_h - 1) * pitch + (pixels - 1) * step + run


def weights(rng, name, sizes):
    """Random ones, at their least too, but for what kernels leave out."""
    channels = sizes["channels"]
    if "winograd" in name:
        w = rng.integers(-128, 128, (channels, 9 * sizes["in_channels"]))
        w[rng.random(w.shape) < 0.3] = -128
        w[0] = -128
        return w.astype(np.int8)
    if "depthwise" in name:
        taps = sizes["kernel_h"] * sizes["kernel_w"]
        w = rng.integers(-128, 128, (taps, channels)).astype(np.int8)
        w[rng.random(w.shape) < 0.3] = -128
        w[1::2][w[: taps // 2 * 2 : 2] == -128] = -127
        return w
    run = sizes["kernel_w"] * sizes["in_channels"]
    w = rng.integers(-128, 128, (channels, sizes["kernel_h"], run))
    w[rng.random(w.shape) < 0.3] = -128
    if name.endswith("neon"):  # no such pair
        for group in groups_at(1, run, 16)[0]:
            first, second = group[:8], group[8:]
            w[:, :, second] = np.where(w[:, :, first] == -128, 127, w[:, :, second])
    return w.astype(np.int8)


def constants(rng, name, sizes):
    channels = sizes["channels"]
    found = {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": weights(rng, name, sizes),
    }
    if "onnx" in name:
        return {**found, "scale": (rng.uniform(0.5, 2, channels) / (1 << 10)).astype(np.float32)}
    return {
        **found,
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": rng.integers(-15, 1, channels).astype(np.int8),
    }


@pytest.fixture(scope="module")
def meant():
    """The bytes of each case for the program, and what the kernel means by it."""
    data, values, known = [], [], {}
    for index, name in enumerate(NAMES):
        kernel = get_microkernel(name)
        for number, (sizes, shape, length) in enumerate(cases(name)):
            rng = np.random.default_rng(number)
            sizes |= dict(
                zip(("zero_point", "minimum", "maximum"), LIMITS[number % 4], strict=True)
            )
            x = rng.integers(-128, 128, length).astype(np.int8)
            x[rng.random(length) < 0.3] = -128
            arrays = constants(rng, name, sizes)
            stream = kernel.stream.pack(arrays, **sizes)
            assert stream.size == kernel.stream.words(**sizes)
            for key, array in kernel.stream.unpack(stream, **sizes).items():
                assert np.array_equal(np.asarray(array).reshape(-1), arrays[key].reshape(-1)), key
            numbers = [sizes[size] for size in kernel.sizes]
            case = name.replace("dotprod", "i8mm"), *numbers
            if case not in known:  # kernels of either product mean the same
                known[case] = [0] * int(np.prod(shape))
                kernel.run(known[case], 0, x.tolist(), 0, stream.tolist(), 0, *numbers)
            out = known[case]
            head = [index, len(numbers), len(out), length, stream.size, *numbers]
            data.append(
                np.array(head, "<i4").tobytes() + x.tobytes() + stream.astype("<i4").tobytes()
            )
            values.append((name, sizes, np.array(out, np.int8)))
    return b"".join(data), values


@pytest.mark.parametrize("core_name", CORE_NAMES)
def test_kernels(core_name, meant, tmp_path):
    command = [] if core_name == "host" else emulator()
    core = host_core() if core_name == "host" else CORES[core_name]
    lines = [f'#include "kernels/{header}.h"' for header in HEADERS]
    (tmp_path / "kernels.h").write_text("\n".join(lines) + "\n")
    tool = find_toolchain(core, "gcc")
    pointers = ", ".join(f"(any){name}" for name in NAMES)
    flags = [*tool.core_flags, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", f"-DNAMES={pointers}"]
    folders = ["-I", str(RUNTIME), "-I", str(RUNTIME / "include"), '-DKERNELS="kernels.h"', "-I."]
    program = tmp_path / "program"
    done = subprocess.run(
        [*tool.command, *flags, *folders, str(SERVER), "-o", str(program)], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data, values = meant
    run = subprocess.run([*command, str(program)], input=data, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    at = 0
    for name, sizes, wanted in values:
        found = np.frombuffer(run.stdout[at : at + wanted.size], np.int8)
        assert np.array_equal(found, wanted), (name, sizes)
        at += wanted.size
    assert at == len(run.stdout)

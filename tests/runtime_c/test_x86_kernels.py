"""The kernels of x86 do what they are registered to mean, with vectors and without."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from itertools import product

import numpy as np
import pytest
from kernel_images import RUNTIME

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.loop.microkernel import get_microkernel
from edgec.loop.stream import unit_starts
from edgec.targets.core import CORES, host_core, is_this_computer

HEADERS = ("x86/conv_s8", "x86/depthwise_s8", "common/image_rows")
#: Every level that this computer has; the oldest runs the C beside the vectors.
LEVELS = [c for c in CORES.values() if c.isa == host_core().isa and is_this_computer(c)]
LEVELS = [c for c in LEVELS if c.name in ("x86_64", "x86-64-v3", "x86-64-v4+vnni", "aarch64")]
BUILDS = [
    (core, tool)
    for core in LEVELS
    for tool in available_toolchains(host_core())
]  # fmt: skip
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]
SUFFIXES = ("vnni", "avx2")
ROUNDINGS = ("", "_onnx", "_single")
#: What each case gives by the meaning of its kernel.
MEANT: dict[tuple[str | int, ...], list[int]] = {}


@pytest.fixture(
    scope="module", params=BUILDS, ids=lambda b: f"{b[0].name}-{b[1].name}{b[1].is_zig}"
)
def library(request, tmp_path_factory):
    core, tool = request.param
    folder = tmp_path_factory.mktemp("x86")
    names = [
        f"ec_{k}{r}_s8_{s}" for k in ("conv", "depthwise") for r in ROUNDINGS for s in SUFFIXES
    ]
    names += ["ec_conv_lines_s8_vnni", "ec_depthwise_lines_s8_vnni"]
    names += ["ec_pad_rows_s8", *(f"ec_conv_sums_s8_s32_{s}" for s in SUFFIXES)]
    lines = [f'#include "kernels/{header}.h"' for header in HEADERS]
    lines += [f"extern void *const p_{name}; void *const p_{name} = (void *)(uintptr_t){name};"
              for name in names]  # fmt: skip
    (folder / "kernels.c").write_text("\n".join(lines) + "\n")
    flags = core.clang_flags if tool.is_zig else core.gcc_flags
    command = [*tool.command, *flags, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", "-shared", "-fPIC"]
    command += ["-fno-sanitize=all"] if tool.is_zig else []
    command += ["-I", str(RUNTIME), "-I", str(RUNTIME / "include"), "kernels.c", "-o", "kernels.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "kernels.so"))


class Edge:
    """Memory of which the page after the last byte cannot be touched."""

    def __init__(self) -> None:
        self.room = mmap.mmap(-1, 1 << 20)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.room))
        libc = ctypes.CDLL(None)
        guarded = ctypes.c_void_p(self.start + (1 << 20) - mmap.PAGESIZE)
        assert libc.mprotect(guarded, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0

    def hold(self, array: np.ndarray) -> int:
        """The address of a copy that ends where the memory does."""
        end = (1 << 20) - mmap.PAGESIZE
        data = array.tobytes()
        self.room[end - len(data) : end] = data
        return self.start + end - len(data)

    def values_at(self, address: int, count: int, dtype: str) -> np.ndarray:
        first = address - self.start
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(self.room[first : first + size], dtype).copy()


@pytest.fixture(scope="module")
def edges():
    return Edge(), Edge()


def constants(rng, rounding, channels, *shape):
    found = {
        "bias": rng.integers(-(1 << 20), 1 << 20, channels).astype(np.int32),
        "w": rng.integers(-128, 128, shape).astype(np.int8),
    }
    if rounding == "_sums":
        return found
    if rounding == "_onnx":
        return {**found, "scale": (rng.uniform(0.5, 2, channels) / (1 << 10)).astype(np.float32)}
    if rounding == "_lines":  # whose sums are floats
        found["bias"] //= 4
        return {
            **found,
            "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
            "shift": rng.integers(-11, 1, channels).astype(np.int8),
        }
    return {
        **found,
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": rng.integers(-15, 1, channels).astype(np.int8),
    }


def check(library, edges, name, sizes, shape, x, arrays, dtype="int8"):
    kernel = get_microkernel(name)
    stream = kernel.stream.pack(arrays, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.asarray(array).reshape(-1), arrays[key].reshape(-1)), key
    numbers = [sizes[size] for size in kernel.sizes]
    case = name.rpartition("_")[0], *numbers
    if case not in MEANT:  # vectors of either width mean the same
        MEANT[case] = [0] * int(np.prod(shape))
        kernel.run(MEANT[case], 0, x.tolist(), 0, stream.tolist(), 0, *numbers)
    values = MEANT[case]
    out = edges[0].hold(np.full(shape, 77, dtype))
    given = np.array(numbers, np.int32)
    call(library, name, out, edges[1].hold(x), stream.ctypes.data, given.ctypes.data)
    assert np.array_equal(edges[0].values_at(out, len(values), dtype), np.array(values)), sizes


def call(library, name, *args):
    address = ctypes.c_void_p.in_dll(library, f"p_{name}").value
    assert address is not None
    pointers = [isinstance(a, int) and a > 1 << 32 for a in args]
    types = [ctypes.c_void_p if pointer else ctypes.c_int32 for pointer in pointers]
    ctypes.CFUNCTYPE(None, *types)(address)(*args)


#: Rows and columns of the window, input channels, pixels, channels.
SHAPES = [
    (1, 1, 4, 1, 1), (1, 1, 5, 7, 16), (1, 1, 64, 13, 64), (3, 3, 3, 5, 17), (3, 3, 16, 9, 33),
    (1, 1, 9, 31, 16), (3, 3, 5, 23, 12), (1, 1, 40, 15, 45), (1, 1, 3000, 7, 5),
    (2, 1, 7, 4, 70), (1, 10, 1, 2, 8), (1, 1, 250, 1, 100), (5, 4, 6, 3, 48), (3, 1, 9, 11, 130),
]  # fmt: skip


#: Ways to rescale, and vectors.
CONVOLUTIONS = [*product((*ROUNDINGS, "_sums"), SUFFIXES), ("_lines", "vnni")]


@pytest.mark.parametrize(("rounding", "suffix"), CONVOLUTIONS)
def test_convolutions(library, edges, suffix, rounding):
    rng = np.random.default_rng(1)
    for number, (kernel_h, kernel_w, depth, pixels, channels) in enumerate(SHAPES):
        run, step = kernel_w * depth, depth * (1 + number % 2)
        pitch = (pixels - 1) * step + run + number % 3
        zero_point, minimum, maximum = LIMITS[number % len(LIMITS)]
        sizes = {
            "kernel_h": kernel_h, "kernel_w": kernel_w, "in_channels": depth, "pitch": pitch,
            "step": step, "pixels": pixels, "channels": channels,
        }  # fmt: skip
        if rounding != "_sums":
            sizes |= {"zero_point": zero_point, "minimum": minimum, "maximum": maximum}
        length = (kernel_h - 1) * pitch + (pixels - 1) * step + run
        x = rng.integers(-128, 128, length).astype(np.int8)
        arrays = constants(rng, rounding, channels, channels, kernel_h, kernel_w, depth)
        result, dtype = ("_s32", "int32") if rounding == "_sums" else ("", "int8")
        name = f"ec_conv{rounding}_s8{result}_{suffix}"
        check(library, edges, name, sizes, (pixels, channels), x, arrays, dtype)


@pytest.mark.parametrize(("rounding", "suffix"), [c for c in CONVOLUTIONS if c[0] != "_sums"])
def test_depthwise_convolutions(library, edges, suffix, rounding):
    rng = np.random.default_rng(2)
    shapes = [
        (3, 3, 1, 1, 8),
        (3, 3, 2, 5, 16),
        (5, 5, 1, 9, 3),
        (1, 3, 3, 4, 40),
        (3, 3, 2, 7, 64),
    ]
    for number, (kernel_h, kernel_w, rows, pixels, channels) in enumerate(shapes):
        step = channels * (1 + number % 2)
        row_step = (pixels - 1) * step + kernel_w * channels
        zero_point, minimum, maximum = LIMITS[number % len(LIMITS)]
        sizes = {
            "kernel_h": kernel_h, "kernel_w": kernel_w, "pitch": row_step, "tap": channels,
            "row_step": row_step, "rows": rows, "step": step, "pixels": pixels,
            "channels": channels, "zero_point": zero_point, "minimum": minimum, "maximum": maximum,
        }  # fmt: skip
        x = rng.integers(-128, 128, (rows + kernel_h - 1) * row_step).astype(np.int8)
        arrays = constants(rng, rounding, channels, kernel_h, kernel_w, channels)
        name = f"ec_depthwise{rounding}_s8_{suffix}"
        check(library, edges, name, sizes, (rows, pixels, channels), x, arrays)


@pytest.mark.parametrize("row", [0, 2])
def test_padded_rows(library, edges, row):
    sizes = {
        "height": 5, "width": 4, "channels": 3, "top": 1, "left": 2, "rows": 4, "out_width": 8,
        "zero_point": -7,
    }  # fmt: skip
    x = np.arange(60, dtype=np.int8)
    values = [0] * (4 * 8 * 3)
    get_microkernel("ec_pad_rows_s8").run(values, 0, x.tolist(), 0, *sizes.values(), row)
    out = edges[0].hold(np.full(len(values), 77, np.int8))
    numbers = np.array([*sizes.values()], np.int32)
    call(library, "ec_pad_rows_s8", out, edges[1].hold(x), numbers.ctypes.data, row)
    assert np.array_equal(edges[0].values_at(out, len(values), "int8"), np.array(values))


def test_groups_never_leave_their_row():
    for run in range(4, 40):
        starts = unit_starts(run, 4)
        assert starts[0] == 0 and max(starts) + 4 == run
        assert {s + i for s in starts for i in range(4)} == set(range(run))

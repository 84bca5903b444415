"""Kernels of rows of floats do what they mean: NaNs, infinities, ties, odd lengths, in place."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest
from kernel_images import RUNTIME

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.loop.microkernel import get_microkernel
from edgec.targets.common.kernels.float_rows import QUANTIZE, QUANTIZE_MOVED, REACHES
from edgec.targets.core import CORES, host_core, is_this_computer, native_core

CORES_HERE = [c for c in CORES.values() if c.isa == host_core().isa and is_this_computer(c)]
#: Every level of this computer by both compilers, with vectors and without.
BUILDS = [
    pytest.param((core, tool, flags), id=f"{core.name}-{tool.name}{tool.is_zig}{flags[0]}",
                 marks=() if core is native_core() and not tool.is_zig else pytest.mark.full)
    for core in CORES_HERE for tool in available_toolchains(host_core())
    for flags in (("-O3",), ("-O1", "-DEC_NO_VECTORS"))
]  # fmt: skip
LENGTHS = (1, 3, 4, 8, 15, 16, 63, 64, 65, 200)
#: What is not the nearest of anything: in the middle, outside, and no numbers.
SPECIAL = [
    0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 126.5, -126.5, 127.5, -127.5, -128.5, 0.49999997, 3e9, -3e9,
    np.inf, -np.inf, np.nan,
]  # fmt: skip


@pytest.fixture(scope="module", params=BUILDS)
def library(request, tmp_path_factory):
    core, tool, more = request.param
    folder = tmp_path_factory.mktemp("rows")
    lines = ['#include "kernels/common/float_rows.h"']
    lines += [f"extern void *const p_{name}; void *const p_{name} = (void *)(uintptr_t){name};"
              for name in (QUANTIZE, QUANTIZE_MOVED, *REACHES)]  # fmt: skip
    (folder / "kernels.c").write_text("\n".join(lines) + "\n")
    flags = core.clang_flags if tool.is_zig else core.gcc_flags
    command = [*tool.command, *flags, *LANGUAGE_FLAGS, *WARNING_FLAGS, *more, "-shared", "-fPIC"]
    command += ["-fno-sanitize=all"] if tool.is_zig else []
    command += ["-I", str(RUNTIME), "-I", str(RUNTIME / "include"), "kernels.c", "-o", "kernels.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "kernels.so"))


def call(library, name, arrays, count):
    address = ctypes.c_void_p.in_dll(library, f"p_{name}").value
    types = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int32]
    ctypes.CFUNCTYPE(None, *types)(address)(*(a.ctypes.data for a in arrays), count)


def rows(seed):
    """Random rows of each length, some of them with special values, and some of these alone."""
    rng = np.random.default_rng(seed)
    for number, count in enumerate(LENGTHS):
        x = rng.normal(0, 100, count).astype(np.float32)
        if number % 2:
            x[rng.integers(0, count, count)] = rng.choice(SPECIAL, count)
        yield x
    yield np.full(70, np.nan, np.float32)
    yield np.resize(np.array(SPECIAL, np.float32), 102)


@pytest.mark.parametrize("name", REACHES)
def test_reaches(library, name):
    for x in rows(1):
        meant = [0.0]
        get_microkernel(name).run(meant, 0, x.tolist(), 0, x.size)
        out = np.full(1, 77, np.float32)
        call(library, name, [out, x], x.size)
        assert out.tobytes() == np.float32(meant).tobytes(), (name, x)


@pytest.mark.parametrize(("name", "dtype"), [(QUANTIZE, "int8"), (QUANTIZE_MOVED, "int16")])
def test_integers(library, name, dtype):
    for number, x in enumerate(rows(2)):
        inverse = np.float32([(1.0, 0.37, np.inf, np.nan)[number % 4]])
        more = [inverse] if name == QUANTIZE else [inverse, np.int32([(0, -128, 127)[number % 3]])]
        meant = [0] * x.size
        given = [part for array in (x, *more) for part in (array.tolist(), 0)]
        with np.errstate(all="ignore"):
            get_microkernel(name).run(meant, 0, *given, x.size)
        for in_place in (False, True):
            values = x.copy()
            out = values.view(dtype)[: x.size] if in_place else np.full(x.size, 77, dtype)
            call(library, name, [out, values, *more], x.size)
            assert np.array_equal(out, np.array(meant)), (name, number, in_place)

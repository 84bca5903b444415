"""Kernels that gather windows equal their meaning, inside the image and outside of it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgec.targets.kernels  # noqa: F401  registers what is tested
from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.loop.microkernel import get_microkernel
from edgec.targets.core import host_core

WRAPPER = """
#include "gather_window.h"
void call_s8(const int8_t *x, int8_t *to, const int32_t *n);
void call_s8(const int8_t *x, int8_t *to, const int32_t *n) {
    ec_gather_window_s8(x, to, (const ec_part_sizes *)n, n[7], n[8]);
}
void call_pixel(const int8_t *x, int8_t *to, const int32_t *n);
void call_pixel(const int8_t *x, int8_t *to, const int32_t *n) {
    ec_gather_pixel_s8(to, x, (const ec_window_sizes *)n, n[14]);
}
void call_s16(const int16_t *x, int16_t *to, const int32_t *n);
void call_s16(const int16_t *x, int16_t *to, const int32_t *n) {
    ec_gather_window_s16(x, to, (const ec_part_sizes *)n, n[7], n[8]);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> ctypes.CDLL:
    toolchains = {t.name: t for t in available_toolchains(host_core())}
    toolchain = toolchains.get("gcc") or toolchains["clang"]
    folder = tmp_path_factory.mktemp("gather")
    (folder / "call.c").write_text(WRAPPER)
    output = folder / "call.so"
    runtime = repo_root / "runtime_c"
    include = [
        f"-I{path}" for path in (runtime, runtime / "kernels" / "common", runtime / "include")
    ]
    command = [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", "-shared", "-fPIC"]
    subprocess.run([*command, *include, "-o", str(output), str(folder / "call.c")], check=True)
    return ctypes.CDLL(str(output))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_random_windows(library: ctypes.CDLL, dtype: type) -> None:
    rng = np.random.default_rng(1)
    bits = np.iinfo(dtype).bits
    kernel = get_microkernel(f"ec_gather_window_s{bits}")
    call = getattr(library, f"call_s{bits}")
    for _ in range(200):
        height, width, channels, kernel_h, kernel_w, dilation = rng.integers(1, 6, 6).tolist()
        row, column = rng.integers(-7, 7, 2).tolist()
        fill = int(rng.integers(-128, 128))
        numbers = (height, width, channels, kernel_h, kernel_w, dilation, fill, row, column)
        x = rng.integers(
            *((-128, 128) if bits == 8 else (-32768, 32768)), height * width * channels
        ).astype(dtype)
        given = np.zeros(kernel_h * kernel_w * channels, dtype)
        sizes = np.array(numbers, np.int32)
        call(*(ctypes.c_void_p(a.ctypes.data) for a in (x, given, sizes)))
        expected = [0] * given.size
        kernel.run(x.tolist(), 0, expected, 0, *numbers)
        assert given.tolist() == expected, numbers


def test_windows_of_pixels(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(2)
    kernel = get_microkernel("ec_gather_pixel_s8")
    for _ in range(300):
        height, width, channels, *window = rng.integers(1, 5, 9).tolist()
        top, left = rng.integers(0, 4, 2).tolist()
        out_width, pixel = int(rng.integers(1, 6)), int(rng.integers(0, 12))
        numbers = (height, width, channels, *window, top, left, out_width, 1, -7, pixel)
        x = rng.integers(-128, 128, height * width * channels).astype(np.int8)
        given = np.zeros(window[0] * window[1] * channels, np.int8)
        sizes = np.array(numbers, np.int32)
        library.call_pixel(*(ctypes.c_void_p(a.ctypes.data) for a in (x, given, sizes)))
        expected = [0] * given.size
        kernel.run(expected, 0, x.tolist(), 0, *numbers)
        assert given.tolist() == expected, numbers

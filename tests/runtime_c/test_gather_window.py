"""ec_gather_window_s8 equals its registered meaning, inside the image and outside of it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import edgec.loop.microkernels  # noqa: F401  registers what is tested
from edgec.loop.microkernel import get_microkernel
from edgec.target.core import host_core
from edgec.target.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains

WRAPPER = """
#include "gather_window.h"
void call(const int8_t *x, int8_t *to, const int32_t *n);
void call(const int8_t *x, int8_t *to, const int32_t *n) {
    ec_gather_window_s8(x, to, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> ctypes.CDLL:
    toolchains = {t.name: t for t in available_toolchains(host_core())}
    toolchain = toolchains.get("gcc") or toolchains["clang"]
    folder = tmp_path_factory.mktemp("gather")
    (folder / "call.c").write_text(WRAPPER)
    output = folder / "call.so"
    include = f"-I{repo_root / 'runtime_c' / 'microkernels' / 'c'}"
    command = [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, "-O2", "-shared", "-fPIC"]
    subprocess.run([*command, include, "-o", str(output), str(folder / "call.c")], check=True)
    return ctypes.CDLL(str(output))


def test_random_windows(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    kernel = get_microkernel("ec_gather_window_s8")
    for _ in range(200):
        height, width, channels, kernel_h, kernel_w, dilation = rng.integers(1, 6, 6).tolist()
        row, column = rng.integers(-7, 7, 2).tolist()
        fill = int(rng.integers(-128, 128))
        numbers = (height, width, channels, kernel_h, kernel_w, dilation, fill, row, column)
        x = rng.integers(-128, 128, height * width * channels).astype(np.int8)
        given = np.zeros(kernel_h * kernel_w * channels, np.int8)
        sizes = np.array(numbers, np.int32)
        library.call(*(ctypes.c_void_p(a.ctypes.data) for a in (x, given, sizes)))
        expected = [0] * given.size
        kernel.run(x.tolist(), 0, expected, 0, *numbers)
        assert given.tolist() == expected, numbers

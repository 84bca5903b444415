"""What choices count as the code of matrix kernels is what a compiler makes of it."""

from __future__ import annotations

import shutil

import pytest
from kernel_code import code_bytes

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import Microkernel, all_microkernels

#: Kernels of int8 products that are functions of their own, not calls of another kernel.
MATRICES = [
    kernel for kernel in all_microkernels()
    if kernel.header.startswith("dsp/matrix_s8") and kernel.code_bytes
    and "_shared" not in kernel.name
]  # fmt: skip


@pytest.mark.parametrize("kernel", MATRICES, ids=lambda kernel: kernel.name)
def test_code_bytes(kernel: Microkernel) -> None:
    """Compilers differ by a little; a seventh too much once kept a model on loops."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    inner = kernel.name.replace("matrix_4_s8", "matrix_4_by_s8")  # what that one calls
    found = code_bytes(kernel.header)[inner]
    assert found <= kernel.code_bytes <= 1.15 * found

"""Bytes of code of microkernels on Cortex-M4, and what their registration says.

python tests/runtime_c/kernel_code.py
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import all_microkernels

RUNTIME = Path(__file__).resolve().parents[2] / "runtime_c"
#: Each function is compiled alone: not inlined into others, but with what it inlines.
COMPILER = (
    "arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
    "-std=c99", "-O2", "-w", "-Dstatic=", "-Dinline=", "-ffunction-sections",
    f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}", f"-I{RUNTIME}",
)  # fmt: skip


@cache
def code_bytes(header: str) -> Mapping[str, int]:
    """Of each function that a header has, by name."""
    with tempfile.TemporaryDirectory() as name:
        source, made = Path(name) / "kernels.c", Path(name) / "kernels.o"
        source.write_text(f'#include "{header}"\n', encoding="utf-8")
        subprocess.run([*COMPILER, "-c", source, "-o", made], check=True)
        nm = ["arm-none-eabi-nm", "-S", "--size-sort", made]
        lines = subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: int(size, 16) for _, size, _, name in (line.split() for line in lines)}


def main() -> None:
    for kernel in sorted(all_microkernels(), key=lambda kernel: (kernel.header, kernel.name)):
        if kernel.needs <= {"dsp", "fpu"}:
            found = code_bytes(kernel.header).get(kernel.name, 0)
            print(f"{kernel.name:44}{kernel.code_bytes:6}{found:6}{kernel.code_bytes - found:+6}")


if __name__ == "__main__":
    main()

"""No compiler makes vectors of floats for Cortex-M55, which would flush denormals to zero."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from edgec.boards.toolchain import LANGUAGE_FLAGS, available_toolchains
from edgec.targets.core import find_core

CORE = find_core("cortex-m55")
LOOP = """
void multiply(float *restrict out, const float *restrict a, const float *restrict b);
void multiply(float *restrict out, const float *restrict a, const float *restrict b) {
    for (int i = 0; i < 64; ++i) {
        out[i] = a[i] * b[i];
    }
    out[64] = a[64] * b[64];
    out[65] = a[65] * b[65];
    out[66] = a[66] * b[66];
    out[67] = a[67] * b[67];
}
"""


@pytest.mark.parametrize("level", ["-Os", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_loops_over_floats_stay_scalar(compiler: str, level: str, tmp_path: Path) -> None:
    tools = [t for t in available_toolchains(CORE) if t.is_zig == (compiler == "clang")]
    if not tools:
        pytest.skip(f"no {compiler} for cortex-m55")
    (tmp_path / "loop.c").write_text(LOOP)
    flags = CORE.clang_flags if tools[0].is_zig else CORE.gcc_flags
    output = tmp_path / "loop.s"
    subprocess.run(
        [
            *tools[0].command, *flags, *LANGUAGE_FLAGS, level, "-ffreestanding", "-S",
            "-o", str(output), str(tmp_path / "loop.c"),
        ],
        check=True,
    )  # fmt: skip
    text = output.read_text()
    assert re.search(r"\bvmul\.f32\s+s\d", text)
    assert not re.search(r"\bvmul\.f32\s+q\d", text)

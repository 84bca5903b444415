"""Modelled cycles agree with the shared script, by way of objdump, on the same run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sim_programs import CORTEX, MIXED

from edgec.sim.core import CoreSimulator
from edgec.sim.cycles import CostTable
from edgec.sim.image import CodeSection

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(os.environ.get("EDGEC_SHARED", ROOT.parent / "shared")) / "tools/cycle_model.py"
OBJDUMP = "arm-none-eabi-objdump"


def ask_script(elf: Path, counts: Path) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(elf), str(counts)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.match(r"instructions (\d+) cycles (\d+) ", done.stdout)
    assert found, done.stdout
    return int(found[1]), int(found[2])


@pytest.mark.skipif(not SCRIPT.exists(), reason="the shared cycle model is absent")
@pytest.mark.skipif(shutil.which(OBJDUMP) is None, reason=f"{OBJDUMP} is absent")
@pytest.mark.parametrize("name", CORTEX)
@pytest.mark.parametrize(
    ("compiler", "optimize"),
    [("gcc", "-O2"), ("gcc", "-Os"), pytest.param("clang", "-O2", marks=pytest.mark.full)],
)
def test_script_and_core_agree(firmware, tmp_path, name, compiler, optimize):
    pytest.importorskip("unicorn")
    elf = firmware.build(MIXED, name, compiler=compiler, optimize=optimize)
    with CoreSimulator(elf, name) as core:
        result = core.call("mixed", 40)
    result.write_counts(tmp_path / "counts")
    assert ask_script(elf, tmp_path / "counts") == (result.instructions, result.cycles)


def cost(*halfwords: int) -> list[int]:
    """Return the cycles of each instruction, executed once in a straight line."""
    data = b"".join(h.to_bytes(2, "little") for h in halfwords)
    table = CostTable((CodeSection(0, data, ()),))
    return list(table.cycles(dict.fromkeys(table.costs, 1)).values())


@pytest.mark.parametrize(
    ("halfwords", "cycles"),
    [
        ((0x6800,), [2]),
        ((0x6800, 0x6841), [2, 1]),
        ((0x6001, 0x6841), [1, 1]),  # ldr, str
        ((0xE9D0, 0x1200, 0x6800), [3, 2]),
        ((0xE9C0, 0x1200), [3]),  # ldrd, strd
        ((0xB5F0,), [6]),
        ((0xBDF0,), [8]),
        ((0xBCF0,), [5]),
        ((0xC80F,), [5]),  # push, pop, ldm
        ((0xE8BD, 0x8FF0), [1 + 9 + 2]),
        ((0xECBD, 0x8B04), [3]),  # ldm.w, vpop
        ((0x4770,), [3]),
        ((0x4780,), [3]),
        ((0xE7FE,), [3]),
        ((0xF000, 0xF800), [3]),
        ((0xD0FE, 0xBF00), [1, 1]),
        ((0xD0FE,), [3]),
        ((0xB100, 0xBF00), [1, 1]),
        ((0xE8D0, 0xF001), [4]),
        ((0xFB90, 0xF0F1), [8]),
        ((0xFBB0, 0xF0F1), [8]),
        ((0xBF08, 0xFB90, 0xF0F1), [1, 1]),
        ((0xBF08, 0x4770), [1, 1]),  # in IT blocks
        ((0xBF08, 0xE7FE), [1, 3]),
        ((0xEE80, 0x0A00), [14]),
        ((0xEEB1, 0x0AC0), [14]),  # vdiv, vsqrt
        ((0xEE00, 0x0A00), [3]),
        ((0xEEA0, 0x0A00), [3]),
        ((0xEE20, 0x0A00), [1]),  # vmla, vfma, vmul
        ((0xEC41, 0x0A10), [2]),
        ((0xEC41, 0x0B10), [1]),  # vmov of pairs
        ((0xED90, 0x0A00, 0xED90, 0x0A01), [2, 1]),
        ((0xED80, 0x0A00), [1]),  # vldr, vstr
        ((0xFB10, 0x0001), [1]),
        ((0xBF00,), [1]),
        ((0xF990, 0xF000), [1]),  # smlabb, nop, pli
    ],
)
def test_costs(halfwords, cycles):
    assert cost(*halfwords) == cycles


def test_literal_pools_are_no_code():
    data = bytes.fromhex("0068004741684168")
    section = CodeSection(0x100, data, ((0x100, True), (0x104, False)))
    assert sorted(CostTable((section,)).costs) == [0x100, 0x102]

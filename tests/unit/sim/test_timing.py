"""What instructions take on each core, against its manual, and on the Cortex-M7 against LLVM."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgec.boards.flash_waits import FlashWaits
from edgec.sim.cycles import CostTable
from edgec.sim.dual_issue import DualIssueTable
from edgec.sim.image import CodeSection, Image, Symbol
from edgec.sim.timing import TIMINGS, Cycles
from edgec.sim.waits import waiting_cycles

LOAD, STORE, ADD, BRANCH = 0x6800, 0x6001, 0x1840, 0xE7FE
CALL, EXCHANGE, POP = (0xF000, 0xF800), 0x4770, 0xBDF0
MULTIPLY_ADD, LONG, LONG_ADD = (0xFB01, 0x0002), (0xFB81, 0x0102), (0xFBC1, 0x0102)
SMLAD, DIVIDE = (0xFB21, 0x0002), (0xFB90, 0xF0F1)


def section(*halfwords: int) -> CodeSection:
    return CodeSection(0, b"".join(h.to_bytes(2, "little") for h in halfwords), ())


def cycles(core: str, *halfwords: int) -> Cycles:
    """Of instructions that are executed once in a straight line."""
    table = CostTable((section(*halfwords),), TIMINGS[core])
    return table.total(dict.fromkeys(table.costs, 1))


@pytest.mark.parametrize(
    ("core", "halfwords", "expected"),
    [
        ("cortex-m0", (LOAD, LOAD), (4, 4, 4)),  # nothing is pipelined
        ("cortex-m0", (STORE,), (2, 2, 2)),
        ("cortex-m0", (BRANCH,), (3, 3, 3)),
        ("cortex-m0", CALL, (4, 4, 4)),
        ("cortex-m0", (EXCHANGE,), (3, 3, 3)),
        ("cortex-m0", (POP,), (9, 9, 9)),  # 4 + N, of five registers
        ("cortex-m0plus", (BRANCH,), (2, 2, 2)),
        ("cortex-m0plus", CALL, (3, 3, 3)),
        ("cortex-m0plus", (EXCHANGE,), (2, 2, 2)),
        ("cortex-m0plus", (POP,), (8, 8, 8)),  # 3 + N
        ("cortex-m3", (LOAD, LOAD), (3, 3, 3)),
        ("cortex-m3", MULTIPLY_ADD, (2, 2, 2)),
        ("cortex-m3", LONG, (3, 4, 5)),
        ("cortex-m3", LONG_ADD, (4, 6, 7)),
        ("cortex-m3", DIVIDE, (2, 8, 12)),
        ("cortex-m3", (BRANCH,), (2, 3, 4)),
        ("cortex-m4", MULTIPLY_ADD, (1, 1, 1)),
        ("cortex-m4", LONG_ADD, (1, 1, 1)),
        ("cortex-m4", SMLAD, (1, 1, 1)),
        ("cortex-m33", (ADD,), (0.8, 1, 1.1)),
    ],
)
def test_costs_are_those_of_the_manual(core, halfwords, expected):
    assert cycles(core, *halfwords) == pytest.approx(expected)


#: Straight lines of code, as kernels have them: products, loads and requantization.
LINES = {
    "products": """
        ldr r4, [r0]
        ldr r5, [r1]
        sxtb16 r6, r4
        sxtb16 r7, r4, ror #8
        sxtb16 r8, r5
        sxtb16 r9, r5, ror #8
        smlad r2, r6, r8, r2
        smlad r3, r7, r9, r3
        adds r0, #4
        adds r1, #4
        subs r10, #1
    """,
    "requantize": """
        smmulr r2, r2, r4
        smmulr r3, r3, r4
        add r2, r2, r5
        add r3, r3, r5
        asr r2, r2, #3
        asr r3, r3, #3
        ssat r2, #8, r2
        ssat r3, #8, r3
        adds r0, #2
        subs r10, #1
        strb r2, [r0, #-2]
        strb r3, [r0, #-1]
    """,
    "floats": """
        vldr s0, [r0]
        vldr s1, [r1]
        vldr s2, [r1, #4]
        vldr s3, [r0, #4]
        adds r0, #8
        adds r1, #8
        vfma.f32 s8, s0, s1
        vfma.f32 s9, s3, s1
        vfma.f32 s10, s0, s1
        vfma.f32 s11, s3, s1
        vfma.f32 s12, s0, s2
        vfma.f32 s13, s3, s2
    """,
}


@pytest.mark.skipif(shutil.which("llvm-mca") is None, reason="llvm-mca is not installed")
@pytest.mark.parametrize("name", LINES)
def test_pairs_take_about_what_llvm_says(name, tmp_path):
    pytest.importorskip("capstone")
    source = tmp_path / "a.s"
    source.write_text(f".syntax unified\n.thumb\n.fpu fpv5-d16\n{LINES[name]}")
    flags = ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard"]
    objects, raw = tmp_path / "a.o", tmp_path / "a.bin"
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", source, "-o", objects], check=True)
    subprocess.run(
        ["arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", objects, raw], check=True
    )
    table = DualIssueTable((CodeSection(0, raw.read_bytes(), ()),), TIMINGS["cortex-m7"])
    ours = table.total(dict.fromkeys(table.costs, 1)).usual
    said = subprocess.run(
        ["llvm-mca", "-mtriple=thumbv7em-none-eabihf", "-mcpu=cortex-m7", "-iterations=100"],
        input=f".syntax unified\n.thumb\n{LINES[name]}", capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"Total Cycles:\s+(\d+)", said.stdout)
    assert found, said.stdout
    assert ours == pytest.approx(int(found[1]) / 100, rel=0.35)
    assert ours < len(table.costs)  # some instructions start in pairs


def test_a_branch_that_goes_both_ways_is_predicted_wrongly():
    pytest.importorskip("capstone")
    back = (0x3801, 0xD1FD, 0xBF00)  # subs; bne to it; nop
    table = DualIssueTable((section(*back),), TIMINGS["cortex-m7"])
    once_left = table.total({0: 100, 2: 100, 4: 1})
    often_left = table.total({0: 100, 2: 100, 4: 50})
    assert once_left.usual < often_left.usual


def test_waits_are_those_of_lines_that_the_cache_does_not_keep():
    code = section(*[ADD] * 16)  # 32 bytes: four lines of 8
    symbol = Symbol("f", 0, 32)
    image = Image(Path("a.elf"), (), (code,), {"f": symbol}, (symbol,), 0)
    counts = {2 * i: 10 if i < 8 else 3 for i in range(16)}
    without = waiting_cycles(image, counts, FlashWaits(5, 8, 0, "x"))
    assert without == (0, 5 * 26, 5 * 26)
    # Two lines are kept: each is read once, the other two whenever they are executed.
    kept = waiting_cycles(image, counts, FlashWaits(5, 8, 16, "x"))
    assert kept == (0, 5 * (2 + 6), 5 * 26)


def test_half_of_what_is_loaded_is_read_from_flash():
    code = section(LOAD, LOAD)
    image = Image(Path("a.elf"), (), (code,), {}, (), 0)
    waits = waiting_cycles(image, {0: 8, 2: 8}, FlashWaits(3, 16, 64, "x"))
    assert waits == (0, 3 * (1 + 16 / 4 / 2), 3 * (8 + 16 / 4))

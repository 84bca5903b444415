"""Xtensa instructions are classified as the GNU assembler does; jumps and frames are followed."""

from __future__ import annotations

import pytest

from edgec.build.instruction import Instruction
from edgec.build.xtensa import decode, flow, frame_growth, loaded_places, needs, transfers

AT = 0x10000

# Text, code as the GNU assembler (binutils 2.40) encodes it for the LX106; where it lacks the
# instruction, as the manual's table of it does. Last the option that a core must have.
ENCODINGS = [
    ("add a2, a3, a4", "40 23 80", ""),
    ("mull a2, a3, a4", "40 23 82", ""),
    ("mul16s a2, a3, a4", "40 23 d1", ""),
    ("nsau a2, a3", "20 f3 40", ""),
    ("extui a2, a3, 4, 8", "30 24 74", ""),
    ("l8ui a2, a3, 7", "22 03 07", ""),
    ("movi a2, -1", "22 af ff", ""),
    ("rsr.sar a2", "20 03 03", ""),
    ("rsil a2, 1", "20 61 00", ""),
    ("rfe", "00 30 00", ""),
    ("ill", "00 00 00", ""),
    ("ret", "80 00 00", ""),
    ("callx0 a2", "c0 02 00", ""),
    ("l32i.n a2, a1, 4", "28 11", ""),
    ("ret.n", "0d f0", ""),
    ("call8 .+4", "25 00 00", "windows"),
    ("callx8 a2", "e0 02 00", "windows"),
    ("entry a1, 32", "36 41 00", "windows"),
    ("retw", "90 00 00", "windows"),
    ("retw.n", "1d f0", "windows"),
    ("loop a2, .+4", "76 82 00", "loops"),
    ("bt b0, .+4", "76 10 00", "booleans"),
    ("mulsh a2, a3, a4", "40 23 b2", "product"),
    ("quos a2, a3, a4", "40 23 d2", "divide"),
    ("sext a2, a3, 7", "00 23 23", "sext"),
    ("clamps a2, a3, 7", "00 23 33", "clamps"),
    ("min a2, a3, a4", "40 23 43", "minmax"),
    ("lsi f0, a2, 0", "03 02 00", "floats"),
    ("add.s f0, f1, f2", "20 01 0a", "floats"),
    ("mula.aa.ll a2, a3", "34 02 74", "sums of products"),
    ("a bundle", "0e 00 00", "vectors"),
]


def program(code: str) -> list[Instruction]:
    return list(decode(bytes.fromhex(code), AT))


@pytest.mark.parametrize(("text", "code", "option"), ENCODINGS, ids=[e[0] for e in ENCODINGS])
def test_option(text: str, code: str, option: str) -> None:
    (instruction, *_) = program(code)
    assert instruction.length == min(3, len(bytes.fromhex(code))) or option == "vectors"
    assert needs(instruction) == option


@pytest.mark.parametrize(
    ("code", "kind", "target"),
    [
        ("85 00 00", "call", AT + 12),  # call0
        ("05 fe ff", "call", AT - 28),
        ("c0 02 00", "indirect_call", 0),  # callx0 a2
        ("a0 02 00", "indirect_branch", 0),  # jx a2
        ("80 00 00", "", 0),  # ret
        ("0d f0", "", 0),  # ret.n
        ("46 01 00", "branch", AT + 9),  # j
        ("16 a2 00", "branch", AT + 14),  # beqz a2
        ("26 22 0a", "branch", AT + 14),  # beqi a2, 2
        ("b6 22 0a", "branch", AT + 14),  # bltui a2, 2
        ("37 92 f0", "branch", AT - 12),  # bne a2, a3
        ("9c 62", "branch", AT + 26),  # beqz.n a2
        ("28 11", "", 0),  # l32i.n
        ("76 82 00", "", 0),  # loop
    ],
)
def test_flow(code: str, kind: str, target: int) -> None:
    assert flow(program(code)[0]) == (kind, target)


@pytest.mark.parametrize(
    ("code", "growth"),
    [
        ("12 c1 e0", 32),  # addi a1, a1, -32
        ("12 c1 20", 0),  # addi a1, a1, 32
        ("12 d1 ff", 256),  # addmi a1, a1, -256
        ("22 c1 e0", 0),  # addi a2, a1, -32
        ("90 11 c0", None),  # sub a1, a1, a9
        ("0b 11", 0),  # addi.n
    ],
)
def test_frames(code: str, growth: int | None) -> None:
    assert frame_growth(program(code)[0]) == growth


def test_literals_lie_before_the_code() -> None:
    assert loaded_places(program("21 ff ff 0d f0")) == {AT - 4}
    assert loaded_places(program("28 11")) == set()


def test_zeros_that_align_are_no_instruction() -> None:
    # bnez a2, over; ret; one byte of zeros; over: call0
    code = program("56 32 00 80 00 00 00 85 00 00")
    assert [i.address - AT for i in code] == [0, 3, 7]
    assert [kind for kind, _ in transfers(code)] == ["branch", "", "call"]
    # Nobody goes there: what follows is taken as it stands.
    assert [i.address - AT for i in program("80 00 00 00 85 00 0d f0")] == [0, 3, 6]

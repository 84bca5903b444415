"""RISC-V instructions are classified as the GNU assembler does; jumps and frames are followed."""

from __future__ import annotations

import pytest

from edgec.build.riscv import (
    decode,
    flow,
    frame_growth,
    holds_vectors,
    made_constants,
    needs,
    transfers,
)

AT = 0x10000

# Text, code as the GNU assembler (binutils 2.40) encodes it, and the feature a core must have:
# the assembler takes "" for -march=rv32i_zicsr, "rv32m" for rv32im, and so on.
ENCODINGS = [
    ("add a0,a1,a2", "00c58533", ""),
    ("sub a0,a1,a2", "40c58533", ""),
    ("sra a0,a1,a2", "40c5d533", ""),
    ("slli a0,a1,0x1f", "01f59513", ""),
    ("srai a0,a1,0x3", "4035d513", ""),
    ("addi sp,s0,-64", "fc040113", ""),
    ("lui a0,0x12345", "12345537", ""),
    ("auipc a0,0x12345", "12345517", ""),
    ("lw a0,-4(a1)", "ffc5a503", ""),
    ("sb a0,7(a1)", "00a583a3", ""),
    ("csrrw a0,mstatus,a1", "30059573", ""),
    ("ecall", "00000073", ""),
    ("mret", "30200073", ""),
    ("fence", "0ff0000f", ""),
    ("jal ra,.+2048", "001000ef", ""),
    ("jalr zero,0(a5)", "00078067", ""),
    ("beq a0,a1,.+8", "00b50463", ""),
    ("mul a0,a1,a2", "02c58533", "rv32m"),
    ("mulhsu a0,a1,a2", "02c5a533", "rv32m"),
    ("divu a0,a1,a2", "02c5d533", "rv32m"),
    ("c.addi a0,-1", "157d", "rv32c"),
    ("c.ebreak", "9002", "rv32c"),
    ("c.lwsp a0,4(sp)", "4512", "rv32c"),
    ("c.swsp ra,12(sp)", "c606", "rv32c"),
    ("c.nop", "0001", "rv32c"),
    ("amoadd.w a0,a1,(a2)", "00b6252f", "rv32a"),
    ("lr.w a0,(a1)", "1005a52f", "rv32a"),
    ("c.flw fa0,0(a0)", "6108", "rv32f"),
    ("c.fld fa0,0(a0)", "2108", "rv32d"),
    ("c.fsw fa0,0(a0)", "e108", "rv32f"),
    ("c.fldsp fa0,8(sp)", "2522", "rv32d"),
    ("c.fsd fa0,0(a0)", "a108", "rv32d"),
    ("fadd.s fa0,fa1,fa2", "00c5f553", "rv32f"),
    ("fadd.d fa0,fa1,fa2", "02c5f553", "rv32d"),
    ("fmadd.s fa0,fa1,fa2,fa3", "68c5f543", "rv32f"),
    ("andn a0,a1,a2", "40c5f533", "rv32b"),
    ("clz a0,a1", "60059513", "rv32b"),
    ("rori a0,a1,0x3", "6035d513", "rv32b"),
    ("sh1add a0,a1,a2", "20c5a533", "rv32b"),
    ("vsetvli a0,a1,e8,m1,ta,ma", "0c05f557", "rv32v"),
]


def bytes_of(code: str) -> bytes:
    return int(code, 16).to_bytes(len(code) // 2, "little")


def program(*codes: str, at: int = AT) -> list:
    return list(decode(b"".join(map(bytes_of, codes)), at))


@pytest.mark.parametrize(("text", "code", "feature"), ENCODINGS, ids=[e[0] for e in ENCODINGS])
def test_feature(text: str, code: str, feature: str) -> None:
    (instruction,) = program(code)
    assert instruction.length == len(code) // 2
    assert needs(instruction) == feature


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("001000ef", ("call", 2048)),  # jal ra
        ("fffff2ef", ("call", -2)),  # jal t0, the other link register
        ("0640006f", ("branch", 100)),  # jal zero
        ("00b50463", ("branch", 8)),  # beq
        ("80b57063", ("branch", -4096)),  # bgeu
        ("2ffd", ("call", 0x816 - 0x18)),  # c.jal
        ("a095", ("branch", 0x78 - 0x14)),  # c.j
        ("b001", ("branch", -0x800)),  # c.j
        ("c501", ("branch", 8)),  # c.beqz
        ("f101", ("branch", -256)),  # c.bnez
        ("000500e7", ("indirect_call", None)),  # jalr ra,0(a0)
        ("9782", ("indirect_call", None)),  # c.jalr a5
        ("00078067", ("indirect_branch", None)),  # jalr zero,0(a5)
        ("8782", ("indirect_branch", None)),  # c.jr a5
        ("8082", ("", None)),  # c.jr ra returns
        ("00008067", ("", None)),  # jalr zero,0(ra)
        ("00028067", ("", None)),  # jalr zero,0(t0) returns, too
        ("9002", ("", None)),  # c.ebreak
        ("852e", ("", None)),  # c.mv
        ("9116", ("", None)),  # c.add
        ("00c58533", ("", None)),
    ],
)
def test_flow(code: str, expected: tuple[str, int | None]) -> None:
    kind, distance = expected
    (instruction,) = program(code)
    assert flow(instruction) == (kind, 0 if distance is None else AT + distance)


def test_far_calls_are_one_jump() -> None:
    # auipc ra,0x12345; jalr ra,-16(ra), and the same as a tail call by t1.
    code = program("12345097", "ff0080e7", "12345317", "00030067")
    found = [t for t in transfers(code) if t[0]]
    assert found == [("call", AT + 0x12345000 - 16), ("branch", AT + 8 + 0x12345000)]
    # Something between the two may have changed the register.
    apart = program("12345097", "0001", "000080e7")
    assert [t for t in transfers(apart) if t[0]] == [("indirect_call", 0)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1101", 32),  # c.addi sp,-32
        ("7101", 512),  # c.addi16sp sp,-512
        ("617d", 0),  # c.addi16sp sp,496
        ("80010113", 2048),  # addi sp,sp,-2048
        ("fc040113", 0),  # addi sp,s0,-64 takes an older frame back
        ("157d", 0),  # c.addi a0,-1
        ("40510133", None),  # sub sp,sp,t0
        ("00510133", None),  # add sp,sp,t0
        ("9116", None),  # c.add sp,t0
        ("8082", 0),
    ],
)
def test_frame_growth(code: str, expected: int | None) -> None:
    assert frame_growth(program(code)[0]) == expected


def test_addresses_of_two_instructions() -> None:
    # lui a0,0x12345; addi a0,a0,-4; auipc a5,0x1; lw a5,8(a5); c.lui a2,0xfffe1; c.addi a3,1
    code = program("12345537", "ffc50513", "00001797", "0087a783", "7605", "0685")
    assert made_constants(code) == {0x12345000, 0x12344FFC, AT + 8 + 0x1008, 0xFFFE1000}


def test_decode_stops_at_a_cut_off_instruction() -> None:
    assert [(i.address, i.length) for i in decode(bytes.fromhex("01113305"), 0x20)] == [
        (0x20, 2),
        (0x22, 2),
    ]


def test_frames_with_vectors_are_not_known() -> None:
    read_vlenb, lower_sp = "732520c2", "3301a140"  # csrr a0, vlenb; sub sp, sp, a0
    for code, expected in ((read_vlenb + lower_sp, True), (read_vlenb, False), (lower_sp, False)):
        assert holds_vectors(decode(bytes.fromhex(code), 0)) is expected

"""Just enough of 32-bit RISC-V to check an image: lengths, calls, extensions, frames.

Not a disassembler: an instruction is classified by the tables of the RISC-V Instruction Set
Manual, volume I (20191213): 2 RV32I, 16 compressed instructions, 24 listings of opcodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgec.build.instruction import Flow, Instruction, decode_halves, sign_extend

NAME = "rv32"

FUNCTION_BIT = 0
"""A pointer to a function is its address."""

_SP = 2
_LINKS = (1, 5)  # ra and t0: registers that hold return addresses, by the standard's hints
_JAL, _JALR, _BRANCH = 0x6F, 0x67, 0x63
_READ_VLENB = 0xC2202073
_LUI, _AUIPC, _OP_IMM, _OP, _LOAD = 0x37, 0x17, 0x13, 0x33, 0x03


def decode(code: bytes, address: int) -> Iterator[Instruction]:
    return decode_halves(code, address, lambda first: first & 3 == 3)


def _field(value: int, *pieces: tuple[int, int, int]) -> int:
    """Put bits together: each piece is (lowest bit in `value`, its bits, where it goes)."""
    return sum((value >> low & (1 << bits) - 1) << to for low, bits, to in pieces)


def _word(instruction: Instruction) -> int:
    return instruction.second << 16 | instruction.first


def flow(instruction: Instruction) -> tuple[Flow, int]:
    """Return how control leaves `instruction`, and to which address (0 if unknown).

    "call" is JAL that keeps a return address, "branch" any other jump to a fixed place; through
    a register "indirect_call" and "indirect_branch". Returns are "".
    """
    if instruction.second < 0:
        return _compressed_flow(instruction)
    word = _word(instruction)
    opcode, rd, rs1 = word & 0x7F, word >> 7 & 31, word >> 15 & 31
    if opcode == _JAL:
        offset = sign_extend(_field(word, (21, 10, 1), (20, 1, 11), (12, 8, 12), (31, 1, 20)), 21)
        return ("call" if rd in _LINKS else "branch"), instruction.address + offset
    if opcode == _BRANCH:
        offset = sign_extend(_field(word, (8, 4, 1), (25, 6, 5), (7, 1, 11), (31, 1, 12)), 13)
        return "branch", instruction.address + offset
    if opcode == _JALR:
        return _through_register(rd, rs1), 0
    return "", 0


def _through_register(rd: int, rs1: int) -> Flow:
    if rd in _LINKS:
        return "indirect_call"
    return "" if rs1 in _LINKS else "indirect_branch"


def _compressed_flow(instruction: Instruction) -> tuple[Flow, int]:
    code = instruction.first
    kind = (code & 3, code >> 13)
    if kind in ((1, 1), (1, 5)):  # C.JAL, C.J
        places = (3, 3, 1), (11, 1, 4), (2, 1, 5), (7, 1, 6), (6, 1, 7), (9, 2, 8), (8, 1, 10)
        offset = sign_extend(_field(code, *places, (12, 1, 11)), 12)
        return ("call" if kind == (1, 1) else "branch"), instruction.address + offset
    if kind in ((1, 6), (1, 7)):  # C.BEQZ, C.BNEZ
        parts = (3, 2, 1), (10, 2, 3), (2, 1, 5), (5, 2, 6)
        return "branch", instruction.address + sign_extend(_field(code, *parts, (12, 1, 8)), 9)
    rs1, rs2 = code >> 7 & 31, code >> 2 & 31
    if kind == (2, 4) and rs1 and not rs2:  # C.JR, C.JALR
        return _through_register(1 if code & 0x1000 else 0, rs1), 0
    return "", 0


def _upper(instruction: Instruction) -> tuple[int, int] | None:
    """(register, value) of LUI, C.LUI and AUIPC; None for other instructions."""
    if instruction.second < 0:
        code = instruction.first
        rd = code >> 7 & 31
        if code & 0xE003 == 0x6001 and rd not in (0, _SP):
            return rd, sign_extend(_field(code, (2, 5, 12), (12, 1, 17)), 18) & 0xFFFFFFFF
        return None
    word = _word(instruction)
    if word & 0x7F not in (_LUI, _AUIPC):
        return None
    base = instruction.address if word & 0x7F == _AUIPC else 0
    return word >> 7 & 31, base + (word & 0xFFFFF000) & 0xFFFFFFFF


def _added(instruction: Instruction) -> tuple[int, int, int] | None:
    """(destination, source, value) of ADDI, C.ADDI and C.ADDI16SP; None for others."""
    if instruction.second < 0:
        code = instruction.first
        rd = code >> 7 & 31
        if code & 0xE003 == 0x0001:
            return rd, rd, sign_extend(_field(code, (2, 5, 0), (12, 1, 5)), 6)
        if code & 0xE003 == 0x6001 and rd == _SP:
            parts = (6, 1, 4), (2, 1, 5), (5, 1, 6), (3, 2, 7), (12, 1, 9)
            return _SP, _SP, sign_extend(_field(code, *parts), 10)
        return None
    word = _word(instruction)
    if word & 0x707F != _OP_IMM:
        return None
    return word >> 7 & 31, word >> 15 & 31, sign_extend(word >> 20, 12)


def _loaded(instruction: Instruction) -> tuple[int, int, int] | None:
    """(destination, base, offset) of LB, LH, LW and their like; None for others."""
    word = _word(instruction) if instruction.second >= 0 else 0
    if word & 0x7F != _LOAD:
        return None
    return word >> 7 & 31, word >> 15 & 31, sign_extend(word >> 20, 12)


def transfers(instructions: Iterable[Instruction]) -> Iterator[tuple[Flow, int]]:
    """Yield how control leaves each instruction of a function, and to where (0: unknown).

    AUIPC and a JALR after it, which reach any address, count as one jump to a fixed place.
    """
    upper: tuple[int, int] | None = None
    for instruction in instructions:
        kind, target = flow(instruction)
        word = _word(instruction) if instruction.second >= 0 else 0
        if word & 0x7F == _JALR and upper is not None and upper[0] == word >> 15 & 31:
            kind = "call" if word >> 7 & 31 in _LINKS else "branch"
            target = upper[1] + sign_extend(word >> 20, 12) & 0xFFFFFFFF
        upper = _upper(instruction)
        yield kind, target


def frame_growth(instruction: Instruction) -> int | None:
    """Return by how many bytes `instruction` lowers the stack pointer; None if that is unknown."""
    added = _added(instruction)
    if added is not None:
        return max(0, -added[2]) if added[:2] == (_SP, _SP) else 0
    if instruction.second < 0:
        is_add = instruction.first & 0xFF83 == 0x9102 and instruction.first >> 2 & 31  # C.ADD sp
        return None if is_add else 0
    word = _word(instruction)
    makes_sp = word & 0x7F == _OP and word >> 7 & 31 == _SP  # large frames: ADD or SUB sp
    return None if makes_sp else 0


def holds_vectors(instructions: Iterable[Instruction]) -> bool:
    """Whether a function's frame may hold vectors, of a size that only the core knows.

    It then reads that size (VLENB), and takes a register off the stack pointer.
    """
    known = list(instructions)
    reads = any(_word(i) & 0xFFFFF07F == _READ_VLENB for i in known if i.second >= 0)
    return reads and any(frame_growth(instruction) is None for instruction in known)


def made_constants(instructions: Iterable[Instruction]) -> set[int]:
    """Return the addresses that LUI or AUIPC and ADDI, or the offset of a load, may make.

    Whatever lies between the two is not looked at.
    """
    upper: set[tuple[int, int]] = set()
    added: set[tuple[int, int]] = set()
    for instruction in instructions:
        high, low = _upper(instruction), _added(instruction) or _loaded(instruction)
        if high is not None:
            upper.add(high)
        if low is not None:
            added.add(low[1:])
    # LUI alone is enough for the start of a page.
    made = {value for _, value in upper if value & 0xFFF == 0}
    made |= {
        high + low & 0xFFFFFFFF
        for register, high in upper
        for other, low in added
        if register == other
    }
    return made


def loaded_places(instructions: Iterable[Instruction]) -> set[int]:
    return set()


_COMPRESSED_FLOAT = {
    (0, 1): "rv32d", (0, 3): "rv32f", (0, 5): "rv32d", (0, 7): "rv32f",
    (2, 1): "rv32d", (2, 3): "rv32f", (2, 5): "rv32d", (2, 7): "rv32f",
}  # fmt: skip
_BASE = frozenset({_LOAD, 0x0F, _AUIPC, 0x23, _LUI, _BRANCH, _JALR, _JAL, 0x73})
#: By opcode, where it alone decides.
_EXTENSIONS = {0x2F: "rv32a", 0x57: "rv32v"} | dict.fromkeys(_BASE, "")


def needs(instruction: Instruction) -> str:
    """Return the feature word of `target/core.py` that a core must have; "" for RV32I with CSRs."""
    if instruction.second < 0:
        code = instruction.first
        return _COMPRESSED_FLOAT.get((code & 3, code >> 13), "rv32c")
    word = _word(instruction)
    opcode, funct3, funct7 = word & 0x7F, word >> 12 & 7, word >> 25
    if opcode in (_OP_IMM, _OP):
        return _arithmetic_needs(opcode, funct3, funct7)
    if opcode in (0x07, 0x27):  # LOAD-FP, STORE-FP
        return {2: "rv32f", 3: "rv32d"}.get(funct3, "rv32v")
    if opcode in (0x43, 0x47, 0x4B, 0x4F, 0x53):  # fused products, OP-FP
        return "rv32d" if funct7 & 3 == 1 else "rv32f"
    return _EXTENSIONS.get(opcode, "an unknown extension")


def _arithmetic_needs(opcode: int, funct3: int, funct7: int) -> str:
    if opcode == _OP and funct7 == 1:
        return "rv32m"
    known: tuple[int, ...] | None = (0, 0x20) if funct3 in (0, 5) else (0,)  # SUB, SRA
    if opcode == _OP_IMM:  # shifts alone have a funct7
        known = {1: (0,), 5: (0, 0x20)}.get(funct3)
    return "" if known is None or funct7 in known else "rv32b"

"""Thumb decoding as far as counting, costs and legality need it.

Encodings come from the Armv7-M Architecture Reference Manual (DDI 0403), chapter A5, and for the
few Armv8-M additions from DDI 0553. The instructions' results do not matter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """Classes of instructions that differ in cost or in their demands on memory."""

    OTHER = auto()
    LOAD = auto()  # one register, LDREX and LDRT too
    STORE = auto()
    DUAL = auto()  # LDRD, STRD
    MULTIPLE = auto()  # LDM, STM, PUSH, POP
    VECTOR_LOAD = auto()  # VLDR
    VECTOR_STORE = auto()  # VSTR
    VECTOR_MULTIPLE = auto()  # VLDM, VSTM, VPUSH, VPOP
    BRANCH = auto()  # B, always taken when executed, as are the next two
    CALL = auto()  # BL
    EXCHANGE = auto()  # BX, BLX
    CONDITIONAL_BRANCH = auto()  # B<cond>, CBZ, CBNZ
    TABLE_BRANCH = auto()  # TBB, TBH
    DIVIDE = auto()  # SDIV, UDIV
    MULTIPLY_ADD = auto()  # MLA, MLS
    LONG_MULTIPLY = auto()  # SMULL, UMULL
    LONG_MULTIPLY_ADD = auto()  # SMLAL, UMLAL
    VECTOR_DIVIDE = auto()  # VDIV, VSQRT
    VECTOR_MULTIPLY_ADD = auto()  # VMLA, VMLS, VFMA, VFMS
    VECTOR_MOVE_PAIR = auto()  # VMOV of two core and two single registers
    IT = auto()


# Instructions that fault on an address that is not a multiple of four, on every core (DDI 0403,
# A3.2.1).
ALIGNED_KINDS = frozenset(
    {Kind.DUAL, Kind.MULTIPLE, Kind.VECTOR_LOAD, Kind.VECTOR_STORE, Kind.VECTOR_MULTIPLE}
)


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction: `size` in bytes, registers moved, IT block, plain addressing."""

    kind: Kind
    size: int
    registers: int = 0  # of MULTIPLE and VECTOR_MULTIPLE
    loads_pc: bool = False  # of MULTIPLE
    plain: bool = True  # of LOAD and STORE: no LDREX, LDRT and the like


def is_wide(halfword: int) -> bool:
    return halfword >= 0xE800


def it_length(halfword: int) -> int:
    """Return how many instructions an IT makes conditional, 0 for any other instruction."""
    if halfword & 0xFF00 != 0xBF00 or not halfword & 0xF:
        return 0
    mask = halfword & 0xF
    return 4 - ((mask & -mask).bit_length() - 1)


@dataclass(frozen=True)
class Located:
    """One instruction of a sweep; `condition` is its IT block's (0 to 15), or None."""

    address: int
    first: int
    second: int  # 0 for a 16-bit instruction
    condition: int | None

    @property
    def size(self) -> int:
        return 4 if is_wide(self.first) else 2


def sweep(code: bytes, address: int) -> Iterator[Located]:
    """Yield the instructions of a straight piece of code without literals."""
    conditions: list[int] = []
    at = 0
    while at + 2 <= len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        second = int.from_bytes(code[at + 2 : at + 4], "little") if is_wide(first) else 0
        located = Located(address + at, first, second, conditions.pop(0) if conditions else None)
        yield located
        if length := it_length(first):
            # The mask's bits after the first condition's own invert its lowest bit.
            base, mask = (first >> 4) & 0xF, first & 0xF
            conditions = [base] + [base & 0xE | (mask >> (4 - i)) & 1 for i in range(1, length)]
        at += located.size


def find_call(before: bytes, return_address: int) -> tuple[int, int] | None:
    """The BL in the four bytes before a return address: where it is, where it leads."""
    first, second = before[0] | before[1] << 8, before[2] | before[3] << 8
    if first & 0xF800 != 0xF000 or second & 0xD000 != 0xD000:
        return None
    offset = (first & 0x3FF) << 12 | (second & 0x7FF) << 1
    sign = first >> 10 & 1
    for bit, shift in ((second >> 13, 23), (second >> 11, 22)):
        offset |= (~(bit ^ sign) & 1) << shift  # I1, I2
    return return_address - 4, (return_address + offset - (sign << 24)) & 0xFFFFFFFF


def aligned_base(first: int, second: int) -> int | None:
    """Return the register that must hold a multiple of four, None if there is none.

    Offsets of these instructions are multiples of four, and so are SP and the base of literals.
    """
    if decode(first, second).kind not in ALIGNED_KINDS:
        return None
    if not is_wide(first):
        return (first >> 8) & 7 if first >> 12 == 0b1100 else None  # not PUSH and POP
    base = first & 0xF
    return base if base not in (13, 15) else None


def decode(first: int, second: int) -> Instruction:
    """Decode one instruction; `second` is ignored for a 16-bit one."""
    return _decode_wide(first, second) if is_wide(first) else _decode_narrow(first)


_WIDE_OTHER = Instruction(Kind.OTHER, 4)


#: Kinds of 16-bit instructions, the first row that fits: a mask and its bits.
_NARROW: tuple[tuple[int, int, Kind], ...] = (
    (0xF800, 0x4800, Kind.LOAD),  # LDR literal
    (0xFE00, 0x5000, Kind.STORE),  # register offset: STR, STRH, STRB
    (0xFE00, 0x5200, Kind.STORE),
    (0xFE00, 0x5400, Kind.STORE),
    (0xF000, 0x5000, Kind.LOAD),
    (0xE800, 0x6800, Kind.LOAD),  # immediate offset
    (0xE800, 0x6000, Kind.STORE),
    (0xE800, 0x8800, Kind.LOAD),  # half-words, SP relative
    (0xE800, 0x8000, Kind.STORE),
    (0xFE00, 0xB400, Kind.MULTIPLE),  # PUSH
    (0xFE00, 0xBC00, Kind.MULTIPLE),  # POP
    (0xF500, 0xB100, Kind.CONDITIONAL_BRANCH),  # CBZ, CBNZ
    (0xF000, 0xC000, Kind.MULTIPLE),  # STM, LDM
    (0xFE00, 0xDE00, Kind.OTHER),  # UDF, SVC
    (0xF000, 0xD000, Kind.CONDITIONAL_BRANCH),
    (0xF800, 0xE000, Kind.BRANCH),  # B
    (0xFF07, 0x4700, Kind.EXCHANGE),  # BX, BLX
)


def _decode_narrow(h: int) -> Instruction:
    if it_length(h):
        return Instruction(Kind.IT, 2)
    kind = next((kind for mask, bits, kind in _NARROW if h & mask == bits), Kind.OTHER)
    if kind is not Kind.MULTIPLE:
        return Instruction(kind, 2)
    listed = 0xFF if h >> 12 == 0b1100 else 0x1FF  # PUSH and POP have LR and PC too
    return Instruction(kind, 2, (h & listed).bit_count(), h & 0xFF00 == 0xBD00)


def _decode_wide(h: int, s: int) -> Instruction:
    if h & 0xFE40 == 0xE800:  # LDM, STM
        loads_pc = bool(h & 0x10 and s & 0x8000)
        return Instruction(Kind.MULTIPLE, 4, s.bit_count(), loads_pc)
    if h & 0xFE40 == 0xE840:
        return _decode_dual_or_exclusive(h, s)
    if h & 0xEC00 == 0xEC00:  # coprocessors
        return _decode_float(h, s) if s & 0x0E00 == 0x0A00 else _WIDE_OTHER
    if h & 0xF800 == 0xF000 and s & 0x8000:
        return _decode_wide_branch(h, s)
    if h & 0xFE00 == 0xF800:
        return _decode_wide_single(h, s)
    if h & 0xFF00 == 0xFB00:
        return _decode_multiply(h, s)
    return _WIDE_OTHER


#: Of 32-bit multiplies and divides: bits 7 to 4 of both halves.
_MULTIPLIES = {
    (0x9, 0xF): Kind.DIVIDE,  # SDIV
    (0xB, 0xF): Kind.DIVIDE,  # UDIV
    (0x8, 0x0): Kind.LONG_MULTIPLY,
    (0xA, 0x0): Kind.LONG_MULTIPLY,
    (0xC, 0x0): Kind.LONG_MULTIPLY_ADD,
    (0xE, 0x0): Kind.LONG_MULTIPLY_ADD,
}


def _decode_multiply(h: int, s: int) -> Instruction:
    operation = h >> 4 & 0xF, s >> 4 & 0xF
    if operation in ((0, 0), (0, 1)) and s >> 12 != 15:  # not MUL
        return Instruction(Kind.MULTIPLY_ADD, 4)
    return Instruction(_MULTIPLIES.get(operation, Kind.OTHER), 4)


def _decode_dual_or_exclusive(h: int, s: int) -> Instruction:
    if (h, s) == (0xE97F, 0xE97F):  # SG
        return _WIDE_OTHER
    if h & 0x0120:  # P or W
        return Instruction(Kind.DUAL, 4)
    if h & 0xFFF0 == 0xE8D0 and s & 0x00E0 == 0x0000:
        return Instruction(Kind.TABLE_BRANCH, 4)
    if h & 0xFFF0 == 0xE850 or (h & 0xFFF0 == 0xE8D0 and s & 0x00C0 == 0x0040):
        return Instruction(Kind.LOAD, 4, plain=False)  # LDREX, LDREXB, LDREXH
    return _WIDE_OTHER  # STREX, LDA, STL, TT


def _decode_wide_branch(h: int, s: int) -> Instruction:
    if s & 0x5000 == 0x0000:
        if h & 0x0380 != 0x0380:
            return Instruction(Kind.CONDITIONAL_BRANCH, 4)
        return _WIDE_OTHER  # MSR, MRS, barriers, hints, UDF
    if s & 0x5000 == 0x4000:  # BLX immediate, v8.1-M loops
        return _WIDE_OTHER
    return Instruction(Kind.CALL if s & 0x4000 else Kind.BRANCH, 4)  # BL, B.W


def _decode_wide_single(h: int, s: int) -> Instruction:
    size = (h >> 5) & 3
    if size == 3:
        return _WIDE_OTHER
    if size < 2 and h & 0x10 and s >> 12 == 15:  # PLD, PLI and other memory hints
        return _WIDE_OTHER
    unprivileged = not h & 0x80 and h & 0xF != 15 and s & 0x0F00 == 0x0E00
    return Instruction(Kind.LOAD if h & 0x10 else Kind.STORE, 4, plain=not unprivileged)


def _decode_float(h: int, s: int) -> Instruction:
    """Decode coprocessors 10 (single) and 11 (double)."""
    if h & 0xFE00 == 0xEC00:
        if h & 0xFFE0 == 0xEC40:  # two core registers
            return Instruction(Kind.OTHER if s & 0x100 else Kind.VECTOR_MOVE_PAIR, 4)
        load = bool(h & 0x10)
        if h & 0x0120 == 0x0100:  # P, not W
            return Instruction(Kind.VECTOR_LOAD if load else Kind.VECTOR_STORE, 4)
        words = s & 0xFF
        return Instruction(Kind.VECTOR_MULTIPLE, 4, words // 2 if s & 0x100 else words)
    if h & 0xFF00 != 0xEE00 or s & 0x10:  # VSEL and others; VMOV, VMRS
        return _WIDE_OTHER
    operation = (h >> 4) & 0xB
    if operation == 0x8 or (operation == 0xB and h & 0xF == 1 and s & 0xC0 == 0xC0):
        return Instruction(Kind.VECTOR_DIVIDE, 4)  # VDIV; VSQRT
    if operation in (0x0, 0xA):  # VMLA, VMLS; VFMA, VFMS
        return Instruction(Kind.VECTOR_MULTIPLY_ADD, 4)
    return _WIDE_OTHER

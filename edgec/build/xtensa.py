"""Just enough of Xtensa to check an image: lengths, calls, options of the core, frames.

Not a disassembler: an instruction is classified by the tables of the Xtensa Instruction Set
Architecture Reference Manual, 7.3 (opcode encodings). Instructions have 24 bits, or 16 with the
code density option; fields of 4 bits are named op0, t, s, r, op1 and op2, from the lowest on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgec.build.instruction import Flow, Instruction, sign_extend

NAME = "xtensa"

FUNCTION_BIT = 0
"""A pointer to a function is its address."""

_SP = 1
_QRST, _L32R, _LSAI, _LSCI, _MAC16, _CALLN, _SI, _B = range(8)
_ADD_N, _ADDI_N, _ST2, _ST3 = 10, 11, 12, 13
_ADDI, _ADDMI = 12, 13
_JX = 10
_MOST_ROUNDS = 8


class Wide(Instruction):
    """An instruction of 24 bits: `second` is its third byte."""

    @property
    def length(self) -> int:
        return 3


def decode(code: bytes, address: int) -> Iterator[Instruction]:
    """Yield instructions. Zeros after a jump or return, up to where another jump goes to, align."""
    known: set[int] = set()
    found: list[Instruction] = []
    for _ in range(_MOST_ROUNDS):
        found = list(_decode(code, address, known))
        targets = {target for kind, target in transfers(found) if kind == "branch"}
        if targets == known:
            break
        known = targets
    return iter(found)


def _decode(code: bytes, address: int, targets: set[int]) -> Iterator[Instruction]:
    at = 0
    while at + 2 <= len(code):
        first = int.from_bytes(code[at : at + 2], "little")
        is_wide = first & 8 == 0 and at + 3 <= len(code)
        here = address + at
        one = Wide(here, first, code[at + 2]) if is_wide else Instruction(here, first)
        yield one
        at += one.length
        if _is_last(one):
            starts = (at + n for n in range(4) if not any(code[at : at + n]))
            at = next((start for start in starts if address + start in targets), at)


def _is_last(instruction: Instruction) -> bool:
    """Whether execution never continues at the next address: J, JX, RET, RET.N."""
    op0, t, _, r, op1, op2 = _fields(instruction)
    if op0 == _QRST:
        return (op1, op2, r, t >> 2) == (0, 0, 0, 2)
    return (op0 == _SI and t & 3 == 0) or (op0 == _ST3 and (r, t) == (15, 0))


def _word(instruction: Instruction) -> int:
    return max(instruction.second, 0) << 16 | instruction.first


def _fields(instruction: Instruction) -> tuple[int, int, int, int, int, int]:
    """op0, t, s, r, op1, op2."""
    word = _word(instruction)
    op0, t, s, r, op1, op2 = (word >> low & 15 for low in range(0, 24, 4))
    return op0, t, s, r, op1, op2


def flow(instruction: Instruction) -> tuple[Flow, int]:
    """Return how control leaves `instruction`, and to which address (0 if unknown).

    "call" is CALL0 and its like, "branch" any other jump to a fixed place; through a register
    "indirect_call" and "indirect_branch". Returns are "".
    """
    op0, t, _, r, op1, op2 = _fields(instruction)
    at, word = instruction.address, _word(instruction)
    if op0 == _QRST:
        return _through_register(t) if (op1, op2, r) == (0, 0, 0) else "", 0
    if op0 == _CALLN:
        return "call", (at & ~3) + 4 + 4 * sign_extend(word >> 6, 18)
    if op0 == _SI:
        return _immediate_flow(t & 3, t >> 2, r, at, word)
    if op0 == _B:
        return "branch", at + 4 + sign_extend(word >> 16, 8)
    if op0 == _ST2 and t & 8:  # BEQZ.N, BNEZ.N
        return "branch", at + 4 + ((t & 3) << 4 | r)
    return "", 0


def _through_register(t: int) -> Flow:
    """RET, JX and CALLX, by their field t."""
    if t >> 2 == 3:
        return "indirect_call"
    return "indirect_branch" if t == _JX else ""


def _immediate_flow(n: int, m: int, r: int, at: int, word: int) -> tuple[Flow, int]:
    """J; branches by one register, with 12 bits of distance or 8; others of that group."""
    if n == 0:
        return "branch", at + 4 + sign_extend(word >> 6, 18)
    if n == 1:
        return "branch", at + 4 + sign_extend(word >> 12, 12)
    if n == 3 and (m == 0 or (m == 1 and r > 1)):  # ENTRY, LOOP
        return "", 0
    return "branch", at + 4 + sign_extend(word >> 16, 8)


def transfers(instructions: Iterable[Instruction]) -> Iterator[tuple[Flow, int]]:
    """Yield how control leaves each instruction of a function, and to where (0: unknown)."""
    return map(flow, instructions)


def frame_growth(instruction: Instruction) -> int | None:
    """Return by how many bytes `instruction` lowers the stack pointer; None if that is unknown."""
    op0, t, s, r, op1, op2 = _fields(instruction)
    if op0 == _LSAI and r in (_ADDI, _ADDMI) and (t, s) == (_SP, _SP):
        value = sign_extend(_word(instruction) >> 16, 8) << (8 if r == _ADDMI else 0)
        return max(0, -value)
    if op0 == _QRST and (op1, op2, r) == (0, 12, _SP):  # SUB
        return None
    return 0


def holds_vectors(instructions: Iterable[Instruction]) -> bool:
    return False


def made_constants(instructions: Iterable[Instruction]) -> set[int]:
    return set()


def loaded_places(instructions: Iterable[Instruction]) -> set[int]:
    """Return the addresses of words that instructions load: of L32R's literals."""
    places = set()
    for instruction in instructions:
        if instruction.first & 15 == _L32R:
            distance = (_word(instruction) >> 8) - (1 << 16)
            places.add((instruction.address + 3 & ~3) + 4 * distance)
    return places


#: By op0, where it alone decides.
_GROUPS = {_LSCI: "floats", _MAC16: "sums of products", 14: "vectors", 15: "vectors"}
#: RETW, CALLX4, CALLX8 and CALLX12, by their field t.
_WITH_WINDOWS = (9, 13, 14, 15)
#: By op1 and op2.
_ARITHMETIC = {
    **{(2, op): "product" for op in (10, 11)}, **{(2, op): "divide" for op in range(12, 16)},
    (3, 2): "sext", (3, 3): "clamps", **{(3, op): "minmax" for op in range(4, 8)},
}  # fmt: skip


def needs(instruction: Instruction) -> str:
    """Return the option that a core needs, as a feature word; "" for the LX106's own.

    The LX106 has the base, code density, products of 32 and 16 bits, NSA, exceptions, interrupts.
    """
    op0, t, _, r, op1, op2 = _fields(instruction)
    if op0 == _QRST:
        return _arithmetic_needs(t, r, op1, op2)
    if op0 == _SI:
        return _immediate_needs(t & 3, t >> 2, r)
    is_window = (op0 == _CALLN and t & 3 != 0) or (op0 == _ST3 and (r, t) == (15, 1))  # RETW.N
    return "windows" if is_window else _GROUPS.get(op0, "")


def _immediate_needs(n: int, m: int, r: int) -> str:
    """ENTRY; BF, BT or LOOP; others of that group."""
    if n != 3 or m > 1:
        return ""
    if m == 0:
        return "windows"
    return "loops" if r > 1 else "booleans"


def _arithmetic_needs(t: int, r: int, op1: int, op2: int) -> str:
    if (op1, op2, r) == (0, 0, 0):
        return "windows" if t in _WITH_WINDOWS else ""
    return _ARITHMETIC.get((op1, op2), "floats" if op1 in (10, 11) else "")

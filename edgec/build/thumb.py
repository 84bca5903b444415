"""Just enough of the Thumb instruction set to check an image: lengths, calls, features, frames.

Not a disassembler: an instruction is classified by the encoding tables of the Armv7-M Architecture
Reference Manual (DDI 0403E, A5.2 16-bit and A5.3 32-bit instructions) and, for additions of later
cores, of the Armv8-M manual (DDI 0553).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from edgec.build.instruction import Flow, Instruction, decode_halves, sign_extend

NAME = "thumb"

FUNCTION_BIT = 1
"""What a pointer to a function has set in its lowest bit: the code is Thumb."""


def decode(code: bytes, address: int) -> Iterator[Instruction]:
    return decode_halves(code, address, lambda first: first >= 0xE800)


def flow(instruction: Instruction) -> tuple[Flow, int]:
    """Return how control leaves `instruction`, and to which address (0 if unknown).

    "call" is BL; "branch" is B in any form; "indirect_call" is BLX register, "indirect_branch"
    BX of another register than LR. Returns, CBZ and table branches stay inside: "".
    """
    first, second = instruction.first, instruction.second
    base = instruction.address + 4
    if second < 0:
        if first & 0xF000 == 0xD000 and (first >> 8) & 15 < 14:  # B<cond>, T1
            return "branch", base + 2 * sign_extend(first & 0xFF, 8)
        if first & 0xF800 == 0xE000:  # B, T2
            return "branch", base + 2 * sign_extend(first & 0x7FF, 11)
        if first & 0xFF80 == 0x4780:  # BLX register
            return "indirect_call", 0
        if first & 0xFF80 == 0x4700 and (first >> 3) & 15 != 14:  # BX register
            return "indirect_branch", 0
        return "", 0
    if first & 0xF800 != 0xF000 or not second & 0x8000:
        return "", 0
    sign = (first >> 10) & 1
    j1, j2 = (second >> 13) & 1, (second >> 11) & 1
    kind = second & 0xD000
    if kind in (0xD000, 0x9000):  # BL, T1 and B, T4
        i1, i2 = 1 - (j1 ^ sign), 1 - (j2 ^ sign)
        offset = sign << 24 | i1 << 23 | i2 << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1
        return ("call" if kind == 0xD000 else "branch"), base + sign_extend(offset, 25)
    if kind == 0x8000 and (first >> 6) & 15 < 14:  # B<cond>, T3
        offset = sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1
        return "branch", base + sign_extend(offset, 21)
    return "", 0


def transfers(instructions: Iterable[Instruction]) -> Iterator[tuple[Flow, int]]:
    """Yield how control leaves each instruction of a function, and to where (0: unknown)."""
    return (flow(instruction) for instruction in instructions)


#: Features that 32-bit instructions need, by the first row that matches: a mask and the bits of the
#: first half-word, the same of the second. "": every Cortex-M has it. Without a row: "thumb2".
_NEEDS: tuple[tuple[int, int, int, int, str], ...] = (
    (0xF800, 0xF000, 0xD000, 0xD000, ""),  # BL
    (0xFFE0, 0xF380, 0xD000, 0x8000, ""),  # MSR
    (0xFFFF, 0xF3EF, 0xD000, 0x8000, ""),  # MRS
    (0xFFFF, 0xF3BF, 0xD0C0, 0x8040, ""),  # DSB, DMB, ISB
    (0xFFF0, 0xF7F0, 0xF000, 0xA000, ""),  # UDF
    (0xEF00, 0xEF00, 0x0000, 0x0000, "mve"),  # Advanced SIMD
    (0xFF00, 0xEE00, 0x0F10, 0x0F10, "v7ar"),  # MCR, MRC of the system control coprocessor
    (0xFFE0, 0xEC40, 0x0F00, 0x0F00, "v7ar"),  # MCRR, MRRC
    # Coprocessors 8, 9, 14 and 15 hold Helium (and half precision, which only comes with it).
    (0xEC00, 0xEC00, 0x0E00, 0x0800, "mve"),
    (0xEC00, 0xEC00, 0x0E00, 0x0E00, "mve"),
    (0xFF80, 0xEE80, 0x0F10, 0x0B10, "mve"),  # VDUP, lanes of a byte
    (0xFFBF, 0xEEB7, 0x0ED0, 0x0AC0, "fpu_double"),  # VCVT, double to or from single
    # Data processing; moves of 64 bits (VLDR, VPUSH, VMOV) work on any FPU.
    (0xEF00, 0xEE00, 0x0F10, 0x0B00, "fpu_double"),
    (0xEC00, 0xEC00, 0x0E00, 0x0A00, "fpu"),
    (0xEC00, 0xEC00, 0x0000, 0x0000, "thumb2"),
    (0xFFFF, 0xE97F, 0xFFFF, 0xE97F, "v8m"),  # SG
    (0xFFF0, 0xE840, 0xF03F, 0xF000, "v8m"),  # TT, TTT, TTA, TTAT
    (0xFFE0, 0xE8C0, 0x0080, 0x0080, "v8m"),  # LDA, STL and exclusive forms
    (0xFF80, 0xF000, 0xD001, 0xC001, "mve"),  # LE, WLS, DLS: low-overhead loops
    (0xFFF0, 0xEA50, 0x8000, 0x8000, "mve"),  # CSEL and its family
    # The DSP extension (DDI 0403E A5.3).
    (0xFFF0, 0xEAC0, 0x0010, 0x0000, "dsp"),  # PKHBT, PKHTB
    (0xFF70, 0xF320, 0xF0C0, 0x0000, "dsp"),  # SSAT16, USAT16
    (0xFFE0, 0xFA20, 0xF080, 0xF080, "dsp"),  # extend two bytes
    (0xFF8F, 0xFA0F, 0xF080, 0xF080, "thumb2"),  # extend
    (0xFF80, 0xFA00, 0xF080, 0xF080, "dsp"),  # extend and add
    (0xFF80, 0xFA80, 0xF080, 0xF000, "dsp"),  # parallel add and subtract
    (0xFFF0, 0xFA80, 0xF080, 0xF080, "dsp"),  # QADD and family
    (0xFFF0, 0xFAA0, 0xF080, 0xF080, "dsp"),  # SEL
    (0xFFF0, 0xFB00, 0x0000, 0x0000, "thumb2"),  # MUL, MLA, MLS
    (0xFF80, 0xFB00, 0x0000, 0x0000, "dsp"),
    (0xFFF0, 0xFBC0, 0x00F0, 0x0000, "thumb2"),  # SMLAL
    (0xFFE0, 0xFBC0, 0x0000, 0x0000, "dsp"),  # SMLALD, SMLSLD and family
    (0xFFF0, 0xFBE0, 0x00F0, 0x0060, "dsp"),  # UMAAL
)


def loaded_places(instructions: Iterable[Instruction]) -> set[int]:
    return set()


def needs(instruction: Instruction) -> str:
    """Return the feature word of `target/core.py` that a core must have; "" if every one has it."""
    first, second = instruction.first, instruction.second
    if second >= 0:
        rows = (row for row in _NEEDS if first & row[0] == row[1] and second & row[2] == row[3])
        return next((feature for *_, feature in rows), "thumb2")
    is_compare_branch = first & 0xF500 == 0xB100  # CBZ, CBNZ
    is_if_then = first & 0xFF00 == 0xBF00 and first & 15 != 0
    return "thumb2" if is_compare_branch or is_if_then else ""


def _immediate_12(first: int, second: int) -> int:
    return (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF


def _modified_immediate(first: int, second: int) -> int:
    """Return the value of a Thumb modified immediate (DDI 0403E A5.3.2), plain or rotated."""
    imm12 = _immediate_12(first, second)
    if imm12 >> 10 == 0:
        byte = imm12 & 0xFF
        return (byte, byte * 0x00010001, byte * 0x01000100, byte * 0x01010101)[imm12 >> 8]
    rotation = imm12 >> 7
    return (0x80 | imm12 & 0x7F) << (32 - rotation)


#: Instructions that lower the stack pointer: masks and bits as in `_NEEDS`, and the number of
#: bytes; None: not in the code. A 16-bit instruction has 0 for its second half-word.
_GROWTHS: tuple[tuple[int, int, int, int, Callable[[int, int], int | None]], ...] = (
    (0xFE00, 0xB400, 0, 0, lambda f, s: 4 * (f & 0x1FF).bit_count()),  # PUSH
    (0xFF80, 0xB080, 0, 0, lambda f, s: 4 * (f & 0x7F)),  # SUB SP, #imm
    (0xFF87, 0x4485, 0, 0, lambda f, s: None),  # ADD SP, register: large frames of v6-M
    (0xFFFF, 0xE92D, 0, 0, lambda f, s: 4 * s.bit_count()),  # PUSH.W
    # STR and STRD of registers to [SP, #-imm]! or [SP], #-imm
    (0xFFFF, 0xF84D, 0x0B00, 0x0900, lambda f, s: s & 0xFF),
    (0xFEFF, 0xE86D, 0, 0, lambda f, s: 4 * (s & 0xFF)),
    (0xFFBF, 0xED2D, 0x0E00, 0x0A00, lambda f, s: 4 * (s & 0xFF)),  # VPUSH
    (0xFBEF, 0xF1AD, 0x8F00, 0x0D00, _modified_immediate),  # SUB.W SP, SP, #imm
    (0xFBFF, 0xF2AD, 0x8F00, 0x0D00, _immediate_12),  # SUBW SP, SP, #imm
    (0xFFEF, 0xEBAD, 0x0F00, 0x0D00, lambda f, s: None),  # SUB.W SP, SP, register
)


def frame_growth(instruction: Instruction) -> int | None:
    """Return by how many bytes `instruction` lowers the stack pointer; None if that is unknown."""
    first, second = instruction.first, max(instruction.second, 0)
    for mask, bits, second_mask, second_bits, growth in _GROWTHS:
        if first & mask == bits and second & second_mask == second_bits:
            return growth(first, second)
    return 0


def holds_vectors(instructions: Iterable[Instruction]) -> bool:
    """Whether a frame contains vectors, which have 128 bits: never here."""
    return False


def half_constant(instruction: Instruction) -> tuple[str, int, int] | None:
    """Return ("low" or "high", register, value) of MOVW and MOVT; None for other instructions."""
    first, second = instruction.first, instruction.second
    if second < 0 or second & 0x8000 or first & 0xFB70 != 0xF240:
        return None
    value = (first & 15) << 12 | _immediate_12(first, second)
    return ("high" if first & 0x80 else "low"), second >> 8 & 15, value


def made_constants(instructions: Iterable[Instruction]) -> set[int]:
    """Return the words that pairs of MOVW and MOVT may make, whatever lies between the two."""
    halves: dict[str, set[tuple[int, int]]] = {"low": set(), "high": set()}
    for instruction in instructions:
        constant = half_constant(instruction)
        if constant is not None:
            halves[constant[0]].add(constant[1:])
    return {
        high << 16 | low
        for register, low in halves["low"]
        for other, high in halves["high"]
        if register == other
    }

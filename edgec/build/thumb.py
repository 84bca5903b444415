"""Just enough of the Thumb instruction set to check an image: lengths, calls, features, frames.

Not a disassembler: an instruction is classified by the encoding tables of the Armv7-M
Architecture Reference Manual (DDI 0403E, A5.2 16-bit and A5.3 32-bit instructions) and, for
what later cores added, of the Armv8-M manual (DDI 0553).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgec.build.instruction import Flow, Instruction, decode_halves, sign_extend

NAME = "thumb"

FUNCTION_BIT = 1
"""What a pointer to a function has set in its lowest bit: the code is Thumb."""


def decode(code: bytes, address: int) -> Iterator[Instruction]:
    """Yield the instructions of `code`, which starts at `address` and holds no literals."""
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


def _needs_32(first: int, second: int) -> str:
    """Return the feature that a 32-bit instruction needs; "" if every Cortex-M has it."""
    if first & 0xF800 == 0xF000 and second & 0xD000 == 0xD000:  # BL
        return ""
    if first & 0xFFE0 == 0xF380 and second & 0xD000 == 0x8000:  # MSR
        return ""
    if first in (0xF3EF, 0xF3BF) and second & 0xD000 == 0x8000:  # MRS; DSB, DMB, ISB
        return ""
    if first & 0xFFF0 == 0xF7F0 and second & 0xF000 == 0xA000:  # UDF
        return ""
    if first & 0xEC00 == 0xEC00:
        return _needs_coprocessor(first, second)
    if first == 0xE97F and second == 0xE97F:  # SG
        return "v8m"
    if first & 0xFFF0 == 0xE840 and second & 0xF03F == 0xF000:  # TT, TTT, TTA, TTAT
        return "v8m"
    if first & 0xFFE0 == 0xE8C0 and second & 0x00C0 == 0x0080:  # LDA, STL and exclusive forms
        return "v8m"
    if first & 0xFF80 == 0xF000 and second & 0xD001 == 0xC001:  # LE, WLS, DLS: low-overhead loops
        return "mve"
    if first & 0xFFF0 == 0xEA50 and second & 0x8000:  # CSEL and its family
        return "mve"
    return "dsp" if _is_dsp(first, second) else "thumb2"


def _needs_coprocessor(first: int, second: int) -> str:
    coprocessor = (second >> 8) & 15
    if coprocessor not in (10, 11):
        # 8, 9, 14 and 15 hold Helium (and half precision, which only comes with it).
        return "mve" if coprocessor in (8, 9, 14, 15) else "thumb2"
    if first & 0xEF00 == 0xEF00:
        return "mve"
    is_data_processing = first & 0xEF00 == 0xEE00 and not second & 0x10
    if coprocessor == 11 and first & 0xFF80 == 0xEE80 and second & 0x10:  # VDUP, lanes of a byte
        return "mve"
    if first & 0xFFBF == 0xEEB7 and second & 0x00D0 == 0x00C0:  # VCVT, double to or from single
        return "fpu_double"
    if coprocessor == 11 and is_data_processing:
        # Double precision; what only moves 64 bits (VLDR, VPUSH, VMOV) works on any FPU.
        return "fpu_double"
    return "fpu"


def _is_dsp(first: int, second: int) -> bool:
    """Return whether a 32-bit instruction belongs to the DSP extension (DDI 0403E A5.3)."""
    op2 = (second >> 4) & 15
    if first & 0xFF00 == 0xFA00 and second & 0xF000 == 0xF000:  # data processing (register)
        op1 = (first >> 4) & 15
        if op1 < 6 and op2 >= 8:  # extend; with add, or of two bytes: DSP
            return first & 15 != 15 or op1 in (2, 3)
        if op1 >= 8 and op2 < 8:  # parallel add and subtract
            return True
        return op1 in (8, 10) and op2 < 12 and op2 >= 8  # QADD and family; SEL
    if first & 0xFF80 == 0xFB00:  # multiply
        return first & 0x70 != 0
    if first & 0xFF80 == 0xFB80:  # long multiply; SMULL, SDIV, UMULL, UDIV, SMLAL, UMLAL are base
        op1 = (first >> 4) & 7
        return (op1 == 4 and op2 != 0) or op1 == 5 or (op1 == 6 and op2 == 6)
    if first & 0xFFF0 == 0xEAC0:  # PKHBT, PKHTB
        return True
    is_saturate_16 = first & 0xFFF0 in (0xF320, 0xF3A0) and second & 0x70C0 == 0
    return is_saturate_16  # SSAT16, USAT16


def needs(instruction: Instruction) -> str:
    """Return the feature word of `target/core.py` that a core must have; "" if every one has it."""
    if instruction.second >= 0:
        return _needs_32(instruction.first, instruction.second)
    first = instruction.first
    is_compare_branch = first & 0xF500 == 0xB100  # CBZ, CBNZ
    is_if_then = first & 0xFF00 == 0xBF00 and first & 15 != 0
    return "thumb2" if is_compare_branch or is_if_then else ""


def _modified_immediate(first: int, second: int) -> int:
    """Return the value of a Thumb modified immediate (DDI 0403E A5.3.2), plain or rotated."""
    imm12 = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
    if imm12 >> 10 == 0:
        byte = imm12 & 0xFF
        return (byte, byte * 0x00010001, byte * 0x01000100, byte * 0x01010101)[imm12 >> 8]
    rotation = imm12 >> 7
    return (0x80 | imm12 & 0x7F) << (32 - rotation)


def frame_growth(instruction: Instruction) -> int | None:
    """Return by how many bytes `instruction` lowers the stack pointer; None if that is unknown."""
    first, second = instruction.first, instruction.second
    if second < 0:
        if first & 0xFE00 == 0xB400:  # PUSH
            return 4 * (first & 0x1FF).bit_count()
        if first & 0xFF80 == 0xB080:  # SUB SP, #imm
            return 4 * (first & 0x7F)
        if first & 0xFF87 == 0x4485:  # ADD SP, register: large frames of v6-M
            return None
        return 0
    if first == 0xE92D:  # PUSH.W
        return 4 * second.bit_count()
    if first == 0xF84D and second & 0x0B00 == 0x0900:  # STR register, [SP, #-imm]! or [SP], #-imm
        return second & 0xFF
    if first & 0xFEFF == 0xE86D:  # STRD registers, [SP, #-imm]! or [SP], #-imm
        return 4 * (second & 0xFF)
    if first & 0xFFBF == 0xED2D and second & 0x0E00 == 0x0A00:  # VPUSH
        return 4 * (second & 0xFF)
    if first & 0xFBEF == 0xF1AD and second & 0x8F00 == 0x0D00:  # SUB.W SP, SP, #imm
        return _modified_immediate(first, second)
    if first & 0xFBFF == 0xF2AD and second & 0x8F00 == 0x0D00:  # SUBW SP, SP, #imm
        return (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
    if first & 0xFFEF == 0xEBAD and second & 0x0F00 == 0x0D00:  # SUB.W SP, SP, register
        return None
    return 0


def half_constant(instruction: Instruction) -> tuple[str, int, int] | None:
    """Return ("low" or "high", register, value) of MOVW and MOVT; None for other instructions."""
    first, second = instruction.first, instruction.second
    if second < 0 or second & 0x8000 or first & 0xFB70 != 0xF240:
        return None
    value = (first & 15) << 12 | (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
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

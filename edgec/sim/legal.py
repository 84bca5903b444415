"""Find instructions in an image that its core does not have.

The simulator traps most of them, but runs DSP instructions on a Cortex-M3, and only what is
executed can trap. This looks at all code of the ELF, at encodings, not at mnemonics: Armv7-M
Architecture Reference Manual (DDI 0403), A5 and appendix on Armv6-M differences (DDI 0419).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.sim.image import Image, load_image
from edgec.sim.thumb import is_wide, it_length

_MAINLINE = {"thumb2"}
FEATURES = {
    "cortex-m0": frozenset[str](),
    "cortex-m3": frozenset(_MAINLINE),
    "cortex-m4": frozenset(_MAINLINE | {"dsp", "fpu"}),
    "cortex-m7": frozenset(_MAINLINE | {"dsp", "fpu", "fpv5", "double"}),
    "cortex-m33": frozenset(_MAINLINE | {"dsp", "fpu", "fpv5", "v8m"}),
}
_WORDS = {
    "thumb2": "32-bit Thumb-2 instructions, IT, CBZ",
    "dsp": "DSP instructions",
    "fpu": "FPU",
    "fpv5": "FPv5 instructions",
    "double": "double-precision FPU",
    "v8m": "Armv8-M instructions",
    "mve": "vector extension (MVE)",
}


@dataclass(frozen=True)
class IllegalInstruction:
    """One instruction that the core lacks; `feature` is what it would need."""

    address: int
    place: str  # function+0x12
    text: str  # disassembly, or the encoding without Capstone
    feature: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text} ({self.feature})"


def illegal_instructions(elf: Path, core: str) -> list[IllegalInstruction]:
    """Return all instructions of an ELF that `core` (a key of FEATURES) does not have.

    Raises RunFailed for a file that is no Arm ELF, KeyError for an unknown core.
    """
    image = load_image(Path(elf))
    found = []
    for section in image.code:
        for located in section.instructions():
            feature = missing_feature(located.first, located.second, core)
            if feature and not _is_padding(located.first, located.second):
                found.append(
                    IllegalInstruction(
                        located.address,
                        image.describe(located.address),
                        _disassemble(image, located.address, located.size),
                        feature,
                    )
                )
    return found


def missing_feature(first: int, second: int, core: str) -> str | None:
    """Return in words what an instruction needs and `core` lacks, or None."""
    missing = required_features(first, second) - FEATURES[core]
    return _WORDS[next(name for name in _WORDS if name in missing)] if missing else None


def required_features(first: int, second: int) -> set[str]:
    """Return the features (keys of FEATURES' sets) that one encoding needs."""
    if not is_wide(first):
        if it_length(first) or first & 0xF500 == 0xB100:  # IT; CBZ, CBNZ
            return {"thumb2"}
        return {"v8m"} if first & 0xFF07 == 0x4704 else set()  # BXNS, BLXNS
    if _is_v6m_wide(first, second):
        return set()
    if first & 0xEC00 == 0xEC00:
        return _coprocessor_features(first, second)
    features = {"thumb2"}
    if _is_dsp(first, second):
        features.add("dsp")
    if _is_v8m(first, second):
        features.add("v8m")
    return features


def _is_v6m_wide(h: int, s: int) -> bool:
    """BL, MSR, MRS, DSB, DMB, ISB and UDF.W: all the 32-bit instructions of Armv6-M."""
    return (
        (h & 0xF800 == 0xF000 and s & 0xD000 == 0xD000)
        or (h & 0xFFE0 == 0xF380 and s & 0xD000 == 0x8000)
        or (h & 0xFFE0 == 0xF3E0 and s & 0xD000 == 0x8000)
        or (h & 0xFFF0 == 0xF3B0 and s & 0xD0C0 == 0x8040)
        or (h & 0xFFF0 == 0xF7F0 and s & 0xF000 == 0xA000)
    )


def _is_dsp(h: int, s: int) -> bool:
    group = h & 0xFFF0
    if group == 0xEAC0:  # PKHBT, PKHTB
        return s & 0x10 == 0
    if group in (0xF320, 0xF3A0) and not s & 0x8000:  # SSAT16, USAT16
        return s & 0x70C0 == 0
    if h & 0xFF80 == 0xFA00 and s & 0xF080 == 0xF080:  # extend, and add
        return (h >> 4) & 7 in (2, 3) or h & 0xF != 15
    if h & 0xFF80 == 0xFA80 and s & 0xF000 == 0xF000:
        if s & 0x80 == 0:  # parallel add and subtract
            return True
        return group == 0xFA80 or group == 0xFAA0  # QADD...; SEL
    if h & 0xFF80 == 0xFB00:  # multiply; FB0 MUL, MLA, MLS
        return group != 0xFB00
    if h & 0xFF80 == 0xFB80:  # long multiply
        operation = (s >> 4) & 0xF
        if group == 0xFBC0:  # SMLAL is base
            return operation != 0
        return group == 0xFBD0 or (group == 0xFBE0 and operation == 6)  # SMLSLD; UMAAL
    return False


def _is_v8m(h: int, s: int) -> bool:
    if (h, s) == (0xE97F, 0xE97F):  # SG
        return True
    if h & 0xFFF0 == 0xE840 and s & 0xF03F == 0xF000:  # TT
        return True
    return h & 0xFFE0 == 0xE8C0 and s & 0x0080 == 0x0080  # LDA, STL and exclusives


def _coprocessor_features(h: int, s: int) -> set[str]:
    features = {"thumb2"}
    if s & 0x0E00 != 0x0A00:  # not coprocessor 10 or 11
        if h & 0xEF00 == 0xEF00 or s & 0x0E00 == 0x0E00 or h & 0xFE00 == 0xFC00:
            return features | {"mve"}  # also Advanced SIMD
        return features  # CDP, MCR: no core has them
    if h & 0xEF00 == 0xEF00:
        return features | {"mve"}
    features.add("fpu")
    if h & 0xFE00 == 0xFC00:
        return features | {"mve"}
    if h & 0xFF00 == 0xFE00:  # VSEL, VMAXNM, VRINTA...
        features.add("fpv5")
    if h & 0xEF00 == 0xEE00 and not s & 0x10:
        if s & 0x100:
            features.add("double")
        if h & 0xFFBF == 0xEEB7 and s & 0xC0 == 0xC0:  # VCVT of single and double
            features.add("double")
        # VRINTR, VRINTZ (opc2 0110) and VRINTX (0111); with bit 6 clear it is VMOV.
        if (h & 0xFFBF == 0xEEB6 and s & 0x40) or (h & 0xFFBF == 0xEEB7 and s & 0xC0 == 0x40):
            features.add("fpv5")
    return features


def _is_padding(first: int, second: int) -> bool:
    """Linkers fill gaps between functions with zeros or with 0xd4 (clang: trap)."""
    return (first, second) in ((0, 0), (0xD4D4, 0), (0xFFFF, 0xFFFF))


def _disassemble(image: Image, address: int, size: int) -> str:
    code = image.bytes_at(address, size)
    try:
        capstone: Any = importlib.import_module("capstone")
    except ImportError:
        pass
    else:
        decoder = capstone.Cs(
            capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
        )
        for instruction in decoder.disasm(code, address, count=1):
            return f"{instruction.mnemonic} {instruction.op_str}".rstrip()
    return ".inst " + " ".join(
        f"0x{int.from_bytes(code[at : at + 2], 'little'):04x}" for at in range(0, size, 2)
    )

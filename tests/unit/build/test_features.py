"""Instructions that a core lacks are found by their encodings."""

import random
import shutil
import subprocess

import pytest

from edgec.build.instruction import Instruction
from edgec.build.thumb import needs
from edgec.sim.faults import missing_feature

DSP = """smlabb r0, r1, r2, r3; smlatt r0, r1, r2, r3; smulbt r0, r1, r2; smulwb r0, r1, r2
smlawt r0, r1, r2, r3; smlad r0, r1, r2, r3; smuadx r0, r1, r2; smlsd r0, r1, r2, r3
smusd r0, r1, r2; smlald r0, r1, r2, r3; smlsld r0, r1, r2, r3; smlalbb r0, r1, r2, r3
smmla r0, r1, r2, r3; smmulr r0, r1, r2; smmls r0, r1, r2, r3; umaal r0, r1, r2, r3
usad8 r0, r1, r2; usada8 r0, r1, r2, r3; sadd16 r0, r1, r2; qsub8 r0, r1, r2
uhasx r0, r1, r2; uqsax r0, r1, r2; sel r0, r1, r2; qadd r0, r1, r2; qdsub r0, r1, r2
pkhbt r0, r1, r2, lsl #16; pkhtb r0, r1, r2, asr #16; ssat16 r0, #8, r1; usat16 r0, #8, r1
sxtb16 r0, r1; uxtb16 r0, r1, ror #8; sxtab r0, r1, r2; uxtah r0, r1, r2; sxtab16 r0, r1, r2"""
BASE = """mul r0, r1, r2; mla r0, r1, r2, r3; mls r0, r1, r2, r3; smull r0, r1, r2, r3
umull r0, r1, r2, r3; smlal r0, r1, r2, r3; umlal r0, r1, r2, r3; sdiv r0, r1, r2
udiv r0, r1, r2; ssat r0, #8, r1; ssat r0, #8, r1, asr #3; usat r0, #8, r1, lsl #2
sxtb.w r8, r1; uxth.w r0, r1, ror #8; sxth.w r9, r1; clz r0, r1; rbit r0, r1; rev.w r8, r1
revsh.w r8, r1; bfi r0, r1, #3, #4; ubfx r0, r1, #2, #3; movw r0, #1; movt r0, #1
ldrd r0, r1, [r2]; strd r0, r1, [r2, #8]!; ldmdb r0, {r1, r2}; ldrex r0, [r1]; tbb [pc, r0]
add.w r0, r1, r2, lsl #3; orn r0, r1, r2; teq r0, r1; rsb r0, r1, #12; mov.w r8, r9, ror #7
bfc r0, #1, #2; adc.w r0, r1, r2; lsl.w r0, r1, r2; ror.w r8, r1, r2; beq.w .; b.w .
cbz r0, .+8; it eq; nop; ldrsb.w r0, [r1, #3]!; pld [r0]; clrex; dbg #1"""
V6M = """bl .; dsb; dmb; isb; mrs r0, primask; msr primask, r0; cpsid i; rev r0, r1; uxtb r0, r1
muls r0, r1; push {r4, lr}; pop {r4, pc}; blx r3; bx lr; ldmia r0!, {r1, r2}; wfi; nop; svc #1
sxth r0, r1; beq .; b .; add r0, sp, #4; ldrsb r0, [r1, r2]; tst r0, r1"""
SINGLE = """vadd.f32 s0, s1, s2; vmla.f32 s0, s1, s2; vfma.f32 s0, s1, s2; vsqrt.f32 s0, s1
vcvt.f32.s32 s0, s1; vcvtr.s32.f32 s0, s1; vmov s0, r0; vmov r0, r1, s0, s1; vmov d0, r0, r1
vldr s0, [r0]; vldr d0, [r0]; vpush {d8-d9}; vldmia r0!, {s0-s3}; vmrs apsr_nzcv, fpscr
vcmp.f32 s0, #0.0; vmov.f32 s0, #1.0; vneg.f32 s0, s1; vcvtb.f32.f16 s0, s1; vdiv.f32 s0, s1, s2"""
DOUBLE = """vadd.f64 d0, d1, d2; vcvt.f64.f32 d0, s0; vcvt.f32.f64 s0, d0; vsqrt.f64 d0, d1
vcvt.s32.f64 s0, d0; vmov.f64 d0, d1; vfma.f64 d0, d1, d2"""
V8M = "lda r0, [r1]; stl r0, [r1]; sg; tt r0, r1; bxns lr; ldaex r0, [r1]"


def encode(tmp_path, text, cpu, fpu="") -> list[tuple[str, int, int]]:
    """Assemble; return (text, first halfword, second or 0) of each instruction."""
    if shutil.which("arm-none-eabi-as") is None:
        pytest.skip("arm-none-eabi-as is absent")
    result = []
    lines = [line.strip() for line in text.replace("\n", ";").split(";") if line.strip()]
    source = "".join(f"label{i}: {line}\n" for i, line in enumerate(lines))
    flags = [f"-mfpu={fpu}", "-mfloat-abi=hard"] if fpu else []
    for step, argument in (("as", source), ("objcopy", None)):
        command = {
            "as": [
                "arm-none-eabi-as",
                f"-mcpu={cpu}",
                *flags,
                "-mthumb",
                "-o",
                str(tmp_path / "a.o"),
                "-",
            ],
            "objcopy": [
                "arm-none-eabi-objcopy",
                "-O",
                "binary",
                "-j",
                ".text",
                str(tmp_path / "a.o"),
                str(tmp_path / "a.bin"),
            ],
        }[step]
        given = None if argument is None else ".syntax unified\n" + argument
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    data = (tmp_path / "a.bin").read_bytes()
    at = 0
    while at < len(data) and len(result) < len(lines):
        first = int.from_bytes(data[at : at + 2], "little")
        size = 4 if first >= 0xE800 else 2
        second = int.from_bytes(data[at + 2 : at + 4], "little") if size == 4 else 0
        result.append((lines[len(result)], first, second))
        at += size
    return result


@pytest.mark.parametrize(
    ("text", "cpu", "fpu", "feature"),
    [
        (V6M, "cortex-m0", "", ""),
        (BASE, "cortex-m3", "", "thumb2"),
        (DSP, "cortex-m4", "", "dsp"),
        (SINGLE, "cortex-m4", "fpv4-sp-d16", "fpu"),
        (DOUBLE, "cortex-m7", "fpv5-d16", "fpu_double"),
        (V8M, "cortex-m33", "", "v8m"),
    ],
    ids=["v6m", "base", "dsp", "single", "double", "v8m"],
)
def test_features_of_encodings(tmp_path, text, cpu, fpu, feature):
    for line, first, second in encode(tmp_path, text, cpu, fpu):
        if line != "nop" and line != "bxns lr":  # 16 bits
            assert feature_of(first, second) == feature, line


def feature_of(first: int, second: int) -> str:
    return needs(Instruction(0, first, second if first >= 0xE800 else -1))


def test_dsp_table_agrees_with_the_disassembler():
    capstone = pytest.importorskip("capstone")
    decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
    names = {line.split()[0] for line in DSP.replace("\n", ";").split(";") if line.strip()}
    stems = (
        "smla",
        "smul",
        "smuad",
        "smus",
        "smls",
        "smm",
        "umaal",
        "usad",
        "sel",
        "qadd",
        "qsub",
        "qdadd",
        "qdsub",
        "pkh",
        "ssat16",
        "usat16",
        "sxtab",
        "uxtab",
        "sxtah",
        "uxtah",
        "sxtb16",
        "uxtb16",
        "sadd",
        "ssub",
        "sasx",
        "ssax",
        "shadd",
        "shsub",
        "shasx",
        "shsax",
        "uadd",
        "usub",
        "uasx",
        "usax",
        "uhadd",
        "uhsub",
        "uhasx",
        "uhsax",
        "uqadd",
        "uqsub",
        "uqasx",
        "uqsax",
        "qasx",
        "qsax",
    )
    assert all(name.startswith(stems) for name in names)
    choose = random.Random(1)
    for _ in range(20_000):
        first = choose.choice([0xEA00, 0xF300, 0xFA00, 0xFB00]) | choose.randrange(256)
        second = choose.randrange(0x10000)
        if first >= 0xFA00 and choose.random() < 0.8:
            second |= 0xF000
        code = first.to_bytes(2, "little") + second.to_bytes(2, "little")
        for instruction in decoder.disasm(code, 0, count=1):
            name = instruction.mnemonic
            is_dsp = name.startswith(stems) and name not in ("smlal", "smull")
            if instruction.size == 4:
                assert (feature_of(first, second) == "dsp") == is_dsp, (name, code.hex())


def test_missing_feature_names_the_first_reason():
    assert missing_feature(0xFB10, 0xF001, "cortex-m3") == "DSP instructions"
    assert missing_feature(0xFB10, 0xF001, "cortex-m4") is None
    assert missing_feature(0xEF20, 0x0150, "cortex-m33") == "vector extension (MVE)"

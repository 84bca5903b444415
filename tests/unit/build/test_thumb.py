"""Instructions are classified as the GNU assembler does; branches and frames are followed."""

from __future__ import annotations

import pytest

from edgec.build.thumb import decode, flow, frame_growth, needs

# Text, bytes as the GNU assembler (binutils 2.40) encodes it, and the feature a core must have:
# it accepts "" for a Cortex-M0, "thumb2" from the M3 on, "dsp" and "fpu" from the M4 on.
ENCODINGS = [
    ("mla r0, r1, r2, r3", "01fb0230", "thumb2"),
    ("mls r0, r1, r2, r3", "01fb1230", "thumb2"),
    ("mul.w r0, r1, r2", "01fb02f0", "thumb2"),
    ("smull r0, r1, r2, r3", "82fb0301", "thumb2"),
    ("umlal r0, r1, r2, r3", "e2fb0301", "thumb2"),
    ("sdiv r0, r1, r2", "91fbf2f0", "thumb2"),
    ("udiv r8, r1, r2", "b1fbf2f8", "thumb2"),
    ("ssat r0, #8, r1", "01f30700", "thumb2"),
    ("ssat r0, #8, r1, asr #3", "21f3c700", "thumb2"),
    ("usat r0, #8, r1, lsl #2", "81f38800", "thumb2"),
    ("clz r0, r1", "b1fa81f0", "thumb2"),
    ("rbit r0, r1", "91faa1f0", "thumb2"),
    ("rev.w r0, r1", "91fa81f0", "thumb2"),
    ("sxtb.w r8, r1", "4ffa81f8", "thumb2"),
    ("uxth.w r8, r1, ror #8", "1ffa91f8", "thumb2"),
    ("lsl.w r0, r1, r2", "01fa02f0", "thumb2"),
    ("ldrd r0, r1, [r2]", "d2e90001", "thumb2"),
    ("ldr.w r8, [r2, #4]", "d2f80480", "thumb2"),
    ("movw r0, #1234", "40f2d240", "thumb2"),
    ("orr.w r0, r1, r2, lsl #3", "41eac200", "thumb2"),
    ("ubfx r0, r1, #3, #5", "c1f3c400", "thumb2"),
    ("bfi r0, r1, #3, #5", "61f3c700", "thumb2"),
    ("tbb [pc, r0]", "dfe800f0", "thumb2"),
    ("ldrex r0, [r1]", "51e8000f", "thumb2"),
    ("strex r2, r0, [r1]", "41e80002", "thumb2"),
    ("cbz r0, .+8", "10b1", "thumb2"),
    ("it eq", "08bf", "thumb2"),
    ("smlal r0, r1, r2, r3", "c2fb0301", "thumb2"),
    ("bl .+100", "00f030f8", ""),
    ("dsb", "bff34f8f", ""),
    ("isb", "bff36f8f", ""),
    ("mrs r0, primask", "eff31080", ""),
    ("msr primask, r0", "80f31088", ""),
    ("udf.w #1", "f0f701a0", ""),
    ("nop", "00bf", ""),
    ("push {r4, lr}", "10b5", ""),
    ("wfi", "30bf", ""),
    ("cpsid i", "72b6", ""),
    ("mcr p15, 0, r0, c1, c0, 0", "01ee100f", "v7ar"),
    ("mrc p15, 0, r3, c9, c13, 0", "19ee1d3f", "v7ar"),
    ("mcrr p15, 0, r0, r1, c2", "41ec020f", "v7ar"),
    ("smlad r0, r1, r2, r3", "21fb0230", "dsp"),
    ("smuad r0, r1, r2", "21fb02f0", "dsp"),
    ("smlsd r0, r1, r2, r3", "41fb0230", "dsp"),
    ("smlald r0, r1, r2, r3", "c2fbc301", "dsp"),
    ("smlalbb r0, r1, r2, r3", "c2fb8301", "dsp"),
    ("smlabb r0, r1, r2, r3", "11fb0230", "dsp"),
    ("smulbb r0, r1, r2", "11fb02f0", "dsp"),
    ("smlawt r0, r1, r2, r3", "31fb1230", "dsp"),
    ("smmla r0, r1, r2, r3", "51fb0230", "dsp"),
    ("smmulr r0, r1, r2", "51fb12f0", "dsp"),
    ("smlsld r0, r1, r2, r3", "d2fbc301", "dsp"),
    ("umaal r0, r1, r2, r3", "e2fb6301", "dsp"),
    ("usad8 r0, r1, r2", "71fb02f0", "dsp"),
    ("sxtb16 r0, r1", "2ffa81f0", "dsp"),
    ("sxtb16 r0, r1, ror #8", "2ffa91f0", "dsp"),
    ("uxtb16 r0, r1", "3ffa81f0", "dsp"),
    ("sxtab16 r0, r1, r2", "21fa82f0", "dsp"),
    ("sxtah r0, r1, r2", "01fa82f0", "dsp"),
    ("uxtab r0, r1, r2", "51fa82f0", "dsp"),
    ("sadd8 r0, r1, r2", "81fa02f0", "dsp"),
    ("uqsub16 r0, r1, r2", "d1fa52f0", "dsp"),
    ("shasx r0, r1, r2", "a1fa22f0", "dsp"),
    ("uhadd8 r0, r1, r2", "81fa62f0", "dsp"),
    ("qadd r0, r1, r2", "82fa81f0", "dsp"),
    ("qdsub r0, r1, r2", "82fab1f0", "dsp"),
    ("sel r0, r1, r2", "a1fa82f0", "dsp"),
    ("pkhbt r0, r1, r2, lsl #16", "c1ea0240", "dsp"),
    ("pkhtb r0, r1, r2, asr #16", "c1ea2240", "dsp"),
    ("ssat16 r0, #8, r1", "21f30700", "dsp"),
    ("usat16 r0, #8, r1", "a1f30800", "dsp"),
    ("vadd.f32 s0, s1, s2", "30ee810a", "fpu"),
    ("vfma.f32 s0, s1, s2", "a0ee810a", "fpu"),
    ("vldr s0, [r0]", "90ed000a", "fpu"),
    ("vldr d0, [r0]", "90ed000b", "fpu"),
    ("vpush {d8-d9}", "2ded048b", "fpu"),
    ("vmov r0, s0", "10ee100a", "fpu"),
    ("vmov r0, r1, d0", "51ec100b", "fpu"),
    ("vmrs r0, fpscr", "f1ee100a", "fpu"),
    ("vcvt.s32.f32 s0, s1", "bdeee00a", "fpu"),
    ("vadd.f64 d0, d1, d2", "31ee020b", "fpu_double"),
    ("vcvt.f64.f32 d0, s1", "b7eee00a", "fpu_double"),
    ("vmov.f64 d0, d1", "b0ee410b", "fpu_double"),
    ("lda r0, [r1]", "d1e8af0f", "v8m"),
    ("stl r0, [r1]", "c1e8af0f", "v8m"),
    ("tt r0, r1", "41e800f0", "v8m"),
    ("sg", "7fe97fe9", "v8m"),
    ("vadd.i32 q0, q1, q2", "22ef4408", "mve"),
    ("vmladav.s8 r0, q1, q2", "f2ee040f", "mve"),
    ("vldrb.u8 q0, [r1]", "91ed001e", "mve"),
    ("vmlav.s16 r2, q1, q2", "f2ee042e", "mve"),
    ("dls lr, r0", "40f001e0", "mve"),
    ("le lr, .-4", "0ff005c0", "mve"),
    ("csel r0, r1, r2, eq", "51ea0280", "mve"),
    ("vrmlaldavh.s32 r0, r1, q1, q2", "82ee040f", "mve"),
    ("vdup.8 q0, r1", "e0ee101b", "mve"),
    ("vshlc q0, r1, #8", "a8eec10f", "mve"),
]


@pytest.mark.parametrize(("text", "code", "feature"), ENCODINGS, ids=[e[0] for e in ENCODINGS])
def test_feature(text: str, code: str, feature: str) -> None:
    instructions = list(decode(bytes.fromhex(code), 0x1000))
    assert len(instructions) == 1
    assert needs(instructions[0]) == feature


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("00f032f8", ("call", 0x1068)),  # bl .+104
        ("fff7feff", ("call", 0x1000)),  # bl .
        ("00f0fabf", ("branch", 0x1FF8)),  # b.w
        ("fff7febf", ("branch", 0x1000)),  # b.w .
        ("00f00080", ("branch", 0x1004)),  # beq.w
        ("fee7", ("branch", 0x1000)),  # b .
        ("fed0", ("branch", 0x1000)),  # beq .
        ("01de", ("", 0)),  # udf, in the space of conditional branches
        ("01df", ("", 0)),  # svc
        ("9847", ("indirect_call", 0)),  # blx r3
        ("1847", ("indirect_branch", 0)),  # bx r3
        ("7047", ("", 0)),  # bx lr returns
        ("10bd", ("", 0)),  # pop {r4, pc} returns
    ],
)
def test_flow(code: str, expected: tuple[str, int]) -> None:
    assert flow(next(decode(bytes.fromhex(code), 0x1000))) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("10b5", 8),  # push {r4, lr}
        ("2de9f04f", 36),  # push {r4-r11, lr}
        ("2ded0a8b", 40),  # vpush {d8-d12}
        ("84b0", 16),  # sub sp, #16
        ("adf5807d", 256),  # sub.w sp, sp, #256
        ("adf2345d", 0x534),  # subw sp, sp, #1332
        ("4df8044d", 4),  # str r4, [sp, #-4]!
        ("4df808ed", 8),  # str lr, [sp, #-8]!
        ("4df80809", 8),  # str r0, [sp], #-8
        ("4df8080b", 0),  # str r0, [sp], #8
        ("6de80201", 8),  # strd r0, r1, [sp], #-8
        ("a544", None),  # add sp, r4
        ("10bd", 0),  # pop {r4, pc}
        ("04b0", 0),  # add sp, #16
    ],
)
def test_frame_growth(code: str, expected: int | None) -> None:
    assert frame_growth(next(decode(bytes.fromhex(code), 0))) == expected


def test_decode_stops_at_a_cut_off_instruction() -> None:
    instructions = list(decode(bytes.fromhex("10b500f0"), 0x20))
    assert [(i.address, i.length) for i in instructions] == [(0x20, 2), (0x22, 2)]

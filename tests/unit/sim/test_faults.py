"""Every way a program can go wrong is one error that names the place and the reason."""

import pytest
from sim_programs import CORTEX

from edgec.errors import RunFailed
from edgec.sim.core import CoreSimulator
from edgec.sim.thumb import sweep

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

ASM = r"""
#define ASM(name, text) __attribute__((naked, used)) uint32_t name(uint32_t a, uint32_t b) \
    { __asm__(".syntax unified\n" text "\n bx lr"); }
ASM(load, "ldr r0, [r0]")
ASM(load_pair, ".inst.w 0xe9d00100")
ASM(load_many, "ldmia r0!, {r1, r2}")
ASM(store_many, "stmia r0!, {r1, r2}")
ASM(dsp, ".inst.w 0xfb10f001")
ASM(vfp, ".inst.w 0xee700a20")
ASM(vfp_load, ".inst.w 0xed900a00")
ASM(vfp_double, ".inst.w 0xee311b01")
ASM(divide, ".inst.w 0xfbb0f0f1")
ASM(undefined, "udf #0")
ASM(supervisor, "svc #1")
ASM(stop, "bkpt #0")
ASM(sleep, "wfi")
ASM(astray, "ldr r3, =0x60000001\n bx r3\n .ltorg")
ASM(odd, "ldr r3, =0x100\n bx r3\n .ltorg")
ASM(skipped_load, "cmp r1, #7\n .inst.n 0xbf0c\n .inst.w 0xe8b0000c\n movs r0, #1\n movs r0, r0")
ASM(load_wide, ".inst.w 0xe8b0000c")
ASM(store_pair, ".inst.w 0xe9c01202")
ASM(vfp_many, ".inst.w 0xecb00a02")
ASM(vfp_store, ".inst.w 0xed800a01")
uint32_t words[8];
"""


@pytest.fixture(scope="module", params=CORTEX)
def core(request, firmware):
    # Encodings are given, so that one build has what no single core has.
    with CoreSimulator(firmware.build(ASM, "cortex-m0"), request.param) as simulator:
        yield simulator


def fails(core, function, *args, match, **options):
    with pytest.raises(RunFailed, match=match) as caught:
        core.call(function, *args, **options)
    assert "\n" not in caught.value.message
    return caught.value


def test_unaligned_single_load_is_a_fault_of_m0_only(core):
    words = core.symbols["words"]
    if core.core == "cortex-m0":
        fails(core, "load", words + 2, match=r"load\+0x0 uses an unaligned address: cortex-m0")
    else:
        assert core.call("load", words + 2).value == 0


def test_unaligned_multiples_are_faults(core):
    functions = ["load_many", "store_many"]
    if core.core != "cortex-m0":
        functions += ["load_pair", "store_pair", "load_wide"]
    if core.core not in ("cortex-m0", "cortex-m3"):
        functions += ["vfp_load", "vfp_store", "vfp_many"]
    words = core.symbols["words"]
    for function in functions:
        core.call(function, words + 4)
        for odd in (1, 2, 3):
            fails(core, function, words + odd, match=rf"{function}\+0x0 uses")
        if core.core != "cortex-m0":
            core.call(function, words + 2, check_alignment=False)


def test_an_instruction_that_is_skipped_needs_no_alignment(core):
    if core.core != "cortex-m0":
        words = core.symbols["words"]
        assert core.call("skipped_load", words + 2, 6).value == 1
        core.call("skipped_load", words + 4, 7)
        match = rf"skipped_load\+0x4 uses the unaligned base address 0x{words + 2:08x}"
        fails(core, "skipped_load", words + 2, 7, match=match)


def test_conditions_of_it_blocks():
    block = [0xBF05, 0xBF00, 0xBF00, 0xBF00, 0xBF00, 0xBF00]  # ITTET EQ, then five NOPs
    found = [i.condition for i in sweep(b"".join(h.to_bytes(2, "little") for h in block), 0)]
    assert found == [None, 0, 0, 1, 0, None]


def test_missing_instructions_trap(core):
    words = core.symbols["words"]
    if core.core == "cortex-m0":
        fails(core, "divide", 8, 2, match="cortex-m0 has no 32-bit Thumb-2")
        fails(core, "dsp", 1, 1, match="cortex-m0 has no")
        error = fails(core, "load_pair", words, match=r"load_pair\+0x0 executes an instruction")
        assert error.details == ("instruction: ldrd r0, r1, [r0]",)
    else:
        assert core.call("divide", 8, 2).value == 4
    if core.core in ("cortex-m0", "cortex-m3"):
        fails(core, "vfp", match=f"{core.core} has no")
        fails(core, "vfp_load", words, match=f"{core.core} has no")
    else:
        core.call("vfp")
    if core.core == "cortex-m7":
        core.call("vfp_double")
    else:
        fails(core, "vfp_double", match=f"{core.core} has no")


def test_instructions_that_nobody_answers(core):
    fails(core, "undefined", match=r"undefined\+0x0 executes an instruction the core lacks")
    fails(core, "supervisor", match="executes SVC, but there is no operating system")
    fails(core, "stop", match=r"stop\+0x0 executes a breakpoint")
    fails(core, "sleep", match="waits for an interrupt")
    fails(core, "astray", match="branched to 0x60000000, where there is no code")
    fails(core, "odd", match="without the Thumb bit")
    assert core.call("load", core.symbols["words"]).value == 0  # still usable


def test_alignment_is_checked_without_machine_code_too(firmware):
    with CoreSimulator(firmware.build(ASM, "cortex-m0"), "cortex-m4", native=False) as core:
        words = core.symbols["words"]
        core.call("load", words + 1)
        core.call("load_pair", words + 2, check_alignment=False)
        for _ in range(2):  # the check can be switched
            fails(core, "load_pair", words + 2, match="needs a multiple of four")
            assert core.call("load_pair", words + 2, check_alignment=False).value == 0

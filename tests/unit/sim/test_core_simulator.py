"""The simulator's interface: calls, counts, memory, stack, traces, budget."""

import pytest
from sim_programs import CORTEX

from edgec.errors import RunFailed
from edgec.sim.core import CORES, CoreSimulator, Span

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

PROGRAM = r"""
uint32_t table[4] = {1, 20, 300, 4000};
const uint8_t constants[8] = {1, 2, 3, 4, 5, 6, 7, 8};
uint8_t arena[64];
uint32_t zeroed[3];

NOINLINE uint32_t add(uint32_t a, uint32_t b) { return a + b; }
NOINLINE uint32_t six(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f)
{ return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f; }
NOINLINE uint64_t wide(uint32_t a, uint32_t b) { return (uint64_t)a * b; }
NOINLINE uint32_t initial(uint32_t i) { return table[i] + zeroed[i % 3]; }
NOINLINE uint32_t counted(uint32_t n)
{ uint32_t s = 0; for (uint32_t i = 0; i < n; ++i) { s += add(i, 1); } return s; }
NOINLINE void fill(uint8_t *p, uint32_t n, uint32_t v)
{ for (uint32_t i = 0; i < n; ++i) { ((volatile uint8_t *)p)[i] = (uint8_t)v; } }
NOINLINE uint32_t sum(const uint8_t *p, uint32_t n)
{ uint32_t s = 0; for (uint32_t i = 0; i < n; ++i) { s += ((const volatile uint8_t *)p)[i]; }
  return s; }
NOINLINE uint32_t frame(uint32_t n)
{ volatile uint8_t a[200]; for (uint32_t i = 0; i < 200; ++i) { a[i] = (uint8_t)n; }
  return a[n]; }
NOINLINE uint32_t deep(uint32_t n)
{ volatile uint32_t a[16]; for (uint32_t i = 0; i < 16; ++i) { a[i] = n; }
  return n ? deep(n - 1) + a[3] : a[1]; }
NOINLINE void forever(void) { for (;;) { __asm__ volatile("nop"); } }
NOINLINE uint32_t conditional(int32_t a) { return a < 0 ? (uint32_t)-a * 3u : (uint32_t)a; }
"""


@pytest.fixture(scope="module", params=CORES)
def core(request, firmware):
    with CoreSimulator(firmware.build(PROGRAM, request.param), request.param) as simulator:
        yield simulator


def test_arguments_and_results(core):
    assert core.call("add", 3, 0xFFFFFFFF).value == 2
    assert core.call("add", -1, -2).value == 0xFFFFFFFD
    assert core.call("six", 1, 2, 3, 4, 5, 6).value == 1 + 4 + 9 + 16 + 25 + 36
    result = core.call("wide", 0xFFFFFFFF, 0xFFFFFFFF)
    assert result.high_value << 32 | result.value == 0xFFFFFFFF * 0xFFFFFFFF
    assert core.call(core.symbols["add"] | 1, 1, 1).value == 2


def test_data_is_initialised_without_start_up(core):
    assert [core.call("initial", i).value for i in range(4)] == [1, 20, 300, 4000]


def test_memory_keeps_its_contents_and_sizes_are_known(core):
    arena = core.symbol("arena")
    assert arena.size == 64
    core.write(arena.address, bytes(range(64)))
    assert core.call("sum", arena.address, 64).value == sum(range(64))
    core.call("fill", arena.address + 4, 3, 9)
    assert core.read(arena.address, 8) == bytes([0, 1, 2, 3, 9, 9, 9, 7])


def test_counts_are_exact_and_repeat(core):
    one, two, ten = (core.call("counted", n) for n in (1, 2, 10))
    step = two.instructions - one.instructions
    assert ten.instructions == one.instructions + 9 * step
    assert ten.functions["add"].calls == 10
    assert ten.functions["add"].instructions == 10 * one.functions["add"].instructions
    assert sum(f.instructions for f in ten.functions.values()) == ten.instructions
    assert sum(f.cycles for f in ten.functions.values()) == ten.cycles >= ten.instructions
    assert sum(ten.counts.values()) == ten.instructions
    assert core.call("counted", 10) == ten


def test_known_count(firmware):
    # subs, bne five times, bx once
    source = """__attribute__((naked, used)) uint32_t loop(uint32_t n)
    { __asm__(".syntax unified\\n 1: subs r0, r0, #1\\n bne 1b\\n bx lr"); }"""
    for name in CORTEX:
        with CoreSimulator(firmware.build(source, name), name) as simulator:
            result = simulator.call("loop", 5)
            assert (result.instructions, result.cycles) == (11, 5 + 4 * 3 + 1 + 3)


def test_known_count_of_riscv(firmware):
    # addi, bnez five times, ret once; each of 16 and of 32 bits
    source = """__attribute__((naked, used)) uint32_t loop(uint32_t n)
    { __asm__("1: addi a0, a0, -1\\n bnez a0, 1b\\n ret"); }
    __attribute__((naked, used)) uint32_t wide(uint32_t n)
    { __asm__(".option norvc\\n 1: addi a0, a0, -1\\n bnez a0, 1b\\n ret"); }"""
    with CoreSimulator(firmware.build(source, "rv32imc"), "rv32imc") as simulator:
        for name in ("loop", "wide"):
            result = simulator.call(name, 5)
            assert (result.instructions, result.cycles) == (11, 11)


def test_small_data_of_riscv_is_found(firmware):
    """What the linker places near the global pointer, which start-up code sets on a board."""
    source = """uint32_t here[2] = {5, 7};
    uint32_t second(void) { return ((volatile uint32_t *)here)[1]; }"""
    pointer = "-Wl,--defsym=__global_pointer$=0x20000800"
    elf = firmware.build(source, "rv32imc", compiler="gcc", link_flags=(pointer,))
    with CoreSimulator(elf, "rv32imc") as simulator:
        assert simulator.call("second").value == 7


def test_an_image_of_another_instruction_set_is_refused(firmware):
    elf = firmware.build(PROGRAM, "rv32imc")
    with pytest.raises(RunFailed, match="another instruction set than cortex-m4"):
        CoreSimulator(elf, "cortex-m4")


@pytest.mark.parametrize("name", ["cortex-m0", "cortex-m4", "rv32imc"])
def test_both_counters_agree(firmware, name):
    elf = firmware.build(PROGRAM, name)
    with (
        CoreSimulator(elf, name) as native,
        CoreSimulator(elf, name, native=False) as portable,
    ):
        for call in (("counted", 100), ("deep", 5), ("conditional", -7)):
            assert native.call(*call) == portable.call(*call)


def test_stack_high_water_mark(core):
    assert core.call("add", 1, 2).stack_bytes <= 8  # clang keeps a frame pointer
    assert 200 <= core.call("frame", 7).stack_bytes <= 240
    shallow, deep = (core.call("deep", n).stack_bytes for n in (1, 9))
    assert deep - shallow == 8 * (deep // 10)
    assert core.call("add", 1, 2).stack_bytes <= 8  # clang keeps a frame pointer


def test_stack_overflow_is_caught(core):
    with pytest.raises(
        RunFailed,
        match=r"deep\+0x[0-9a-f]+ writes 4 bytes at 0x2000.*"
        r"before the start of the stack",
    ):
        core.call("deep", 1000, allow=[])
    assert core.call("add", 1, 2).value == 3  # usable after a fault


def test_spans_are_exact_to_the_byte(core):
    arena = core.symbol("arena").address
    allowed = [Span("arena", arena + 8, 32, True), Span("weights", arena, 8, False)]
    core.call("fill", arena + 8, 32, 1, allow=allowed)
    core.call("sum", arena, 40, allow=allowed)
    with pytest.raises(
        RunFailed,
        match=r"^fill\+0x\w+ writes 1 byte at 0x2\w+, "
        r"right after the end of arena\n  instruction: st?r?b ",
    ):
        core.call("fill", arena + 8, 33, 1, allow=allowed)
    with pytest.raises(RunFailed, match=r"sum.* reads 1 byte at .* right after the end of arena"):
        core.call("sum", arena + 8, 33, allow=allowed)
    with pytest.raises(RunFailed, match=r"reads .*, 12 bytes past the end of arena"):
        core.call("sum", arena + 52, 1, allow=allowed)
    with pytest.raises(RunFailed, match=r"writes .* inside weights, which is read-only"):
        core.call("fill", arena + 7, 1, 1, allow=allowed)
    with pytest.raises(RunFailed, match=r"reads .*, 1 byte before the start of weights"):
        core.call("sum", arena - 1, 1, allow=allowed)
    with pytest.raises(RunFailed, match=r"reads .*0x50000000, .* past the end of"):
        core.call("sum", 0x50000000, 1)


def test_wide_access_over_the_end(firmware):
    source = """__attribute__((naked, used)) uint32_t load(const void *p)
    { __asm__("ldr r0, [r0]\\n bx lr"); }"""
    with CoreSimulator(firmware.build(source), "cortex-m4") as core:
        span = core.allocate("input", 24)
        for offset in range(21):
            core.call("load", span.address + offset, allow=[span])
        for over in (1, 2, 3):
            with pytest.raises(RunFailed, match=f"reads 4 bytes at .*, {over} bytes? over the end"):
                core.call("load", span.address + 20 + over, allow=[span])
        with pytest.raises(RunFailed, match=f"{3} bytes before the start of input"):
            core.call("load", span.address - 3, allow=[span])


def test_released_memory_is_gone_and_comes_back_as_zeros(firmware):
    source = """__attribute__((naked, used)) uint32_t load(const void *p)
    { __asm__("ldr r0, [r0]\\n bx lr"); }"""
    with CoreSimulator(firmware.build(source), "cortex-m4") as core:
        span = core.allocate("input", 16)
        core.write(span.address, b"\1\0\0\0")
        assert core.call("load", span.address, allow=[span]).value == 1
        core.release()
        with pytest.raises(RunFailed, match="reads 4 bytes at"):
            core.call("load", span.address)
        again = core.allocate("input", 16)
        assert again.address == span.address
        assert core.call("load", again.address, allow=[again]).value == 0


def test_read_only_memory_cannot_be_written(core):
    with pytest.raises(RunFailed, match=r"fill.* writes 1 byte at .* read-only"):
        core.call("fill", core.symbols["constants"], 1, 0)


def test_constants_need_a_span(core):
    constants = core.symbol("constants")
    assert core.call("sum", constants.address, 8, allow=core.read_only_spans()).value == 36
    assert (
        core.call("sum", constants.address, 8, allow=[core.span("constants", write=False)]).value
        == 36
    )


def test_budget(core):
    with pytest.raises(RunFailed, match="more than 100000 instructions"):
        core.call("forever", budget_instructions=100_000)
    needed = core.call("counted", 50).instructions
    core.call("counted", 50, budget_instructions=needed)
    with pytest.raises(RunFailed, match=f"more than {needed - 1} instructions"):
        core.call("counted", 50, budget_instructions=needed - 1)


def test_counts_file(core, tmp_path):
    result = core.call("counted", 3)
    result.write_counts(tmp_path / "counts")
    lines = [line.split() for line in (tmp_path / "counts").read_text().splitlines()]
    assert sum(int(count) for _, count in lines) == result.instructions
    assert [int(address, 16) for address, _ in lines] == sorted(result.counts)


def test_unknown_core_symbol_and_file(firmware, tmp_path):
    with pytest.raises(RunFailed, match="no core 'cortex-a9'"):
        CoreSimulator(firmware.build(PROGRAM), "cortex-a9")
    with (
        CoreSimulator(firmware.build(PROGRAM), "cortex-m4") as core,
        pytest.raises(RunFailed, match="no symbol 'absent'"),
    ):
        core.call("absent")
    with pytest.raises(RunFailed, match=r"cannot read .*none\.elf"):
        CoreSimulator(tmp_path / "none.elf", "cortex-m4")
    (tmp_path / "text.elf").write_text("no ELF")
    with pytest.raises(RunFailed, match="not a readable ELF"):
        CoreSimulator(tmp_path / "text.elf", "cortex-m4")


def test_unmapped_reads_and_writes_of_the_client(core):
    with pytest.raises(RunFailed, match="refused `read`"):
        core.read(0x50000000, 4)
    with pytest.raises(RunFailed, match="refused `write`"):
        core.write(0x50000000, b"1234")

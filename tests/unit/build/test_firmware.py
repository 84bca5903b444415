"""Firmware of small programs: what is built, what is refused, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.boards.board import Board, load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.check_image import check_image
from edgec.build.elf import read_elf
from edgec.build.firmware import build_firmware
from edgec.build.image import Image, measure
from edgec.errors import BuildFailed, ToolMissing
from edgec.targets.core import find_core

Build = Callable[..., Image]
COMPILERS = ["gcc", "clang"]

HEAD = '#include "ec_port.h"\nint main(void);\n'
WEIGHTS = '__attribute__((section(".ec_weights.w"))) '
ARENA = '__attribute__((section(".ec_arena"), used)) '


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def run(
        text: str,
        *,
        board: Board | str = "mps2_an386",
        compiler: str = "gcc",
        out: Path | None = None,
        optimize: str = "-O2",
        flags: Sequence[str] = (),
    ) -> Image:
        board = load_board(board) if isinstance(board, str) else board
        try:
            toolchain = find_toolchain(board.core, compiler)
        except ToolMissing as error:
            pytest.skip(error.message)
        (tmp_path / "main.c").write_text(HEAD + text)
        return build_firmware(
            tmp_path,
            board,
            sources=[Path("main.c"), *port_sources(board)],
            include_dirs=port_include_dirs(board),
            toolchain=toolchain,
            out=out or tmp_path / "out",
            optimize=optimize,
            flags=flags,
        )

    return run


SIZES = f"""
{WEIGHTS} static const uint8_t weights[5000] = {{1}};
{ARENA} static uint8_t arena[7000];
static const uint8_t other[300] = {{2}};
static volatile uint32_t variable = 5u;
static volatile uint32_t sink;
int main(void) {{
    for (uint32_t i = 0; i < sizeof weights; i++) {{
        arena[i] = (uint8_t)(weights[i] + other[i % sizeof other]);
    }}
    for (;;) {{
        sink += arena[variable++ % sizeof arena];
    }}
}}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_sizes_are_told_apart(build: Build, compiler: str) -> None:
    image = build(SIZES, compiler=compiler)
    assert image.weights_bytes == 5000
    assert image.arena_bytes == 7000
    assert image.code_bytes == image.flash_bytes - 5000
    assert 8 <= image.variables_bytes < 1000
    assert image.stack_bytes is not None
    assert image.ram_bytes == image.arena_bytes + image.variables_bytes + image.stack_bytes
    assert image.stack_reserved_bytes == 16 * 1024
    stored = sum(s.bytes for s in image.sections if s.is_stored)
    assert image.flash_bytes == stored
    assert {s.region for s in image.sections} == {"flash", "sram"}
    main = image.function("main")
    assert main is not None and main.code_bytes > 20


def test_measure_finds_the_frames_beside_the_elf(build: Build) -> None:
    image = build(SIZES)
    assert measure(image.elf, load_board("mps2_an386")) == image


CHAIN = """
__attribute__((noinline)) static uint32_t deep(uint32_t n) {
    volatile uint8_t data[200];
    for (uint32_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)n;
    }
    return data[n % sizeof data];
}
__attribute__((noinline)) static uint32_t middle(uint32_t n) {
    volatile uint8_t data[100];
    data[n % sizeof data] = 1u;
    const uint32_t below = deep(n);
    return below + data[0];
}
int main(void) {
    ec_port_init();
    return (int)middle(3u);
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("board", ["bbc_microbit", "mps2_an386", "mps3_an547", "qemu_cortex_r5"])
def test_stack_is_the_deepest_chain(build: Build, board: str, compiler: str) -> None:
    image = build(CHAIN, board=board, compiler=compiler)
    deep, middle, main = (image.function(n) for n in ("deep", "middle", "main"))
    assert deep is not None and middle is not None and main is not None
    assert deep.frame_bytes is not None and 200 <= deep.frame_bytes <= 240
    assert middle.stack_bytes is not None and middle.frame_bytes is not None
    assert middle.stack_bytes == middle.frame_bytes + deep.frame_bytes
    assert middle.name in main.calls
    # The interrupt that may come at the deepest point adds its hardware frame, or as many words.
    interrupt = 4 * (26 if load_board(board).core.has("fpu") else 8)
    assert image.stack_bytes is not None
    assert image.stack_bytes >= middle.stack_bytes + interrupt
    assert image.stack_bytes <= middle.stack_bytes + interrupt + 100
    assert image.stack_notes == ()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_frames_are_known_without_the_compiler(build: Build, compiler: str) -> None:
    # From the instructions alone, the bound is the same or a little larger.
    image = build(CHAIN, compiler=compiler)
    read = replace(read_elf(image.elf), stack_sizes={})
    bare = measure(read, load_board("mps2_an386"), stack_usage=[])
    for function, known in zip(bare.functions, image.functions, strict=True):
        assert function.frame_bytes is not None and known.frame_bytes is not None
        assert known.frame_bytes <= function.frame_bytes <= known.frame_bytes + 16, function.name


@pytest.mark.parametrize("compiler", COMPILERS)
def test_recursion_has_no_bound(build: Build, compiler: str) -> None:
    image = build(
        """
        __attribute__((noinline)) static uint32_t down(volatile uint32_t *n) {
            *n = *n - 1u;
            return *n == 0u ? 0u : 3u * down(n) + *n;
        }
        int main(void) {
            volatile uint32_t n = 9u;
            return (int)down(&n);
        }
        """,
        compiler=compiler,
        flags=["-fno-optimize-sibling-calls"],
    )
    assert image.stack_bytes is None
    assert any("recursion through down" in note for note in image.stack_notes)
    # Without a bound the reserve counts.
    assert image.ram_bytes == image.variables_bytes + image.stack_reserved_bytes


POINTERS = """
typedef struct { uint32_t number; uint32_t (*call)(uint32_t n); } entry;
__attribute__((noinline)) static uint32_t wide(uint32_t n) {
    volatile uint8_t data[300];
    data[n % sizeof data] = (uint8_t)n;
    return data[0];
}
__attribute__((noinline)) static uint32_t narrow(uint32_t n) {
    return n * 3u;
}
uint32_t never(uint32_t n);
__attribute__((noinline)) uint32_t never(uint32_t n) {
    volatile uint8_t data[5000];
    data[n % sizeof data] = (uint8_t)n;
    return data[0];
}
static uint32_t (*volatile chosen)(uint32_t n) = narrow;
static const entry entries[] = { { 1u, wide }, { 2u, narrow } };
int main(void) {
    volatile uint32_t n = 1u;
    if (n == 5u) {
        chosen = entries[n & 1u].call;
    }
    return (int)(PLACE);
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("board", ["bbc_microbit", "mps2_an386"])
def test_calls_through_pointers_reach_what_is_pointed_at(
    build: Build, board: str, compiler: str
) -> None:
    # `wide` is only in a table and `narrow` in a variable; nobody holds the address of `never`.
    image = build(POINTERS.replace("PLACE", "chosen(n)"), board=board, compiler=compiler)
    assert image.stack_bytes is not None and 300 < image.stack_bytes < 700
    assert image.function("never") is None
    (note,) = image.stack_notes
    assert note.startswith("main may call through a pointer any of: ")
    assert {"wide", "narrow"} <= set(note.split(": ")[1].split(", "))
    # Called directly, `never` counts.
    image = build(POINTERS.replace("PLACE", "chosen(n) + never(n)"), board=board, compiler=compiler)
    assert image.stack_bytes is not None and image.stack_bytes > 5000


@pytest.mark.parametrize("compiler", COMPILERS)
def test_addresses_in_code_are_pointed_at(build: Build, compiler: str) -> None:
    text = """
    __attribute__((noinline)) static uint32_t wide(uint32_t n) {
        volatile uint8_t data[300];
        data[n % sizeof data] = (uint8_t)n;
        return data[0];
    }
    int main(void) {
        uint32_t (*call)(uint32_t n) = wide;
        __asm__ volatile("" : "+r"(call));
        return (int)call(3u);
    }
    """
    for board in ("bbc_microbit", "mps2_an386"):
        image = build(text, board=board, compiler=compiler)
        assert image.stack_bytes is not None and image.stack_bytes > 300


@pytest.mark.parametrize("compiler", COMPILERS)
def test_pointer_to_nothing_known_has_no_bound(build: Build, compiler: str) -> None:
    image = build(
        "int main(void) { ((void (*)(void))0x1001u)(); return 0; }".replace(
            "0x1001u", "(uintptr_t)ec_port_ticks()"
        ),
        compiler=compiler,
        flags=["-Wno-pedantic"],
    )
    assert image.stack_bytes is None
    assert "no function's address is stored" in image.stack_notes[0]


def test_too_much_flash_names_the_biggest(build: Build, tmp_path: Path) -> None:
    text = SIZES.replace("weights[5000]", "weights[300000]").replace("sizeof weights", "5000u")
    with pytest.raises(BuildFailed, match="does not fit bbc_microbit: it exceeds flash by") as e:
        build(text, board="bbc_microbit")
    assert "262144" in e.value.details[0]
    assert e.value.details[1].split() == ["300000", "weights"]
    assert "--optimize size" in e.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("compiler", COMPILERS)
def test_too_much_ram_names_the_biggest(build: Build, compiler: str, tmp_path: Path) -> None:
    text = SIZES.replace("arena[7000]", "arena[20000]")
    with pytest.raises(BuildFailed, match="does not fit bbc_microbit: it exceeds sram by") as e:
        build(text, board="bbc_microbit", compiler=compiler)
    assert e.value.details[1].split() == ["20000", "arena"]
    assert e.value.details[2].split() == ["2048", "(stack)"]
    assert "--optimize ram" in e.value.hint
    # Nothing half-written, and nothing left beside it.
    assert [path.name for path in tmp_path.iterdir()] == ["main.c"]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiler_errors_are_summarised(build: Build, compiler: str) -> None:
    with pytest.raises(BuildFailed, match=r"the C compiler refused main\.c") as caught:
        build("int main(void) { return nothing; }", compiler=compiler)
    assert any("nothing" in line and "error:" in line for line in caught.value.details)
    assert "main.c" in caught.value.hint


@pytest.mark.parametrize("compiler", COMPILERS)
def test_warnings_are_errors(build: Build, compiler: str) -> None:
    with pytest.raises(BuildFailed, match="refused"):
        build("int main(void) { uint8_t x = 300u; return (int)x; }", compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_libc_is_refused(build: Build, compiler: str) -> None:
    # zig's run-time library has expf, so only edgec's own check notices.
    with pytest.raises(BuildFailed, match="nothing in the build defines expf") as caught:
        build(
            "float expf(float x);\nstatic volatile float x = 2.0f;\n"
            "int main(void) { x = expf(x); return 0; }",
            compiler=compiler,
        )
    assert "main" in caught.value.details[0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_memory_functions_are_provided(build: Build, compiler: str) -> None:
    image = build(
        """
        typedef struct { uint8_t bytes[500]; } block;
        static block a, b;
        void *memmove(void *to, const void *from, __SIZE_TYPE__ count);
        int memcmp(const void *left, const void *right, __SIZE_TYPE__ count);
        int main(void) {
            for (;;) {
                __asm__ volatile("" ::: "memory");
                a = b;
                (void)memmove(a.bytes, a.bytes + (ec_port_getc() & 255), 100u);
                if (memcmp(a.bytes, b.bytes, 100u) != 0) {
                    b = (block){ { 0 } };
                }
            }
        }
        """,
        compiler=compiler,
    )
    for name in ("memcpy", "memmove", "memset", "memcmp"):
        function = image.function(name)
        assert function is not None, name
        # The compiler must not turn a loop into a call of the function that it implements; a move
        # that goes forwards is a copy.
        assert function.calls in ((), ("memcpy",) if name == "memmove" else ()), name


@pytest.mark.parametrize("optimize", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("board", ["bbc_microbit", "mps2_an386"])
def test_every_level_builds(build: Build, board: str, compiler: str, optimize: str) -> None:
    image = build(CHAIN, board=board, compiler=compiler, optimize=optimize)
    assert image.stack_bytes is not None
    for function in image.functions:
        assert function.name not in function.calls


def test_unknown_level_is_refused(build: Build) -> None:
    with pytest.raises(BuildFailed, match="'-O0' is not one of"):
        build(CHAIN, optimize="-O0")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_image_is_reproducible(build: Build, compiler: str, tmp_path: Path) -> None:
    first = build(SIZES, compiler=compiler).elf.read_bytes()
    assert build(SIZES, compiler=compiler, out=tmp_path / "out").elf.read_bytes() == first


def test_stack_reserve_can_be_chosen(build: Build) -> None:
    board = replace(load_board("mps2_an386"), stack_bytes=3000)
    assert build(SIZES, board=board).stack_reserved_bytes == 3000


@pytest.mark.parametrize("compiler", COMPILERS)
def test_instructions_the_core_lacks_are_found(build: Build, compiler: str) -> None:
    # The image of an M4 board, checked against boards of lesser cores.
    text = """
    static volatile float f = 1.5f;
    int main(void) {
        uint32_t x = (uint32_t)ec_port_getc();
        __asm__ volatile("uadd8 %0, %0, %0" : "+r"(x));
        f = f * 3.0f;
        return (int)x;
    }
    """
    image = build(text, compiler=compiler)
    board = load_board("mps2_an386")
    check_image(image.elf, board)
    for core, expected in (("cortex-m3", {"dsp", "fpu"}), ("cortex-m4+nofp", {"fpu"})):
        with pytest.raises(BuildFailed) as caught:
            check_image(image.elf, replace(board, core=find_core(core)))
        lines = [line for line in caught.value.details if line.startswith("main uses")]
        assert {line.split("'")[1] for line in lines} == expected
        assert all(core in line for line in lines)


def test_wrong_places_are_found(build: Build) -> None:
    image = build(SIZES)
    board = load_board("mps2_an386")
    moved = {
        name: replace(region, origin=region.origin + 0x10_0000, length=64 * 1024)
        for name, region in board.memory.items()
    }
    with pytest.raises(BuildFailed) as caught:
        check_image(image.elf, replace(board, memory=moved))
    text = "\n".join(caught.value.details)
    assert "the vector table is at 0x00000000, not at 0x00100000" in text
    assert "the initial stack pointer 0x20004000 is not in sram" in text
    assert ".text at" in text and "is in no region of the board" in text


def test_damaged_vectors_are_found(build: Build) -> None:
    image = build(SIZES)
    elf = read_elf(image.elf)
    table = elf.section(".vectors")
    assert table is not None
    damaged = bytearray(table.content)
    damaged[4] &= 0xFE  # the reset handler without its Thumb bit
    damaged[8:12] = (0x2000_0001).to_bytes(4, "little")  # NMI in RAM
    sections = tuple(
        replace(s, content=bytes(damaged)) if s.name == ".vectors" else s for s in elf.sections
    )
    with pytest.raises(BuildFailed) as caught:
        check_image(replace(elf, sections=sections), load_board("mps2_an386"))
    text = "\n".join(caught.value.details)
    assert "is not the reset vector" in text
    assert "vector 1 is" in text
    assert "vector 2 is 0x20000001, not the address of Thumb code" in text


def test_damaged_jumps_are_found(build: Build) -> None:
    board = load_board("qemu_cortex_a7")
    elf = read_elf(build(SIZES, board=board).elf)
    table = elf.section(".vectors")
    assert table is not None
    # The first jump does nothing, and the interrupts' jump leads to an address without code.
    damaged = bytearray(table.content)
    damaged[0:4] = bytes.fromhex("aff30080")  # nop.w
    damaged[24:28] = bytes.fromhex("ff f1 fe b7")  # b.w, 14 MB on
    sections = tuple(
        replace(s, content=bytes(damaged)) if s.name == ".vectors" else s for s in elf.sections
    )
    with pytest.raises(BuildFailed) as caught:
        check_image(replace(elf, sections=sections), board)
    text = "\n".join(caught.value.details)
    assert "0x80400000 does not jump to the entry" in text
    assert "entry 0 of the trap table is not a jump" in text
    assert "entry 6 of the trap table is not a jump to code" in text
    assert "entry 5" not in text


def test_no_elf_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.elf"
    path.write_bytes(b"not an ELF")
    with pytest.raises(BuildFailed, match="cannot read the ELF file"):
        read_elf(path)

"""Check a firmware image before anybody flashes it; knows nothing of how it was built.

1. vector table: at the start of the code region, its stack in RAM, its handlers Thumb code;
2. entry: the reset handler;
3. sections: each whole inside one region of the board, stored bytes inside flash;
4. symbols: none undefined, none of a libc;
5. instructions: none that the core lacks.
"""

from __future__ import annotations

from pathlib import Path

from edgec.build.elf import Elf, read_elf
from edgec.build.thumb import needs
from edgec.errors import BuildFailed
from edgec.target.board import Board

_LIBC_TEXT = (
    "malloc calloc realloc free abort exit atexit assert __assert_func _sbrk _exit _write _read "
    "printf fprintf sprintf snprintf vprintf vsnprintf puts putchar fputs fwrite fopen fclose "
    "strlen strcpy strncpy strcmp strncmp strcat strchr strtol strtod atoi atof qsort bsearch rand "
    "exp exp2 expm1 log log2 log10 log1p pow sqrt cbrt sin cos tan asin acos atan atan2 sinh cosh "
    "tanh erf erfc fabs floor ceil round trunc rint nearbyint lround fmod fmin fmax fma ldexp "
    "expf exp2f expm1f logf log2f log10f log1pf powf sqrtf cbrtf sinf cosf tanf asinf acosf atanf "
    "atan2f sinhf coshf tanhf erff erfcf fabsf floorf ceilf roundf truncf rintf nearbyintf lroundf "
    "frexp fmodf fminf fmaxf fmaf ldexpf frexpf __errno errno "
)
LIBC_NAMES = frozenset(_LIBC_TEXT.split())
"""What a libc or libm would bring, and firmware must not contain."""


def check_image(elf: Path | Elf, board: Board) -> None:
    """Raise BuildFailed listing everything that is wrong with an image for `board`."""
    read = read_elf(elf) if isinstance(elf, Path) else elf
    problems = [
        *_check_vectors(read, board),
        *_check_sections(read, board),
        *_check_symbols(read),
        *_check_instructions(read, board),
    ]
    if problems:
        raise BuildFailed(
            f"{read.path.name} is no good image for {board.name}", details=tuple(problems)
        )


def _check_vectors(elf: Elf, board: Board) -> list[str]:
    table = elf.section(".vectors")
    code = board.memory[board.code]
    if table is None or not table.is_stored:
        return ["there is no vector table (section .vectors)"]
    problems = []
    if table.address != code.origin:
        problems.append(f"the vector table is at 0x{table.address:08x}, not at 0x{code.origin:08x}")
    # DDI 0403E B3.2.5: the table is aligned to its size, rounded up to a power of two.
    if table.address % (1 << (table.length - 1).bit_length()):
        problems.append(f"the vector table at 0x{table.address:08x} is not aligned to its size")
    stack = elf.word(table.address) or 0
    data = board.memory[board.data]
    if not (data.origin < stack <= data.end) or stack % 8:
        problems.append(f"the initial stack pointer 0x{stack:08x} is not in {data.name}")
    reset = elf.word(table.address + 4) or 0
    if reset != elf.entry:
        problems.append(f"the entry 0x{elf.entry:08x} is not the reset vector 0x{reset:08x}")
    text = [s for s in elf.sections if s.is_code]
    for number in range(1, table.length // 4):
        handler = elf.word(table.address + 4 * number) or 0
        if handler == 0 and number > 3:
            continue  # reserved, or an interrupt that is never enabled
        if not handler & 1 or not any(s.holds(handler & ~1) for s in text):
            problems.append(f"vector {number} is 0x{handler:08x}, not the address of Thumb code")
    return problems


def _check_sections(elf: Elf, board: Board) -> list[str]:
    problems = []
    for section in elf.sections:
        region = board.region_at(section.address, section.length)
        if region is None:
            problems.append(
                f"{section.name} at 0x{section.address:08x} ({section.length} bytes) "
                "is in no region of the board"
            )
            continue
        if section.is_stored:
            home = board.region_at(section.load_address, section.length)
            if home is None or home.kind == "ram":
                problems.append(
                    f"the contents of {section.name} are to be at 0x{section.load_address:08x}, "
                    "which is not flash"
                )
        elif region.kind != "ram":
            problems.append(f"{section.name} is in {region.name}, which is not RAM")
    return problems


def _check_symbols(elf: Elf) -> list[str]:
    problems = [f"{name} is not defined" for name in elf.undefined]
    names = {s.name.rsplit(".", 1)[-1]: s.name for s in elf.symbols if s.kind == "STT_FUNC"}
    problems += [f"{names[n]} is a libc function" for n in sorted(LIBC_NAMES & set(names))]
    return problems


def _check_instructions(elf: Elf, board: Board) -> list[str]:
    functions = elf.functions()
    if not functions:
        return ["there are no function symbols: was the image stripped?"]
    problems = []
    for function in functions:
        lacking: dict[str, int] = {}
        for instruction in elf.instructions(function):
            feature = needs(instruction)
            if feature and not board.core.has(feature):
                lacking.setdefault(feature, instruction.address)
        problems += [
            f"{function.name} uses '{feature}' at 0x{address:08x}, which {board.core.name} lacks"
            for feature, address in lacking.items()
        ]
    return problems

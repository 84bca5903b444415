"""Check a firmware image before anybody flashes it; knows nothing of how it was built.

1. start: vector table, or boot header and trap table, where the core looks for them (`vectors.py`);
2. entry: the reset handler;
3. sections: each whole inside one region of the board, stored bytes inside flash;
4. symbols: none undefined, none of a libc;
5. instructions: none that the core lacks.
"""

from __future__ import annotations

from pathlib import Path

from edgec.boards.board import Board
from edgec.build.elf import Elf, read_elf
from edgec.build.vectors import check_vectors
from edgec.errors import BuildFailed

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
        *check_vectors(read, board),
        *_check_sections(read, board),
        *_check_symbols(read),
        *_check_instructions(read, board),
    ]
    if problems:
        raise BuildFailed(
            f"{read.path.name} is not a valid image for {board.name}", details=tuple(problems)
        )


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
    names = {s.name.rsplit(".", 1)[-1]: s.name for s in elf.symbols if s.is_function}
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
            feature = elf.instruction_set.needs(instruction)
            if feature and not board.core.has(feature):
                lacking.setdefault(feature, instruction.address)
        problems += [
            f"{function.name} uses '{feature}' at 0x{address:08x}, which {board.core.name} lacks"
            for feature, address in lacking.items()
        ]
    return problems

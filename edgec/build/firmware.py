"""Build firmware for a board: compile, link, check, measure.

1. every source is compiled with the warnings and flags of `target/toolchain.py`;
2. names that no object defines must be the compiler's own (`__aeabi_*`, ...) or come from the
   linker script: firmware has no libc;
3. the objects are linked by the board's linker script;
4. the image is checked (`check_image.py`) and measured (`image.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from edgec.boards.board import Board
from edgec.boards.board_files import board_header, linker_script
from edgec.boards.toolchain import WARNING_FLAGS, Toolchain
from edgec.build.check_image import check_image
from edgec.build.diagnose import explain_compiler, explain_linker, undefined_names
from edgec.build.image import Image, measure
from edgec.build.staging import staged_folder
from edgec.errors import BuildFailed

OPTIMIZE_FLAGS = ("-O1", "-O2", "-O3", "-Os")
"""The optimization levels that firmware is built and tested with."""

ELF_NAME = "firmware.elf"
"""The image's name in the folder that `build_firmware` writes."""

# Names that start with two underscores belong to the compiler and to the linker script.
_RESERVED = re.compile(r"^__")


def compile_sources(
    toolchain: Toolchain,
    sources: Sequence[Path],
    folder: Path,
    *,
    flags: Sequence[str],
    include_dirs: Sequence[Path],
    defines: Sequence[str] = (),
) -> list[Path]:
    """Compile each C file to an object file in `folder` and return these, in order.

    Raises BuildFailed for the first file that does not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Numbered, since two folders may hold files of one name.
    jobs = [
        (Path(source).absolute(), folder / f"{index:02d}_{Path(source).stem}.o")
        for index, source in enumerate(sources)
    ]

    def compile_one(job: tuple[Path, Path]) -> tuple[int, str]:
        source, target = job
        done = toolchain.run(
            toolchain.compile_command(
                source,
                target,
                flags=flags,
                include_dirs=[Path(d).absolute() for d in include_dirs],
                defines=defines,
            ),
            folder,
        )
        return done.returncode, done.stdout + done.stderr

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for (source, _), (status, output) in zip(jobs, pool.map(compile_one, jobs), strict=True):
            if status != 0:
                raise explain_compiler(source, output)
    return [target for _, target in jobs]


def _check_names(objects: list[Path]) -> None:
    foreign = {n: f for n, f in undefined_names(objects).items() if not _RESERVED.match(n)}
    if foreign:
        raise BuildFailed(
            f"nothing in the build defines {', '.join(sorted(foreign))}",
            details=tuple(f"{name} is used by {file}" for name, file in sorted(foreign.items())),
            hint="firmware has no libc: only memcpy, memmove, memset and memcmp are there",
        )


def build_firmware(
    project: Path,
    board: Board,
    *,
    sources: Sequence[Path],
    include_dirs: Sequence[Path] = (),
    optimize: str = "-O2",
    flags: Sequence[str] = (),
    toolchain: Toolchain,
    out: Path,
) -> Image:
    """Build the C files `sources` for `board` into the folder `out` and return its sizes.

    `sources` and `include_dirs` are taken from the folder `project` when relative; `flags` follow
    the warnings. Port sources are not added: `boards.board_files.port_sources` names them. A
    `link.ld` in `project` is used in place of the generated one. `out` is written whole
    (`firmware.elf`, gcc's `firmware.map`, `link.ld`, `ec_board.h`, `objects/`) or not at all.

    Raises BuildFailed if something does not compile, link, fit or pass the check of the image.
    """
    if optimize not in OPTIMIZE_FLAGS:
        raise BuildFailed(f"'{optimize}' is not one of {', '.join(OPTIMIZE_FLAGS)}")
    project = Path(project).absolute()
    out = Path(out).absolute()
    with staged_folder(out) as folder:
        (folder / "ec_board.h").write_text(board_header(board), "utf-8", newline="\n")
        own = project / "link.ld"
        script = own.read_text("utf-8") if own.is_file() else linker_script(board)
        (folder / "link.ld").write_text(script, "utf-8", newline="\n")
        objects = compile_sources(
            toolchain,
            [project / source for source in sources],
            folder / "objects",
            flags=[optimize, *WARNING_FLAGS, *flags],
            include_dirs=[*(project / d for d in include_dirs), folder],
        )
        _check_names(objects)
        elf = folder / ELF_NAME
        # zig has no map file, and strips all symbols at -Os unless debug data is asked for.
        extra = ["-g"] if toolchain.is_zig else ["-Xlinker", f"-Map={folder / 'firmware.map'}"]
        link_flags = [optimize, *extra]
        done = toolchain.run(
            toolchain.link_command(objects, folder / "link.ld", elf, flags=link_flags), folder
        )
        if done.returncode != 0 or not elf.is_file():
            raise explain_linker(done.stdout + done.stderr, board, objects)
        check_image(elf, board)
        image = measure(elf, board)
    return replace(image, elf=out / ELF_NAME)

"""From a compiled model to something that runs: a project folder and its image or library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgec.build.firmware import ELF_NAME, build_firmware
from edgec.build.host import build_host_library, library_name
from edgec.build.image import Image, measure
from edgec.codegen.manifest import MANIFEST_NAME, Manifest
from edgec.codegen.project import staged_folder, write_project
from edgec.errors import BudgetExceeded, BuildFailed
from edgec.options import Options
from edgec.pipeline import Compiled
from edgec.resources import resource_dir
from edgec.target.board import Board, load_board
from edgec.target.toolchain import find_toolchain

BUILD_DIR = "build"
TRACE_DIR = "build_trace"
TRACE_DEFINE = "EC_TRACE_HOOK"


@dataclass(frozen=True)
class Built:
    """A project on disk. `artefact` is the ELF or the host's shared library (None where only C
    was emitted), `traced` the same with the EC_TRACE hook (None unless it was asked for);
    `image` measures an ELF."""

    project: Path
    manifest: Manifest
    board: Board | None
    artefact: Path | None
    traced: Path | None
    image: Image | None


#: Adds files of its own to a project that has been built but has not yet got its name.
Finish = Callable[[Compiled, Built], None]


def deploy(
    compiled: Compiled,
    board: Board,
    out: Path,
    *,
    traced: bool = False,
    finish: Finish | None = None,
) -> Built:
    """Write the project into `out` and build it for `board`, whole or not at all.

    traced: also build the variant in which every value can be seen. Raises BuildFailed when C
    does not compile or the image does not fit, BudgetExceeded when it breaks a given limit.
    """
    options = compiled.options
    with staged_folder(out) as folder:
        manifest = write_project(compiled.program, folder, board)
        artefact, image = _build(folder, manifest, board, options, folder / BUILD_DIR, ())
        with_trace = None
        if traced:
            with_trace, _ = _build(
                folder, manifest, board, options, folder / TRACE_DIR, (TRACE_DEFINE,)
            )
        if image is not None:
            check_budgets(compiled, image)
        if finish is not None:
            finish(compiled, Built(folder, manifest, board, artefact, with_trace, image))
    out = out.absolute()

    def moved(path: Path) -> Path:
        return out / path.relative_to(folder)

    return Built(
        project=out,
        manifest=manifest,
        board=board,
        artefact=moved(artefact),
        traced=None if with_trace is None else moved(with_trace),
        image=image,
    )


def deploy_library(compiled: Compiled, out: Path, *, finish: Finish | None = None) -> Built:
    """Write the C library alone into `out`, for a build system of the user's own."""
    with staged_folder(out) as folder:
        manifest = write_project(compiled.program, folder, None)
        if finish is not None:
            finish(compiled, Built(folder, manifest, None, None, None, None))
    return Built(out.absolute(), manifest, None, None, None, None)


def open_project(folder: Path, board: str | None, *, traced: bool = False) -> Built:
    """A project that `edgec build` wrote. Raises BuildFailed if it is not one or is not built."""
    path = folder / MANIFEST_NAME
    if not path.is_file():
        raise BuildFailed(
            f"{folder} is no edgec project: it has no {MANIFEST_NAME}",
            hint="give a model file, or a folder that `edgec build` made",
        )
    manifest = Manifest.from_json(path.read_text(encoding="utf-8"))
    name = board or manifest.board
    if not name:
        raise BuildFailed(f"{folder} is a library for {manifest.target}, not a board's program")
    chosen = load_board(name)
    if chosen.name != manifest.board:
        raise BuildFailed(f"{folder} was built for {manifest.board}, not for {chosen.name}")
    stem = library_name(manifest.model) if not chosen.core.is_embedded else ELF_NAME
    artefact, with_trace = folder / BUILD_DIR / stem, folder / TRACE_DIR / stem
    if not artefact.is_file() or (traced and not with_trace.is_file()):
        missing = with_trace if artefact.is_file() else artefact
        raise BuildFailed(
            f"{missing} does not exist",
            hint="build again with `edgec build`, for a profile with --trace",
        )
    return Built(
        project=folder.absolute(),
        manifest=manifest,
        board=chosen,
        artefact=artefact.absolute(),
        traced=with_trace.absolute() if with_trace.is_file() else None,
        image=measure(artefact, chosen) if chosen.core.is_embedded else None,
    )


def _build(
    folder: Path,
    manifest: Manifest,
    board: Board,
    options: Options,
    out: Path,
    defines: tuple[str, ...],
) -> tuple[Path, Image | None]:
    toolchain = find_toolchain(board.core, options.compiler)
    sources = sorted(path.relative_to(folder) for path in folder.glob("*.c"))
    if not board.core.is_embedded:
        out.mkdir()
        files = [folder / source for source in sources]
        if TRACE_DEFINE in defines:
            files.append(resource_dir("runtime_c") / "host" / "ec_trace_callback.c")
        library = build_host_library(
            files,
            out / library_name(manifest.model),
            toolchain=toolchain,
            include_dirs=[folder, resource_dir("runtime_c") / "link"],
            defines=defines,
            optimize=options.c_optimize,
        )
        return library, None
    sources += sorted(path.relative_to(folder) for path in folder.glob("*/*.c"))
    image = build_firmware(
        folder,
        board,
        sources=sources,
        include_dirs=[Path("."), Path("port"), Path("link")],
        defines=defines,
        optimize=options.c_optimize,
        toolchain=toolchain,
        out=out,
    )
    return image.elf, image


def check_budgets(compiled: Compiled, image: Image) -> None:
    """Raise BudgetExceeded, exit status 3, naming every limit of the options that is broken."""
    options = compiled.options
    limits = (
        ("RAM", image.ram_bytes, options.max_ram_bytes),
        ("flash", image.flash_bytes, options.max_flash_bytes),
        ("stack", image.stack_bytes, options.max_stack_bytes),
    )
    broken = [
        f"{what}: {used:,} bytes used, {limit:,} allowed"
        for what, used, limit in limits
        if limit is not None and used is not None and used > limit
    ]
    if broken:
        region = compiled.plan.certificate.region("arena")
        live = ", ".join(f"{name} {size:,}" for name, size in region.live_at_peak)
        raise BudgetExceeded(
            f"{compiled.imported.source} is over its budget",
            details=(*broken, f"live together at the arena's peak: {live}"),
            hint="raise the limit, or try --optimize ram or --optimize size",
        )

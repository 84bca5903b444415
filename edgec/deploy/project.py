"""From a compiled model to something that runs: a project folder and its image or library."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.boards.board import Board, load_board
from edgec.boards.toolchain import FREE_SUMS, Toolchain, find_toolchain
from edgec.build.firmware import ELF_NAME, build_firmware
from edgec.build.host import build_host_library, library_name
from edgec.build.image import Image, measure
from edgec.build.nvrtc import compile_kernels
from edgec.build.staging import staged_folder
from edgec.build.tensorrt import SOURCE, build_tensorrt
from edgec.codegen.manifest import Manifest
from edgec.codegen.placement import place_hot_code
from edgec.codegen.program import Program
from edgec.codegen.project import HARNESS_DIRS, write_project
from edgec.errors import BudgetExceeded, BuildFailed, DoesNotFit
from edgec.options import Figures, Options
from edgec.pipeline import Compiled
from edgec.resources import resource_dir
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES, Core

BUILD_DIR = "build"
ROUNDING_BYTES = 16  # more than alignment can add to a function or a section
TRACE_DIR = "build_trace"
TRACE_DEFINE = "EC_TRACE_HOOK"


@dataclass(frozen=True)
class Built:
    """A project on disk. `artefact` is the ELF or the host's shared library (None where only C
    was emitted), `traced` the same with the EC_TRACE hook (None unless it was asked for);
    `image` measures an ELF; `figures` were compared with the limits (None of an opened project)."""

    project: Path
    manifest: Manifest
    board: Board | None
    artefact: Path | None
    traced: Path | None
    image: Image | None
    figures: Figures | None = None

    def moved(self, folder: Path) -> Built:
        """The build after its project's folder was renamed."""

        def there(path: Path | None) -> Path | None:
            return None if path is None else folder / path.relative_to(self.project)

        return replace(
            self, project=folder, artefact=there(self.artefact), traced=there(self.traced)
        )


class OverBudget(BudgetExceeded):
    """A build that exceeds a limit, with its compiled model and its figures."""

    def __init__(self, compiled: Compiled, figures: Figures, details: tuple[str, ...]) -> None:
        super().__init__(
            f"{compiled.imported.source} is over its budget",
            details=details,
            hint="raise the limit, or try --optimize ram or --optimize size",
        )
        self.over = figures.over(compiled.options.limits)
        self.compiled, self.figures = compiled, figures


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
    does not compile, DoesNotFit when the image is larger than the board's memory, BudgetExceeded
    when it breaks a given limit.
    """
    with staged_folder(out) as folder:
        try:
            staged = _staged(compiled, board, folder, traced)
        except DoesNotFit as error:
            details = (*error.details, *_live_at_peak(compiled))
            explained = DoesNotFit(error.message, details=details, hint=error.hint)
            explained.over = error.over
            raise explained from None
        figures = check_budgets(compiled, staged)
        if finish is not None:
            finish(compiled, staged)
    return replace(staged.moved(out.absolute()), figures=figures)


def _staged(compiled: Compiled, board: Board, folder: Path, traced: bool) -> Built:
    """The project in a folder that has not yet got its name."""
    options = compiled.options
    harness = options.harness, options.main, options.link_key
    manifest = write_project(compiled.program, folder, board, *harness, compile_kernels)
    artefact, image = _build(folder, manifest, board, options, folder / BUILD_DIR, ())
    hot = _with_hot_code(compiled, image)
    if hot is not None:
        shutil.rmtree(folder / BUILD_DIR)
        manifest = write_project(hot, folder, board, *harness)
        artefact, image = _build(folder, manifest, board, options, folder / BUILD_DIR, ())
    with_trace = None
    if traced:
        traced_dir, defines = folder / TRACE_DIR, (TRACE_DEFINE,)
        with_trace, _ = _build(folder, manifest, board, options, traced_dir, defines)
    return Built(folder, manifest, board, artefact, with_trace, image)


def deploy_library(compiled: Compiled, out: Path, *, finish: Finish | None = None) -> Built:
    """Write the C library alone into `out`, for a build system of the user's own.

    Raises BudgetExceeded when arena, state or weights break a given limit by themselves.
    """
    with staged_folder(out) as folder:
        manifest = write_project(compiled.program, folder, None, compile_kernels=compile_kernels)
        staged = Built(folder, manifest, None, None, None, None)
        figures = check_budgets(compiled, staged)
        if finish is not None:
            finish(compiled, staged)
    return Built(out.absolute(), manifest, None, None, None, None, figures)


def open_project(folder: Path, board: str | None, *, traced: bool = False) -> Built:
    """A project that `edgec build` wrote. Raises BuildFailed if it is not one or is not built."""
    manifest = Manifest.load(folder)
    if not manifest.board:
        raise BuildFailed(
            f"{folder} is a library for {manifest.target}, not a board's program",
            hint="build it with --board to run it",
        )
    chosen = load_board(board or manifest.board)
    if chosen.name != manifest.board:
        raise BuildFailed(f"{folder} was built for {manifest.board}, not for {chosen.name}")
    stem = library_name(manifest.model) if not chosen.core.is_embedded else ELF_NAME
    artefact, with_trace = folder / BUILD_DIR / stem, folder / TRACE_DIR / stem
    if not artefact.is_file() or (traced and not with_trace.is_file()):
        missing = with_trace if artefact.is_file() else artefact
        raise BuildFailed(
            f"{missing} does not exist",
            hint="run `edgec build` again; a profile needs a build with --trace",
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
    toolchain = find_toolchain(_core_of(manifest, board), options.compiler)
    sources = sorted(path.relative_to(folder) for path in folder.glob("*.[cS]"))
    if not board.core.is_embedded:
        return host_library(folder, manifest, toolchain, options, out, defines=defines), None
    sources += sorted(path.relative_to(folder) for path in folder.glob("*/*.c"))
    image = build_firmware(
        folder,
        board,
        sources=sources,
        include_dirs=[Path("."), Path("port"), Path(HARNESS_DIRS[options.harness])],
        flags=[f"-D{define}" for define in defines],
        optimize=options.c_optimize or "-O2",
        toolchain=toolchain,
        out=out,
    )
    return image.elf, image


def _core_of(manifest: Manifest, board: Board) -> Core:
    """The core for which a board's C is compiled: with a GPU, possibly the processor beside it."""
    name = manifest.processor or manifest.target
    return CORES[name] if board.core.has_gpu else board.core


def host_library(
    folder: Path,
    manifest: Manifest,
    toolchain: Toolchain,
    options: Options,
    out: Path,
    *,
    defines: tuple[str, ...] = (),
) -> Path:
    """The shared library of a project's C files, in the new folder `out`."""
    out.mkdir()
    files = sorted(folder.glob("*.[cS]"))
    if TRACE_DEFINE in defines:
        files.append(resource_dir("runtime_c") / "host" / "ec_trace_callback.c")
    has_tensorrt = SOURCE in manifest.files
    if has_tensorrt:
        build_tensorrt(folder / SOURCE, out, toolchain)
    return build_host_library(
        files,
        out / library_name(manifest.model),
        toolchain=toolchain,
        include_dirs=[folder, resource_dir("runtime_c") / "link"],
        defines=defines,
        optimize=options.c_optimize or "-O3",
        flags=FREE_SUMS if options.float_sums == "free" else (),
        openmp=options.threads > 1,
        libraries=manifest.libraries,
        link_flags=("-Wl,-rpath,$ORIGIN",) if has_tensorrt else (),
    )


def _with_hot_code(compiled: Compiled, image: Image | None) -> Program | None:
    """If only time counts, the program with hot code in faster RAM, None if there is none.

    Only an image has the sizes of functions and the free space.
    """
    if not compiled.options.prices.is_fast or image is None or compiled.regions is None:
        return None
    taken: dict[str, int] = defaultdict(int)
    for section in image.sections:
        taken[section.region] += section.bytes + ROUNDING_BYTES
    # Code that moves out of the usual region frees no space there: its addresses are not reused.
    regions = replace(compiled.regions, reserved={**taken, compiled.regions.board.code: 0})
    sizes: dict[str, int] = defaultdict(int)
    for function in image.functions:
        name = function.name.split(".")[0]  # a compiler's clone counts as its original
        sizes[name] += function.code_bytes + ROUNDING_BYTES
    return place_hot_code(compiled.program, regions, sizes)


def figures_of(built: Built, *, measured: bool) -> Figures:
    """The figures of a build; with `measured` one inference runs on the simulated core."""
    manifest, image = built.manifest, built.image
    instructions = None
    if measured and image is not None:
        types = [(port.shape, port.dtype) for port in manifest.inputs]
        with open_session("core", built) as session:
            instructions = session.run(generate_inputs(1, types)).instructions
    if image is None:
        ram = manifest.activation_bytes + manifest.state_bytes
        return Figures(ram, manifest.weights_bytes, None, instructions)
    stack = image.stack_bytes
    if stack is None:  # no bound is known, so only the reserve can be promised
        stack = image.stack_reserved_bytes
    return Figures(image.ram_bytes, image.flash_bytes, stack, instructions)


def check_budgets(compiled: Compiled, built: Built) -> Figures:
    """The figures of a build. Raises OverBudget naming every exceeded limit."""
    limits = compiled.options.limits
    figures = figures_of(built, measured=limits.instructions is not None)
    over = figures.over(limits)
    if not over:
        return figures
    units = {"instructions": ""}
    broken = [
        f"{what}: {figures.of(what):,}{units.get(what, ' bytes')} used, {limits.of(what):,} allowed"
        for what in over
    ]
    raise OverBudget(compiled, figures, (*broken, *_live_at_peak(compiled)))


def _live_at_peak(compiled: Compiled) -> tuple[str, ...]:
    """Lines that name the buffers which are live together where the arena is fullest."""
    certificate = compiled.plan.certificate
    arena = next((r for r in certificate.regions if r.region == "arena"), None)
    if arena is None or not arena.live_at_peak:
        return ()
    steps = compiled.program.steps
    at = f", {steps[arena.peak_step].title}" if arena.peak_step < len(steps) else ""
    lines = [f"live together at the arena's peak of {arena.peak_bytes:,} bytes{at}:"]
    lines += [f"  {size:>9,} {name}" for name, size in arena.live_at_peak]
    return tuple(lines)

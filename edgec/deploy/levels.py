"""One library for several levels of an instruction set, which takes the best when it starts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgec.boards.board import Board
from edgec.boards.toolchain import find_toolchain
from edgec.build.staging import staged_folder
from edgec.codegen.levels import level_name, write_levels
from edgec.codegen.manifest import Manifest
from edgec.codegen.names import checked_model_name, model_identifier
from edgec.deploy.project import BUILD_DIR, Built, Finish, check_budgets, host_library
from edgec.errors import BoardError
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.targets.core import Core, find_core, host_core


def find_levels(names: str) -> tuple[Core, ...]:
    """The cores of "x86-64-v3,x86-64-v4", the best first. Raises BoardError unless each has all
    that the next one has."""
    cores = {find_core(name.strip()) for name in names.split(",")}
    best_first = tuple(sorted(cores, key=lambda core: -len(core.features)))
    for better, core in itertools.pairwise(best_first):
        if core.is_embedded or better.isa != core.isa or not core.features <= better.features:
            raise BoardError(
                f"{better.name} and {core.name} are not levels of one instruction set",
                hint="give cores of one computer, such as --target x86-64-v3,x86-64-v4+vnni",
            )
    return best_first


def build_levels(
    module: Module,
    cores: Sequence[Core],
    board: Board | None,
    options: Options,
    out: Path,
    *,
    finish: Finish | None = None,
) -> tuple[Compiled, Built]:
    """Compile for each of `cores`, the best first, and write one library with all of them.

    Returns the compiled model of the best one. board: this computer, which builds the library for
    itself too. Raises the errors of `compile_module` and `deploy`.
    """
    model = checked_model_name(options.model_name or model_identifier(module.source))
    compiled: list[Compiled] = []
    for core in cores:
        named = replace(options, model_name=level_name(model, core))
        compiled.append(compile_module(module, core, named, board=board))
        options = replace(options, float_sums=compiled[0].options.float_sums)
    best = replace(compiled[0], program=replace(compiled[0].program, model=model))
    with staged_folder(out) as folder:
        manifest = write_levels(model, [each.program for each in compiled], cores, folder)
        artefact = None if board is None else _library(folder, manifest, cores, options)
        staged = Built(folder, manifest, board, artefact, traced=None, image=None)
        figures = check_budgets(best, staged)
        if finish is not None:
            finish(best, staged)
    return best, replace(staged.moved(out.absolute()), figures=figures)


def _library(folder: Path, manifest: Manifest, cores: Sequence[Core], options: Options) -> Path:
    """The shared library, each level's file compiled for its core."""
    files = tuple((f"{level_name(manifest.model, core)}.c", core) for core in cores)
    toolchain = replace(find_toolchain(host_core(), options.compiler), file_cores=files)
    return host_library(folder, manifest, toolchain, options, folder / BUILD_DIR)

"""One library with a program for each of several levels of an instruction set.

    <model>.h  <model>.c                                           what the application calls
    <model>_x86_64_v3.h  .c  _runtime.h  _weights.h  _weights.c    the same for each level
    CMakeLists.txt  manifest.json

Each level is a model of its own, compiled with its level's flags. `<model>.c` is compiled for the
oldest processor of the kind: its `init` takes the best level whose own `init` accepts the
processor, and all other functions call that level, which the context remembers by its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgec.codegen.manifest import MANIFEST_NAME, Manifest, describe
from edgec.codegen.model_text import EmittedModel, ModelText, make_text
from edgec.codegen.names import identifier
from edgec.codegen.program import Program
from edgec.codegen.project import render, write_files, write_model
from edgec.targets.core import Core


def level_name(model: str, core: Core) -> str:
    """The name of the model for one level, such as "kws_x86_64_v3"."""
    return f"{model}_{identifier(core.name)}"


def has_levels(manifest: Manifest) -> bool:
    """Whether a project is one library for several levels."""
    return "," in manifest.target


def write_levels(
    model: str, programs: Sequence[Program], cores: Sequence[Core], folder: Path
) -> Manifest:
    """Write the files of `model` into `folder`, which must exist, and return the manifest.

    programs: one for each of `cores`, called as `level_name` says; the best comes first, and the
    manifest has its steps. Raises ContractError for a program that breaks its contract.
    """
    for program in programs:
        program.check()
    emitted = [make_text(program) for program in programs]
    front = _front(model, programs, cores, emitted)
    levels = [replace(each.text, front=model) for each in emitted]
    written = [write_model(folder, level) for level in levels]
    files = {
        f"{model}.h": render("model.h.j2", m=front),
        f"{model}.c": render("levels.c.j2", m=front, levels=levels),
        "CMakeLists.txt": render("CMakeLists.txt.j2", m=front, levels=levels, firmware=None),
    }
    names = {name for each, _ in written for name in each}
    best = replace(programs[0], model=model, target=front.made_for)
    manifest = describe(
        best, emitted[0].step_functions, tuple(sorted({*names, *files, MANIFEST_NAME})),
        emitted[0].weights, emitted[0].callees, build_hash=written[0][1],
    )  # fmt: skip
    manifest = replace(manifest, arena_bytes=front.arena_bytes, weights_bytes=front.weights_bytes)
    files[MANIFEST_NAME] = manifest.to_json()
    write_files(folder, files)
    return manifest


def _front(
    model: str, programs: Sequence[Program], cores: Sequence[Core], emitted: Sequence[EmittedModel]
) -> ModelText:
    """The application's interface: the best level's, with memory for every level."""
    best = emitted[0].text
    return replace(
        best,
        model=model,
        upper=model.upper(),
        made_for=",".join(core.name for core in cores),
        hash=f"0x{replace(programs[0], model=model).schema_hash:08X}u",
        arena_bytes=max(each.text.arena_bytes for each in emitted),
        arena_lower_bound=0,
        weights_bytes=sum(each.text.weights_bytes for each in emitted),
        inputs=tuple(replace(port, location=_place(port.location)) for port in best.inputs),
        outputs=tuple(replace(port, location=_place(port.location)) for port in best.outputs),
        notes=_notes([each.text.notes for each in emitted]),
    )


def _place(location: str) -> str:
    """Text for the location of a port, which differs by level if it is in the arena."""
    return "at a place of each level in the arena" if location.startswith("arena") else location


def _notes(notes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Lifetimes of values, if they are the same at every level."""
    if all(each == notes[0] for each in notes):
        return notes[0]
    return (
        "run may destroy each input: write it again before each run.",
        "each output lives until the next run, or until an input is written.",
    )

"""Many models in one image for a Cortex-M4, each run on the simulated core.

An image has no link: the simulator calls the models' functions, and gives each model memory of its
own. So the linker, the check of the image and the simulator start once for a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sanitized import same

from edgec.boards.board import Board, load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.firmware import build_firmware
from edgec.codegen.manifest import Manifest
from edgec.codegen.project import write_project
from edgec.graph.interpret import Interpretation, in_use
from edgec.graph.types import Array
from edgec.pipeline import Compiled
from edgec.sim.core import CallResult, CoreSimulator, Span

BOARD = "mps2_an386"
#: Room for a whole batch; `is_too_large` compares each model with the board's own.
ROOM_BYTES = 64 << 20

MAIN = """
#include <stdint.h>
{includes}
static void (*const kept[])(void) = {{ {kept} }};
int main(void);
int main(void) {{
    for (uint32_t i = 0; i < sizeof kept / sizeof kept[0]; ++i) {{
        kept[i]();
    }}
    return 0;
}}
"""
FUNCTIONS = ("init", "selftest", "run", "input", "output")


@dataclass(frozen=True)
class Case:
    """A compiled model whose C name no other of its batch has, and one set of its inputs."""

    name: str
    compiled: Compiled
    inputs: Sequence[Array]


def is_too_large(compiled: Compiled) -> bool:
    """Whether a model's data alone are more than the board has room for."""
    board, program = load_board(BOARD), compiled.program
    weights = sum(array.nbytes for array in program.constants.values())
    ram = program.activation_bytes + program.state_bytes
    return weights > board.flash_bytes or ram + board.stack_bytes > board.ram_bytes


def differences(cases: Sequence[Case], folder: Path) -> dict[str, str]:
    """By case, how its answers on the M4 differ from the interpreter's; equal ones are left out."""
    elf, manifests = _build(cases, folder)
    found = {}
    with CoreSimulator(elf, "cortex-m4") as core:
        for case, manifest in zip(cases, manifests, strict=True):
            why = _difference(core, case, manifest)
            core.release()
            if why:
                found[case.name] = why
    return found


def _build(cases: Sequence[Case], folder: Path) -> tuple[Path, list[Manifest]]:
    """The image of all cases, and the manifest of each."""
    board = _roomy(load_board(BOARD))
    manifests, sources = [], [folder / "main.c"]
    for case in cases:
        project = folder / case.compiled.program.model
        project.mkdir()
        manifests.append(write_project(case.compiled.program, project))
        sources += [project / name for name in manifests[-1].sources]
    sources[0].write_text(_main_text(manifest.model for manifest in manifests))
    image = build_firmware(
        folder, board,
        sources=[*sources, *port_sources(board)],
        include_dirs=[*(source.parent for source in sources), *port_include_dirs(board)],
        toolchain=find_toolchain(board.core, "gcc"), out=folder / "out",
    )  # fmt: skip
    return image.elf, manifests


def _roomy(board: Board) -> Board:
    """The board with larger memories."""
    memory = {
        name: replace(board.memory[name], length=ROOM_BYTES) for name in (board.code, board.data)
    }
    return replace(board, memory=memory)


def _main_text(models: Iterable[str]) -> str:
    """A program that keeps the linker from dropping the models' functions."""
    names = list(models)
    return MAIN.format(
        includes="\n".join(f'#include "{name}.h"' for name in names),
        kept=", ".join(f"(void (*)(void)){name}_{kind}" for name in names for kind in FUNCTIONS),
    )


def _difference(core: CoreSimulator, case: Case, manifest: Manifest) -> str:
    """How a case's answers differ from the interpreter's; "" if they do not."""
    model = _Model(core, manifest)
    if model.call("init", model.memory.address).value or model.call("selftest").value:
        return "init or the self-test fails"
    for index, array in enumerate(case.inputs):
        core.write(model.call("input", index).value, np.ascontiguousarray(array).tobytes())
    if model.call("run", 0, 0).value:
        return "the run fails"
    outputs = []
    for index, port in enumerate(manifest.outputs):
        raw = core.read(model.call("output", index).value, port.bytes)
        outputs.append(np.frombuffer(raw, np.dtype(port.dtype)).reshape(port.shape))
    with np.errstate(all="ignore"):
        wanted = Interpretation(case.compiled.module.main).run(case.inputs)
    found = in_use(outputs, case.compiled.program.counts)
    equal = [same(a, b) for a, b in zip(found, wanted, strict=True)]
    return "" if all(equal) else f"other bits in outputs {equal}"


class _Model:
    """A model in an image, with memory that is exactly as large as it asks for."""

    def __init__(self, core: CoreSimulator, manifest: Manifest) -> None:
        self._core, self._name = core, manifest.model
        words = 2 + bool(manifest.state_bytes) + len(manifest.counts) + len(manifest.sizes)
        self._context = core.allocate("context", 4 * words)
        areas = [core.allocate("arena", manifest.arena_bytes)]
        if manifest.state_bytes:
            areas.append(core.allocate("state", manifest.state_bytes))
        table = np.array([[area.address, area.size] for area in areas], "<u4").tobytes()
        self.memory = core.allocate("memory", len(table))
        core.write(self.memory.address, table)
        read = Span("memory", self.memory.address, self.memory.size, False)
        self._allow = [self._context, read, *areas, *core.read_only_spans()]

    def call(self, function: str, *args: int) -> CallResult:
        """Call one of the model's functions on its context."""
        entry = f"{self._name}_{function}"
        return self._core.call(entry, self._context.address, *args, allow=self._allow)

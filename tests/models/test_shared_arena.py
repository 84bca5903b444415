"""Two models in one program: one arena for both, and contexts that interrupt each other.

The program is built for this computer and for two simulated cores; its functions are called from
here. Nothing of a model lies outside of the memory that the program gives it.
"""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from stateful_functions import in_place, module_of

from edgec.boards.board import load_board
from edgec.boards.board_files import port_include_dirs, port_sources
from edgec.boards.toolchain import find_toolchain
from edgec.build.firmware import build_firmware
from edgec.build.host import build_host_library
from edgec.codegen.project import write_project
from edgec.errors import BuildFailed
from edgec.graph.interpret import Interpretation
from edgec.options import Options
from edgec.pipeline import Compiled, compile_model, compile_module
from edgec.runners.samples import generate_inputs
from edgec.sim.core import CoreSimulator
from edgec.targets.core import find_core

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"
BOARDS = ("host", "mps2_an386", "sim_m0")

SHARED = """
#include "plain.h"
#include "stateful.h"

#define BYTES (PLAIN_ARENA_BYTES > STATEFUL_ARENA_BYTES ? PLAIN_ARENA_BYTES : STATEFUL_ARENA_BYTES)
extern uint8_t arena[];
PLAIN_ALIGNED(arena, BYTES LESS);
PLAIN_ARENA_FITS(arena);
STATEFUL_ARENA_FITS(arena);
static STATEFUL_STATE(state);
static plain_context plain;
static stateful_context stateful;

int32_t api_init(uint32_t unused);
int32_t api_run(uint32_t model);
void *api_input(uint32_t model);
const void *api_output(uint32_t model);

int32_t api_init(uint32_t unused) {
    const plain_memory first = { arena, sizeof arena };
    const stateful_memory second = { arena, sizeof arena, state, sizeof state };
    (void)unused;
    return plain_init(&plain, &first) == EC_OK ? (int32_t)stateful_init(&stateful, &second) : 1;
}
int32_t api_run(uint32_t model) {
    return model ? (int32_t)stateful_run(&stateful, 0, 0) : (int32_t)plain_run(&plain, 0, 0);
}
void *api_input(uint32_t model) {
    return model ? stateful_input(&stateful, 0) : plain_input(&plain, 0);
}
const void *api_output(uint32_t model) {
    return model ? stateful_output(&stateful, 0) : plain_output(&plain, 0);
}
"""

#: Between any two steps of the outer context, the inner one of the same model runs once.
NESTED = """
#include "stateful.h"

extern uint8_t arena[];
STATEFUL_ALIGNED(arena, 2 * STATEFUL_ARENA_BYTES + 16);
static STATEFUL_STATE(state0);
static STATEFUL_STATE(state1);
static stateful_context contexts[2];
static int8_t kept[STATEFUL_INPUT_0_BYTES];
static uint32_t depth, inner_runs;

int32_t api_init(uint32_t unused);
int32_t api_run(uint32_t model);
void *api_input(uint32_t model);
const void *api_output(uint32_t model);
void yielded(void);

int32_t api_init(uint32_t unused) {
    const uint32_t half = (STATEFUL_ARENA_BYTES + 15u) / 16u * 16u;
    const stateful_memory first = { arena, STATEFUL_ARENA_BYTES, state0, sizeof state0 };
    const stateful_memory second = { arena + half, STATEFUL_ARENA_BYTES, state1, sizeof state1 };
    (void)unused;
    return stateful_init(&contexts[0], &first) == EC_OK
        ? (int32_t)stateful_init(&contexts[1], &second) : 1;
}
void yielded(void) {
    if (depth++ == 0u) {
        int8_t *input = stateful_input(&contexts[1], 0);
        for (uint32_t i = 0; i < sizeof kept; ++i) {
            input[i] = kept[i];
        }
        if (stateful_run(&contexts[1], 0, 0) == EC_OK) {
            inner_runs++;
        }
    }
    depth--;
}
int32_t api_run(uint32_t model) {
    const ec_status status = stateful_run(&contexts[0], 0, 0);
    (void)model;
    return status == EC_OK ? (int32_t)inner_runs : -100;
}
void *api_input(uint32_t model) {
    return model ? (void *)kept : stateful_input(&contexts[0], 0);
}
const void *api_output(uint32_t model) {
    return stateful_output(&contexts[model], 0);
}
"""

#: The board's start-up and link stay; the linker keeps what main names.
MAIN = """
#include <stdint.h>
int main(void);
int32_t api_init(uint32_t unused);
int32_t api_run(uint32_t model);
void *api_input(uint32_t model);
const void *api_output(uint32_t model);
int main(void) {
    return (int)(api_init(0) + api_run(1)) + (api_input(0) == api_output(1));
}
"""


class Api(Protocol):
    """The program's functions, and its memory."""

    def call(self, name: str, model: int = 0) -> int: ...
    def write(self, address: int, data: bytes) -> None: ...
    def read(self, address: int, size: int) -> bytes: ...


class HostApi:
    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def call(self, name: str, model: int = 0) -> int:
        function = getattr(self.library, name)
        function.restype = ctypes.c_int32 if name in ("api_init", "api_run") else ctypes.c_void_p
        return int(function(ctypes.c_uint32(model)) or 0)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)


class CoreApi:
    def __init__(self, elf: Path, core: str) -> None:
        self.simulator = CoreSimulator(elf, core)

    def call(self, name: str, model: int = 0) -> int:
        value = self.simulator.call(name, model).value
        return value - (1 << 32) if value >= 1 << 31 and name == "api_run" else value

    def write(self, address: int, data: bytes) -> None:
        self.simulator.write(address, data)

    def read(self, address: int, size: int) -> bytes:
        return self.simulator.read(address, size)


def compiled_models(board_name: str) -> tuple[Compiled, Compiled]:
    board = load_board(board_name)
    plain = compile_model(DIGITS, board.core, Options(model_name="plain"))
    stateful = compile_module(module_of(in_place), board.core, Options(model_name="stateful"))
    return plain, stateful


def build(models: list[Compiled], text: str, board_name: str, folder: Path,
          request: pytest.FixtureRequest) -> Api:  # fmt: skip
    """Write the models' projects and the program, build them together, and open it."""
    board = load_board(board_name)
    if board.core.is_embedded and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    config = "void yielded(void);\n#define EC_YIELD() yielded()\n"
    (folder / "config.h").write_text(config if "yielded" in text else "", "utf-8")
    (folder / "shared.c").write_text(text, "utf-8")
    sources = [folder / "shared.c"]
    for compiled in models:
        project = folder / compiled.program.model
        project.mkdir()
        manifest = write_project(compiled.program, project)
        sources += [project / name for name in manifest.sources]
    include_dirs = [folder, *(source.parent for source in sources[1:])]
    defines = ['EC_CONFIG_FILE="config.h"']
    if not board.core.is_embedded:
        library = build_host_library(
            sources, folder / "shared.so", toolchain=find_toolchain(board.core, "gcc"),
            include_dirs=include_dirs, defines=defines,
        )  # fmt: skip
        return HostApi(library)
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    (folder / "main.c").write_text(MAIN, "utf-8")
    image = build_firmware(
        folder, board, sources=[folder / "main.c", *sources, *port_sources(board)],
        include_dirs=[*include_dirs, *port_include_dirs(board)],
        flags=[f"-D{define}" for define in defines],
        toolchain=find_toolchain(board.core, "gcc"), out=folder / "out",
    )  # fmt: skip
    api = CoreApi(image.elf, board.core.name)
    request.addfinalizer(api.simulator.close)
    return api


def run(api: Api, model: int, x: np.ndarray, output_bytes: int) -> bytes:
    api.write(api.call("api_input", model), x.tobytes())
    assert api.call("api_run", model) == 0
    return api.read(api.call("api_output", model), output_bytes)


def inputs_of(compiled: Compiled, seed: int) -> Any:
    value = compiled.program.inputs[0]
    return generate_inputs(seed, [(value.shape, value.dtype)])


@pytest.mark.parametrize("board_name", BOARDS)
def test_two_models_share_one_arena(
    board_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    models = compiled_models(board_name)
    api = build(list(models), SHARED.replace(" LESS", ""), board_name, tmp_path, request)
    assert api.call("api_init") == 0
    states = Interpretation(models[1].imported.main)
    for seed in range(1, 6):
        x, s = inputs_of(models[0], seed), inputs_of(models[1], seed)
        (want,) = models[0].reference(x)
        assert run(api, 0, x[0], want.nbytes) == want.tobytes(), seed
        # Its state has survived what the other model did to the arena.
        (want,) = states.run(s)
        assert run(api, 1, s[0], want.nbytes) == want.tobytes(), seed


@pytest.mark.parametrize("board_name", ["host", "mps2_an386"])
def test_too_small_an_arena_does_not_compile(
    board_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    models = compiled_models(board_name)
    with pytest.raises(BuildFailed) as caught:
        build(list(models), SHARED.replace("LESS", "- 1"), board_name, tmp_path, request)
    larger = max(models, key=lambda compiled: compiled.program.arena_bytes)
    assert f"{larger.program.model}_arena_fits" in "\n".join(caught.value.details)


@pytest.mark.parametrize("board_name", BOARDS)
def test_a_run_inside_a_run_of_another_context(
    board_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _, stateful = compiled_models(board_name)
    api = build([stateful], NESTED, board_name, tmp_path, request)
    assert api.call("api_init") == 0
    function = stateful.imported.main
    outer, inner = Interpretation(function), Interpretation(function)
    steps = len(stateful.program.steps)
    assert steps >= 2
    for seed in range(1, 5):
        x, other = inputs_of(stateful, seed), inputs_of(stateful, 100 + seed)
        api.write(api.call("api_input", 0), x[0].tobytes())
        api.write(api.call("api_input", 1), other[0].tobytes())
        assert api.call("api_run") == steps * seed  # all inner runs so far
        (want,) = outer.run(x)
        assert api.read(api.call("api_output", 0), want.nbytes) == want.tobytes()
        for _ in range(steps):
            (want,) = inner.run(other)
        assert api.read(api.call("api_output", 1), want.nbytes) == want.tobytes()


def test_states_are_counted_apart() -> None:
    """In the plan, the certificate and the program; the arena has no byte of them."""
    _, stateful = compiled_models("host")
    sizes = {b.name: b.size_bytes for b in stateful.problem.buffers}
    regions = stateful.plan.region_of
    states = [name for name, region in regions.items() if region == "state"]
    assert stateful.program.state_bytes == sum(sizes[name] for name in states) == 8
    peak = stateful.plan.certificate.region("arena")
    assert peak.peak_bytes == stateful.program.arena_bytes
    assert not set(states) & {name for name, _ in peak.live_at_peak}


def test_scratch_lives_while_its_group_runs() -> None:
    count = 0
    for core in ("cortex-m0", "cortex-m4", "cortex-m55"):
        for optimize in ("time", "balanced", "ram"):
            options = Options(optimize=optimize)  # type: ignore[arg-type]
            compiled = compile_model(DIGITS, find_core(core), options)
            scratch = [b for b in compiled.problem.buffers if b.name.startswith("scratch.")]
            for buffer in scratch:
                step = int(buffer.name.split(".")[1])
                assert (buffer.start, buffer.stop) == (step, step + 1)
            assert len(scratch) == sum(len(variant.scratch) for variant in compiled.chosen)
            count += len(scratch)
    assert count > 0

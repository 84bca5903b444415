"""A changed bit in the weights is named by the self-test, and the check costs nothing unused."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, build
from elftools.elf.elffile import ELFFile
from test_dynamic_range_models import hybrid_model
from test_int16_models import int16_model

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.firmware import build_firmware
from edgec.codegen.c_data import make_weights
from edgec.deploy.project import Built
from edgec.runners.emulator import missing_emulator
from edgec.runners.engine import STATUS_NAMES, default_engine, open_session
from edgec.targets.core import CORES

BOARDS = ("host", "mps2_an386", "sim_m0", "qemu_riscv32")


def weights_of(elf: Path, model: str) -> tuple[int, bytes]:
    """The offset in a file and the bytes of a model's constants."""
    with elf.open("rb") as stream:
        file = ELFFile(stream)
        table = file.get_section_by_name(".symtab")
        (symbol,) = table.get_symbol_by_name(f"{model}_weights")
        section = file.get_section(symbol["st_shndx"])
        start = section["sh_offset"] + symbol["st_value"] - section["sh_addr"]
        stream.seek(start)
        return start, stream.read(symbol["st_size"])


def selftest(built: Built) -> str:
    assert built.board is not None
    engine = default_engine(built.board) if not built.board.core.is_simulated else "core"
    if engine == "qemu" and (missing := missing_emulator(built.board)) is not None:
        pytest.skip(f"{missing.message}; {missing.hint}")
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    with open_session(engine, built) as session:
        return STATUS_NAMES[session.selftest()]


def flipped(built: Built, folder: Path, position: int, bit: int = 0) -> Built:
    """The same project with one bit of its weights turned over in the built file."""
    assert built.artefact is not None
    start, _ = weights_of(built.artefact, built.manifest.model)
    data = bytearray(built.artefact.read_bytes())
    data[start + position] ^= 1 << bit
    # A name of its own: a library that is loaded already would be taken again.
    path = folder / f"flipped_{position}_{bit}_{built.artefact.name}"
    path.write_bytes(data)
    return replace(built, artefact=path)


@pytest.mark.parametrize("board", BOARDS)
def test_one_bit_of_the_weights_is_seen(board: str, tmp_path: Path) -> None:
    _, built = build(DIGITS, board)
    assert selftest(built) == "EC_OK"
    assert built.artefact is not None
    _, data = weights_of(built.artefact, built.manifest.model)
    for position, bit in ((0, 0), (len(data) // 2, 7), (len(data) - 1, 3)):
        assert selftest(flipped(built, tmp_path, position, bit)) == "EC_ERR_WEIGHTS"


@pytest.mark.parametrize("write", [int16_model, hybrid_model])
@pytest.mark.parametrize("board", ["host", "mps2_an386"])
def test_constants_of_all_widths(write: Callable[[Path], None], board: str, tmp_path: Path) -> None:
    """Constants of 1 to 8 bytes an element lie without a gap, and every one is covered."""
    model = tmp_path / f"{write.__name__}.tflite"
    write(model)
    compiled, built = build(model, board)
    assert built.artefact is not None
    alignment = CORES[compiled.program.target].weight_alignment
    weights = make_weights(built.manifest.model, compiled.program.constants, alignment=alignment)
    _, data = weights_of(built.artefact, built.manifest.model)
    assert weights.stored_bytes <= len(data) < weights.stored_bytes + 8
    assert zlib.crc32(data[: weights.stored_bytes]) == weights.crc
    assert selftest(built) == "EC_OK"
    for position in np.random.default_rng(3).integers(0, weights.stored_bytes, 5).tolist():
        assert selftest(flipped(built, tmp_path, position)) == "EC_ERR_WEIGHTS"


MAIN = """
#include "MODEL.h"
static UPPER_ARENA(arena);
static MODEL_context context;
int main(void) {
    const MODEL_memory memory = { arena, sizeof arena };
    if (MODEL_init(&context, &memory) != EC_OK) {
        return 1;
    }
    return MODEL_run(&context, 0, 0) == EC_OK ? 0 : 2;
}
"""


def test_nothing_is_left_of_a_selftest_that_nobody_calls(tmp_path: Path) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    _, built = build(DIGITS, "mps2_an386", "gcc")
    model = built.manifest.model
    project = tmp_path / "project"
    shutil.copytree(built.project, project, ignore=shutil.ignore_patterns("build*"))
    text = MAIN.replace("MODEL", model).replace("UPPER", model.upper())
    (project / "main.c").write_text(text)
    board = load_board("mps2_an386")
    image = build_firmware(
        project, board, toolchain=find_toolchain(board.core, "gcc"), out=tmp_path / "out",
        sources=[s for s in built.manifest.sources if not s.startswith("link/")],
        include_dirs=[Path("."), Path("port")],
    )  # fmt: skip
    names = [function.name for function in image.functions]
    assert any(name.startswith(f"{model}_run") for name in names)
    assert not [name for name in names if "selftest" in name or "crc32" in name or "draw" in name]


def test_caller_io_checks_the_weights_too(tmp_path: Path) -> None:
    from edgec.deploy.project import deploy
    from edgec.options import Options
    from edgec.pipeline import compile_model

    board = load_board("host")
    compiled = compile_model(DIGITS, board.core, Options(io="caller"), board_name="host")
    built = deploy(compiled, board, tmp_path / "caller")
    assert selftest(built) == "EC_OK"
    assert selftest(flipped(built, tmp_path, 100)) == "EC_ERR_WEIGHTS"


def test_not_a_number_among_the_weights() -> None:
    """Its bits are the C compiler's choice, so there is nothing to compare with."""
    array = np.array([1.0, np.nan], np.float32)
    assert make_weights("m", {"w": array}).crc is None
    assert make_weights("m", {}).crc is None
    assert make_weights("m", {"w": array[:1]}).crc == zlib.crc32(array[:1].tobytes())


def test_the_manifest_has_the_crc() -> None:
    compiled, built = build(DIGITS, "host")
    alignment = CORES[compiled.program.target].weight_alignment
    weights = make_weights(built.manifest.model, compiled.program.constants, alignment=alignment)
    text = json.loads((built.project / "manifest.json").read_text())
    assert text["weights_crc"] == weights.crc == built.manifest.weights_crc

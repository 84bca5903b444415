"""The stack that a build states is never less than what the simulated core saw, and not far off.

The bound of `<model>_run` is the deepest chain of calls below it, from the compiler's frames and
the machine code; the simulator paints the stack and looks how deep the run wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import DIGITS, MODELS, SEQUENCE_MODELS, build
from float_cases import float_network
from measure_models import SHAPES, TABLE, VALUES, stack_bound
from measured_table import read_table

from edgec.boards.board import load_board
from edgec.runners.emulator import missing_emulator
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

M4 = "mps2_an386"
CORES = ("sim_m0", "mps2_an385", M4, "mps2_an500", "mps2_an505")
#: Bytes by which the example's bound is at most above what its run uses: measured.
MOST_ABOVE_BYTES = 4
#: Operators of all kinds, on one core each, and all models that fit on the Cortex-M4.
SAMPLES = {**MODELS, **SEQUENCE_MODELS}
PAIRS = dict.fromkeys((file, CORES[n % len(CORES)]) for n, file in enumerate(SAMPLES.values()))
PAIRS |= dict.fromkeys(
    (name, M4)
    for name, entry in read_table(TABLE).items()
    if "cortex-m4" in entry.get("runs_on", ())
)


def figures(model: Path, board: str, **options: str) -> tuple[int, int]:
    """Bound and use of one run, in bytes."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    given = {"shapes": SHAPES.get(model.name, ()), "values": VALUES.get(model.name, ())}
    _, built = build(model, board, **given, **options)  # type: ignore[arg-type]
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        if built.manifest.state_bytes:
            session.reset()
        used = session.run(generate_inputs(1, types)).stack_bytes
    bound = stack_bound(built)
    assert built.image is not None and bound is not None and used is not None, built.image
    return bound, used


def check(bound: int, used: int, most_above_bytes: int | None = None) -> None:
    assert 0 < used <= bound, f"{used} bytes of stack used, {bound} stated"
    if most_above_bytes is not None:
        assert bound <= used + most_above_bytes, f"{used} bytes of stack used, {bound} stated"


@pytest.mark.parametrize(
    ("board", "optimize"),
    [*((core, "balanced") for core in CORES), ("sim_m0", "ram"), (M4, "ram"), (M4, "size")],
)
def test_example(board: str, optimize: str) -> None:
    check(*figures(DIGITS, board, optimize=optimize), MOST_ABOVE_BYTES)


@pytest.mark.parametrize("optimize", ["balanced", "time"])
def test_frames_of_gcc(optimize: str) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    check(*figures(DIGITS, M4, compiler="gcc", optimize=optimize), MOST_ABOVE_BYTES)


@pytest.mark.parametrize("board", ["sim_m0", "mps2_an385", M4])
def test_floats_by_functions_of_the_compiler(board: str, tmp_path: Path) -> None:
    """M0 and M3 compute floats in assembly of the compiler's library, which states no frames."""
    check(*figures(float_network(tmp_path / "floats.tflite"), board))


@pytest.mark.parametrize(
    "board", ["bbc_microbit", M4, "mps3_an547", "qemu_riscv32", "qemu_xtensa_lx106"]
)
def test_whole_program_in_qemu(board: str) -> None:
    """Start-up, link and interrupts included, since the reset; its bound is the whole image's."""
    missing = missing_emulator(load_board(board))
    if missing is not None:
        pytest.skip(f"{missing.message}; {missing.hint}")
    _, built = build(DIGITS, board)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("qemu", built) as session:
        assert session.selftest() == 0
        used = session.run(generate_inputs(1, types)).stack_bytes
    assert built.image is not None and built.image.stack_bytes is not None and used is not None
    check(built.image.stack_bytes, used)


@pytest.mark.full
@pytest.mark.parametrize(("file", "board"), PAIRS)
def test_sample_models(file: str, board: str, sample_model: Callable[[str], Path]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    check(*figures(sample_model(file), board, compiler="gcc"))

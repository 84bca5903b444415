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
from measure_models import read_table, stack_figures

from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

M4 = "mps2_an386"
CORES = ("sim_m0", "mps2_an385", M4, "mps2_an500", "mps2_an505")
#: Bytes that a bound may be above what a run uses: registers that a function saves on a path that
#: this input does not take, and alignment.
MOST_ABOVE_BYTES = 96
#: Operators of all kinds, on one core each; `make test-full` runs all models on the Cortex-M4.
SAMPLES = {**MODELS, **SEQUENCE_MODELS}
PAIRS = [(file, CORES[n % len(CORES)]) for n, file in enumerate(SAMPLES.values())]
FITTING = [
    (name, M4) for name, entry in read_table().items() if "cortex-m4" in entry.get("runs_on", ())
]
REST = [pair for pair in FITTING if pair not in PAIRS]


def figures(model: Path, board: str, **options: str) -> tuple[int, int]:
    """Bound and use of one run, in bytes."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    _, built = build(model, board, **options)  # type: ignore[arg-type]
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        if built.manifest.state_bytes:
            session.reset()
        used = session.run(generate_inputs(1, types)).stack_bytes
    return stack_figures(built, used)


def check(bound: int, used: int) -> None:
    assert 0 < used <= bound, f"{used} bytes of stack used, {bound} stated"
    assert bound <= used + MOST_ABOVE_BYTES, f"{used} bytes of stack used, {bound} stated"


@pytest.mark.parametrize("board", CORES)
@pytest.mark.parametrize("optimize", ["balanced", "ram", "size"])
def test_example(board: str, optimize: str) -> None:
    check(*figures(DIGITS, board, optimize=optimize))


@pytest.mark.parametrize("optimize", ["balanced", "time"])
def test_frames_of_gcc(optimize: str) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    check(*figures(DIGITS, M4, compiler="gcc", optimize=optimize))


@pytest.mark.parametrize(
    ("file", "board"), [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.full) for pair in REST)]
)
def test_sample_models(file: str, board: str, sample_model: Callable[[str], Path]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    check(*figures(sample_model(file), board, compiler="gcc"))

"""TFLite Micro's int16 models of single operators, with golden outputs: every bit equal.

The reference runs all of them before and after the passes. C runs a sample on the host and on
emulated cores in `make test`, and all of them in `make test-full`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.passes.sequence import PASSES

#: Folder -> how many models it holds.
FOLDERS = {
    "add": 17,
    "conv": 22,
    "leaky_relu": 23,
    "pad": 19,
    "quantize": 2,
    "strided_slice": 34,
    "sub": 5,
    "transpose_conv": 5,
}
NAMES = [f"{folder}{number}" for folder, count in FOLDERS.items() for number in range(count)]
#: One model of each kind for the host and a Cortex-M4, and what runs on smaller cores.
SAMPLE = [f"{folder}{count // 2}" for folder, count in FOLDERS.items()]
ON_CORES = [
    *(("mps2_an386", name) for name in SAMPLE),
    *((board, name) for board in ("mps2_an385", "sim_m0") for name in ("conv11", "sub2")),
]

Cases = Callable[[str], tuple[Path, list[np.ndarray], np.ndarray]]


@pytest.fixture
def case(shared_dir: Path) -> Cases:
    """Model file, inputs and golden output of a name such as conv3; flat as the files have them."""

    def read(path: Path) -> np.ndarray:
        dtype = path.stem.rsplit("_", 1)[1]
        return np.loadtxt(path, delimiter=",", dtype=np.int64).reshape(-1).astype(dtype)

    def load(name: str) -> tuple[Path, list[np.ndarray], np.ndarray]:
        folder = shared_dir / "data" / "tflm_seanet" / name.rstrip("0123456789")
        inputs = [read(path) for path in sorted(folder.glob(f"{name}_input*.csv"))]
        (golden,) = folder.glob(f"{name}_golden_*.csv")
        return folder / f"{name}.tflite", inputs, read(golden)

    return load


def test_no_model_is_left_out(shared_dir: Path) -> None:
    folder = shared_dir / "data" / "tflm_seanet"
    files = {path.stem for path in folder.glob("*/*.tflite")}
    assert files == set(NAMES) and len(files) == 127


@pytest.mark.parametrize("name", NAMES)
def test_reference_equals_golden(name: str, case: Cases) -> None:
    path, inputs, golden = case(name)
    function = import_model(path).main
    for _, run in (("", lambda f, rounding: f), *PASSES):
        function = run(function, "tflm")
        given = [x.reshape(p.type.shape) for x, p in zip(inputs, function.params, strict=True)]
        (result,) = interpret(function, given)
        assert result.dtype == golden.dtype
        np.testing.assert_array_equal(result.reshape(-1), golden)


def run_c(name: str, case: Cases, board: str, engine: str) -> None:
    path, inputs, golden = case(name)
    params = import_model(path).main.params
    with edgec.compile(path, board=board, engine=engine) as model:
        result = model.run(*(x.reshape(p.type.shape) for x, p in zip(inputs, params, strict=True)))
    assert result.reshape(-1).tobytes() == golden.tobytes()


@pytest.mark.parametrize("name", SAMPLE)
def test_host_c_equals_golden(name: str, case: Cases) -> None:
    run_c(name, case, "host", "host")


@pytest.mark.parametrize(("board", "name"), ON_CORES)
def test_core_c_equals_golden(board: str, name: str, case: Cases) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    run_c(name, case, board, "core")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("board", "engine"), [("host", "host"), ("mps2_an386", "core")])
def test_all_c_equals_golden(board: str, engine: str, name: str, case: Cases) -> None:
    run_c(name, case, board, engine)

"""Every sample model still does what `docs/models.toml` says, in bits, bytes and instructions.

`make models` measures again; figures may only get better.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import build
from measure_models import TABLE, measure
from measured_table import read_table

from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

ENTRIES = {name: entry for name, entry in read_table(TABLE).items() if "problem" not in entry}

#: Measured by `make test` as well: every operator of the int8 samples, in few seconds.
QUICK = (
    "silabs_fingerprint_int8.tflite",
    "mww_vad_int8.tflite",
    "tflm_hello_world_int8.tflite",
    "mww_hey_jarvis_int8.tflite",
)
#: On every other core one of them, and each of them on one; `make test-full` runs all on all.
CORES = ("sim_m0", "mps2_an385", "mps2_an500", "mps2_an505")
PAIRS = tuple(zip(QUICK, CORES, strict=True))
INTEGER = {n: e for n, e in ENTRIES.items() if "int8" in n and e["oracle"] == "tflm"}
#: Ends in a float LOG_SOFTMAX, which has a tolerance.
FLOAT_END = "tinyengine_mnist_lenet300_int8.tflite"
OTHERS = tuple(
    pair for pair in itertools.product(INTEGER, CORES) if pair not in PAIRS and pair[0] != FLOAT_END
)
#: What may only become less.
FIGURES = ("mismatches", "arena_bytes", "flash_bytes", "instructions")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in ENTRIES]
)
def test_model_is_as_good_as_its_entry(name: str, sample_model: Callable[[str], Path]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("the figures are stated for arm-none-eabi-gcc, which is not installed")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    entry = ENTRIES[name]
    found = measure(sample_model(name))
    assert found["runs_on"] == entry["runs_on"]
    assert found["difference"] <= entry["difference"]
    worse = {
        key: f"{found[key]:,} > {entry[key]:,}"
        for key in FIGURES
        if key in entry and found[key] > entry[key]
    }
    assert not worse, f"{name}: {worse}; all figures: {found}"


@pytest.mark.parametrize(
    ("name", "board"), [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.full) for pair in OTHERS)]
)
def test_the_same_bits_on_other_cores(
    name: str, board: str, sample_model: Callable[[str], Path]
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = sample_model(name)
    _, built = build(path, board, "gcc")
    oracle = open_oracle(path)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("core", built) as session:
        assert session.selftest() == 0
        if built.manifest.state_bytes:
            session.reset()
        for seed in (1, 2):
            inputs = generate_inputs(seed, types)
            expected = oracle.run(inputs).outputs
            for want, got in zip(expected, session.run(inputs).outputs, strict=True):
                assert got.tobytes() == want.tobytes(), f"seed {seed}"


def test_every_sample_model_has_an_entry(shared_dir: Path) -> None:
    files = {f.name for f in (shared_dir / "models").iterdir() if f.suffix in (".tflite", ".onnx")}
    assert files == set(read_table(TABLE))


def test_integer_models_of_tflite_equal_tflm_in_every_bit() -> None:
    assert len(INTEGER) >= 20
    assert {n for n, e in INTEGER.items() if e["mismatches"]} <= {FLOAT_END}

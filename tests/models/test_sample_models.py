"""Every sample model still does what `docs/models.toml` says, in bits, bytes and instructions.

`make models` measures again; figures may only get better.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from measure_models import measure, read_table

ENTRIES = {name: entry for name, entry in read_table().items() if "problem" not in entry}

#: Measured by `make test` as well: every operator of the int8 samples, in few seconds.
QUICK = (
    "emza_ssd_slim_120x160_int8.tflite",
    "silabs_fingerprint_int8.tflite",
    "tflm_hello_world_int8.tflite",
    "tinymaix_mbnet128_025_int8.tflite",
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


def test_every_entry_is_of_a_sample_model(shared_dir: Path) -> None:
    files = {f.name for f in (shared_dir / "models").iterdir()}
    assert set(read_table()) <= files


def test_integer_models_of_tflite_equal_tflm_in_every_bit() -> None:
    integer = {n: e for n, e in ENTRIES.items() if e["oracle"] == "tflm" and "int8" in n}
    assert integer
    assert {n: e["mismatches"] for n, e in integer.items() if e["mismatches"]} == {}

"""Emitted C on real data: each answer is the framework's, image by image, and so the accuracy.

`make test` takes the first samples of each set, `make test-full` all of them.
"""

from __future__ import annotations

import csv
import io
import itertools
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from built_models import DIGITS, MODELS, build
from real_samples import SAMPLES

from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session

FIRST = 60
BUDGETS = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text(encoding="utf-8"))


def labels(name: str, data: Path) -> np.ndarray:
    """The right class of each sample of SAMPLES[name], in its order."""
    if name == "kws":
        return np.load(data / "mlperf_kws01_dev500_int8.npz")["y"]
    if name == "ic":
        return np.load(data / "cifar10_test_exact_dev240.npz")["y"]
    with zipfile.ZipFile(data / "mlperf_vww01_dev500_BGRjpg96.zip") as archive:
        listing = next(n for n in archive.namelist() if n.endswith("labels.csv"))
        rows = list(csv.reader(io.TextIOWrapper(archive.open(listing), encoding="utf-8")))
        images = sorted(n for n in archive.namelist() if n.endswith(".jpg"))
    known = {row[0]: int(row[-1]) for row in rows if row and row[-1].strip().isdigit()}
    return np.array([known[Path(name).stem] for name in images])


def answers(model: Path, samples: list[np.ndarray]) -> np.ndarray:
    """What the emitted C gives on the host, one row of outputs per sample."""
    _, built = build(model, "host")
    with open_session("host", built) as session:
        return np.stack([session.run([x]).outputs[0].reshape(-1) for x in samples])


def compare(model: Path, samples: list[np.ndarray]) -> np.ndarray:
    found = answers(model, samples)
    oracle = open_oracle(model)
    for number, (x, got) in enumerate(zip(samples, found, strict=True)):
        want = oracle.run([x]).outputs[0].reshape(-1)
        assert got.tobytes() == want.tobytes(), f"sample {number}"
    return found


@pytest.mark.parametrize("name", ["kws", "vww", "ic", "ad"])
def test_first_samples(name: str, shared_dir: Path, sample_model: Callable[[str], Path]) -> None:
    samples = list(itertools.islice(SAMPLES[name](shared_dir / "data"), FIRST))
    compare(sample_model(MODELS[name]), samples)


@pytest.mark.full
@pytest.mark.parametrize("name", ["kws", "vww", "ic", "ad", "sww", "person_detect"])
def test_all_samples(name: str, shared_dir: Path, sample_model: Callable[[str], Path]) -> None:
    compare(sample_model(MODELS[name]), list(SAMPLES[name](shared_dir / "data")))


@pytest.mark.parametrize("name", ["kws", "vww", "ic"])
def test_accuracy_is_within_its_budget(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    data = shared_dir / "data"
    found = answers(sample_model(MODELS[name]), list(SAMPLES[name](data)))
    accuracy = float((found.argmax(axis=1) == labels(name, data)).mean())
    assert accuracy >= BUDGETS["accuracy"][name], f"{accuracy:.4f}"


def test_accuracy_of_the_example() -> None:
    held_out = np.load(DIGITS.parent / "digits_test.npz")
    found = answers(DIGITS, [x[None] for x in held_out["x"]])
    accuracy = float((found.argmax(axis=1) == held_out["y"]).mean())
    assert accuracy >= BUDGETS["accuracy"]["digits"], f"{accuracy:.4f}"

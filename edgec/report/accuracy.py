"""Accuracies of quantized models, as the checkout's measurements in `docs/` have them.

`tests/models/measure_quantization.py` and `measure_equivalent_forms.py` write these; the pages
that show all of them are written by `tests/pages/`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from math import comb, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from edgec.report.table import Column, Table, number

#: Beside the package in a checkout; an installed package has none.
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "quantization.toml"
FORMS = FIGURES.with_name("quantization_forms.toml")

#: Whose answers are compared with float's, by the words of the tables.
QUANTIZED = {
    "published": "published",
    "ours": "ours",
    "onnxruntime": "ONNX Runtime",
    "per_channel": "per channel",
}
ALL = {"float": "float", **QUANTIZED}
#: With whom ours is compared over equivalent forms.
OTHERS = {"onnxruntime": "ONNX Runtime", "per_channel": "per channel"}
WHO = {"ours": "ours", **OTHERS}


def quantizer_lines(table: Path) -> list[str]:
    """The accuracies as a table for a terminal; empty where nothing was measured."""
    if not table.exists():
        return []
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["models"]
    columns = (
        Column("model"), number("samples"), *map(number, ALL.values()),
        number("log loss ours"), number("ONNX Runtime"), number("per channel"),
    )  # fmt: skip
    cells = [
        (name, str(entry["samples"]), *accuracy_cells(entry), *log_loss_cells(entry))
        for name, entry in entries.items()
        if "ours_right" in entry
    ]
    return ["Accuracy in int8, as docs/quantization.toml has it", "", *Table(columns, cells).text()]


def accuracy_cells(entry: Mapping[str, Any]) -> list[str]:
    return [f"{100 * entry[f'{who}_right'] / entry['runs']:.2f} %" for who in ALL]


def log_loss_cells(entry: Mapping[str, Any]) -> list[str]:
    return [log_loss_cell(entry, who) for who in ("ours", "onnxruntime", "per_channel")]


def log_loss_cell(entry: Mapping[str, Any], who: str) -> str:
    return f"{entry[f'{who}_log_loss']:.4f}"


def sign_test(won: int, lost: int) -> float:
    """The two-sided probability of a split as uneven as this one, or more, of fair coins."""
    count = won + lost
    tail = sum(comb(count, k) for k in range(min(won, lost) + 1)) / 2.0**count
    return min(1.0, 2.0 * tail)


def form_lines(table: Path) -> list[str]:
    """The accuracies as a table for a terminal; empty where nothing was measured."""
    if not table.exists():
        return []
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["models"]
    columns = (
        Column("model"), number("forms"), number("float"), *map(number, WHO.values()),
        *(number(f"to {word}") for word in OTHERS.values()),
    )  # fmt: skip
    cells = [
        (name, str(len(entry["runs"])), *compared_cells(entry))
        for name, entry in entries.items()
        if "ours_right" in entry
    ]
    title = "The same over equivalent forms, as docs/quantization_forms.toml has it"
    return [title, "", *Table(columns, cells).text()]


def shares(entry: Mapping[str, Any], who: str) -> list[float]:
    """Right answers in percent, of each form."""
    return [100.0 * n / runs for n, runs in zip(entry[f"{who}_right"], entry["runs"], strict=True)]


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The mean of differences, form by form, and its standard error."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    return fmean(differences), stdev(differences) / sqrt(len(differences))


def compared_cells(entry: Mapping[str, Any]) -> list[str]:
    """The accuracies, and the differences of ours from the others."""
    cells = [f"{fmean(shares(entry, who)):.2f} %" for who in ("float", *WHO)]
    for who in OTHERS:
        mean, error = difference(shares(entry, "ours"), shares(entry, who))
        cells.append(f"{mean:+.2f} ± {error:.2f}")
    return cells

"""The part of `docs/quantization_figures.md` about equivalent forms of the same models.

The figures come from `docs/quantization_forms.toml`, which
`tests/models/measure_equivalent_forms.py` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from edgec.report.accuracy import OTHERS, WHO, compared_cells
from edgec.report.table import Column, Table, number

_INTRODUCTION = """\
## Equivalent forms

Some samples lie so near the border of two answers that how weights round decides them, and a file
is one draw of that: relu(t x) = t relu(x), so a channel may be t times as large if what reads it
has weights 1 / t times as large. The function is the same, all of its weights round otherwise.
Each model is written in many such forms (`tests/models/equivalent_forms.py`; every channel times a
random factor of 0.90 to 1.11), each of which is quantized with one part of the samples and compared
on the three others (`docs/quantization_forms.toml`, which
`tests/models/measure_equivalent_forms.py` writes). What is left of a difference on average is the
quantizers', not the file's: *to* is ours less the other, in points, with its standard error over
the forms. Forms share their samples, so that error says nothing about other samples: a single
sample that most forms answer otherwise is 0.27 points of `vww`, 0.56 of `ic` and 0.05 of `kws`.
"""


def forms_section(entries: Mapping[str, Any]) -> list[str]:
    """Lines of the page. entries: of the table, by model."""
    classified = {name: entry for name, entry in entries.items() if "ours_right" in entry}
    recordings = {name: entry for name, entry in entries.items() if name not in classified}
    lines = [_INTRODUCTION]
    first, *rest = (number(word) for word in WHO.values())
    decibels = (number(f"SQNR {first.heading}"), *rest)
    tables = (
        (
            (Column("model"), *map(number, ("forms", "runs", "float")), first, *rest,
             *(number(f"to {word}") for word in OTHERS.values())),
            classified, _answers,
        ),
        ((Column("log loss"), number("float"), first, *rest, *decibels), classified, _losses),
        (
            (Column("rank correlation with float"), number("forms"), first, *rest, *decibels),
            recordings, _correlations,
        ),
    )  # fmt: skip
    for columns, found, cells in tables:
        if found:
            rows = [cells(name, entry) for name, entry in found.items()]
            lines += [*Table(columns, rows).markdown(), ""]
    return lines


def _answers(name: str, entry: Mapping[str, Any]) -> list[str]:
    return [name, str(len(entry["runs"])), str(sum(entry["runs"])), *compared_cells(entry)]


def _losses(name: str, entry: Mapping[str, Any]) -> list[str]:
    cells = [f"{fmean(entry[f'{who}_log_loss']):.4f}" for who in ("float", *WHO)]
    return [name, *cells, *_decibels(entry)]


def _correlations(name: str, entry: Mapping[str, Any]) -> list[str]:
    cells = [f"{fmean(entry[f'{who}_rank_correlation']):.4f}" for who in WHO]
    return [name, str(len(entry["runs"])), *cells, *_decibels(entry)]


def _decibels(entry: Mapping[str, Any]) -> list[str]:
    return [f"{fmean(entry[f'{who}_db']):.1f}" for who in WHO]

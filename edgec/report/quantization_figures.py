"""`docs/quantization_figures.md`: how accurate quantized models are, beside others' quantizers.

The figures come from `docs/quantization.toml`, which `tests/models/measure_quantization.py` writes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from math import comb
from pathlib import Path
from typing import Any

from edgec.report.quantization_forms import forms_section
from edgec.report.table import Column, Table, number

_INTRODUCTION = """\
Float models quantized to int8 by `edgec quantize` with its defaults. Samples of a set are dealt
into four parts; models are calibrated on each part in turn and compared on the three others, so
that every sample counts three times, with three calibrations none of which it was part of:

- **published**: the int8 file that the model's makers published, on the same samples; for `digits`
  it is ONNX Runtime's, calibrated with images that were trained on.
- **ONNX Runtime**: its static quantizer with its defaults (QDQ, int8, a scale for each tensor of
  weights), given the same float model and the same samples.
- **per channel**: the same quantizer told to give each channel of weights a scale, as ours does.
- **SQNR**: signal to noise of the outputs against the float model's, in decibels.
- **one sample**: what the answer to a single sample changes, in points.
- **won, lost**: samples that ours answers right more often than the other, and the reverse. Sets
  are small, so accuracies of one set differ by chance: *p* is how likely a split as uneven as this,
  or more, would be if both were equally good (exact sign test, two-sided).
- **other answers**: the share of answers that are not the float model's, right or wrong. Where
  accuracies are a few samples apart, it tells better which integers are closer: the float model
  errs, too, and what another answer makes of that is luck.
- **log loss**: the mean of -ln p over the same runs, with p the probability given to the right
  answer (1/512 at least: half a step of an int8 softmax). The lower the better. It counts every
  sample by how sure the answer is, not only those near the border between two, and so depends less
  on chance than the accuracy does.

`lstm` starts each image from the initial state (`--from-start`). ONNX Runtime's static quantizer
leaves LSTMs in float.
"""

#: Beside the package in a checkout; an installed package has none.
FIGURES = Path(__file__).resolve().parents[2] / "docs" / "quantization.toml"
FORMS = FIGURES.with_name("quantization_forms.toml")

#: Whose answers are compared with float's, by the words of the tables.
_QUANTIZED = {
    "published": "published",
    "ours": "ours",
    "onnxruntime": "ONNX Runtime",
    "per_channel": "per channel",
}
_ALL = {"float": "float", **_QUANTIZED}
#: Whom ours is compared with.
_OTHERS = {who: word for who, word in _ALL.items() if who != "ours"}


_AGREEMENT = """\
## Agreement with float

Models quantized with the defaults on some samples and compared with their float form on others
(`docs/quantization_agreement.toml`, which `tests/models/measure_agreement.py` writes). Faces are
boxes of a score over 0.7, found where one of the other side overlaps by half. Those that int8
misses have scores of 0.60 to 0.70 there: pictures with faces leave the ranges that 24 others
showed, and with ranges a quarter wider 61 are found. DTLN's two halves clean words in noise, each
side with the state that it made itself: its cells come back through an
input, together with the hidden state, for which int8 is coarse and int16 is not. The text
recogniser reads pictures of made-up words and numbers: *same texts* are those in which both forms
read the same characters, *characters off* the insertions, deletions and replacements that make one
text of the other, beside all characters that the float model reads. Channels of its first layers
differ in range a hundredfold, with a hard swish between them, through which they cannot be
equalized: int8 is too coarse for its values, int16 is not. The voice detector decides 31 times a
second whether somebody speaks, each side with its own state; its LSTM stays in float, and so does,
where the row says so (`--keep-float`), the spectrum: one frequency is a millionth of another.
*Mixed values* are those that `--activations mixed` chooses on the calibration samples, for its
default goal of 30 dB or the one that the row says (`--min-sqnr`); what is counted are choices of
values, of one dtype each.
"""


def quantization_page(table: Path, forms: Path | None = None, agreement: Path | None = None) -> str:
    """The page of the measured figures; it says so where there are none."""
    entries: dict[str, Any] = {}
    if table.exists():
        entries = tomllib.loads(table.read_text(encoding="utf-8"))["models"]
    classified = {name: entry for name, entry in entries.items() if "ours_right" in entry}
    recordings = {name: entry for name, entry in entries.items() if "ours_auc" in entry}
    lines = [
        "# Accuracy of quantized models",
        "",
        "<!-- Generated by `make docs` from `docs/quantization.toml`, which"
        " `tests/models/measure_quantization.py` writes. Do not edit. -->",
        "",
        _INTRODUCTION,
    ]
    if classified:
        lines += _classified(classified)
    if recordings:
        columns = (Column("model"), number("windows"), *map(Column, _ALL.values()))
        rows = [_recording(name, entry) for name, entry in recordings.items()]
        lines += [
            "Reconstruction errors of recordings: area under the curve, and rank correlation with"
            " the float model's.",
            "",
            *Table(columns, rows).markdown(),
            "",
        ]
    lines += [f"{len(entries)} measured." if entries else "Nothing is measured yet.", ""]
    if forms is not None and forms.exists():
        lines += forms_section(tomllib.loads(forms.read_text(encoding="utf-8"))["models"])
    if agreement is not None and agreement.exists():
        lines += _agreement(tomllib.loads(agreement.read_text(encoding="utf-8"))["models"])
    return "\n".join(lines)


def _classified(entries: Mapping[str, Any]) -> list[str]:
    """The tables of models that classify."""
    first, *others = _QUANTIZED.values()
    columns = (
        Column("model"), number("samples"), number("one sample"), *map(number, _ALL.values()),
        number(f"SQNR {first}"), *map(number, others),
    )  # fmt: skip
    accuracies = Table(columns, [_accuracies(name, entry) for name, entry in entries.items()])
    return [
        *accuracies.markdown(),
        "",
        *_by_model("ours against", Column, entries, _OTHERS, _paired),
        "",
        *_by_model("other answers", number, entries, _QUANTIZED, _otherwise),
        "",
        *_by_model("log loss", number, entries, _ALL, _log_loss),
        "",
    ]


def _by_model(
    title: str,
    column: Callable[[str], Column],
    entries: Mapping[str, Any],
    rows: Mapping[str, str],
    cell: Callable[[Mapping[str, Any], str], str],
) -> list[str]:
    """A table with a column for each model and a row for each of `rows`."""
    cells = [[word, *(cell(e, who) for e in entries.values())] for who, word in rows.items()]
    return Table((Column(title), *map(column, entries)), cells).markdown()


def _log_loss(entry: Mapping[str, Any], who: str) -> str:
    return f"{entry[f'{who}_log_loss']:.4f}"


def _otherwise(entry: Mapping[str, Any], who: str) -> str:
    """The share of answers that are not the float model's."""
    return f"{100 * (entry['runs'] - entry[f'{who}_same']) / entry['runs']:.2f} %"


def quantizer_lines(table: Path) -> list[str]:
    """The accuracies as a table for a terminal; empty where nothing was measured."""
    if not table.exists():
        return []
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["models"]
    columns = (
        Column("model"), number("samples"), *map(number, _ALL.values()),
        number("log loss ours"), number("ONNX Runtime"), number("per channel"),
    )  # fmt: skip
    cells = [
        (name, str(entry["samples"]), *_shares(entry), *_log_losses(entry))
        for name, entry in entries.items()
        if "ours_right" in entry
    ]
    return ["Accuracy in int8, as docs/quantization.toml has it", "", *Table(columns, cells).text()]


def _agreement(entries: Mapping[str, Any]) -> list[str]:
    columns = (
        Column("model"), number("calibrated with"), number("compared on"), Column("agreement"),
    )  # fmt: skip
    rows = [
        (name, str(e["calibration"]), str(e["samples"]), f"{_agreed(e)}{_mix(e)}")
        for name, e in entries.items()
    ]
    return [_AGREEMENT, *Table(columns, rows).markdown(), ""]


def _mix(entry: Mapping[str, Any]) -> str:
    """How many values of a mix are what."""
    if "int16_layers" not in entry:
        return ""
    kinds = [entry[f"{kind}_layers"] for kind in ("int8", "int16", "float")]
    share = 100 * entry["values_bytes"] / entry["int8_values_bytes"]
    floats = f", {kinds[2]} in float" if kinds[2] else ""
    return (
        f"; {kinds[1]} of {sum(kinds)} in int16{floats}: {share:.0f} % of the bytes of int8 values"
    )


def _agreed(entry: Mapping[str, Any]) -> str:
    """What a measurement of faces, sound or text found."""
    if "waveform_db" in entry:
        return f"waveform {entry['waveform_db']:.1f} dB"
    if "decisions_same" in entry:
        share = 100 * entry["decisions_same"] / entry["samples"]
        return f"{share:.1f} % same decisions; probabilities {entry['probabilities_db']:.1f} dB"
    if "texts_same" in entry:
        share = 100 * entry["texts_same"] / entry["samples"]
        return (
            f"{share:.1f} % same texts; {entry['characters_off']} of {entry['characters']}"
            f" characters off; probabilities {entry['probabilities_db']:.1f} dB"
        )
    return (
        f"{entry['faces_found']} of {entry['faces']} faces, {entry['faces_more']} more,"
        f" mean overlap {entry['mean_overlap']:.3f}; scores {entry['scores_db']:.1f} dB,"
        f" boxes {entry['boxes_db']:.1f} dB"
    )


def sign_test(won: int, lost: int) -> float:
    """The two-sided probability of a split as uneven as this one, or more, of fair coins."""
    count = won + lost
    tail = sum(comb(count, k) for k in range(min(won, lost) + 1)) / 2.0**count
    return min(1.0, 2.0 * tail)


def _accuracies(name: str, entry: Mapping[str, Any]) -> list[str]:
    decibels = [f"{entry[f'{who}_db']:.1f}" for who in _QUANTIZED]
    samples = entry["samples"]
    return [name, str(samples), f"{100 / samples:.2f}", *_shares(entry), *decibels]


def _shares(entry: Mapping[str, Any]) -> list[str]:
    return [f"{100 * entry[f'{who}_right'] / entry['runs']:.2f} %" for who in _ALL]


def _log_losses(entry: Mapping[str, Any]) -> list[str]:
    return [_log_loss(entry, who) for who in ("ours", "onnxruntime", "per_channel")]


def _paired(entry: Mapping[str, Any], who: str) -> str:
    won, lost = entry[f"won_against_{who}"], entry[f"lost_against_{who}"]
    return f"won {won}, lost {lost}, p = {sign_test(won, lost):.2f}"


def _recording(name: str, entry: Mapping[str, Any]) -> list[str]:
    cells = [name, str(entry["samples"]), f"{entry['float_auc']:.4f}"]
    for who in _QUANTIZED:
        cells.append(
            f"{entry[f'{who}_auc']:.4f}; {entry[f'{who}_rank_correlation']:.4f};"
            f" {entry[f'{who}_db']:.1f} dB"
        )
    return cells

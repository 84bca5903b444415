"""A notebook's view of builds, verifications and quantized models: HTML tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from edgec.quantizer.explain import Explanation
from edgec.quantizer.post_training import PostTraining
from edgec.report.figures import count, percent, plural, short_name
from edgec.report.html import page_environment
from edgec.report.ram_parts import ram_rows
from edgec.report.table import Column, Table, number

if TYPE_CHECKING:
    from edgec.codegen.manifest import Manifest

_NAME = partial(Column, least=16)


def html_table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """A table as the pages of reports have it, but with the sides of its columns written out: a
    notebook has no style of ours. Every text is escaped."""
    show = page_environment().get_template("table.html.j2").module.show  # type: ignore[attr-defined]
    text = str(show(Table(columns, list(rows))))
    table = Markup(re.sub('class="(n?)', _with_side, text))
    return f"<figure><figcaption>{escape(caption)}</figcaption>{table}</figure>"


def _with_side(found: re.Match[str]) -> str:
    return f'style="text-align: {"right" if found[1] else "left"}" {found[0]}'


class BuildReport(dict[str, Any]):
    """The figures of `edgec build --json`; a notebook shows them as tables."""

    def _repr_html_(self) -> str:
        return self._sizes() + self._layers()

    def _sizes(self) -> str:
        flash = (
            ("weights and tables", self["weights_bytes"], ""),
            ("code", self["code_bytes"], "start-up and link included"),
            ("flash in all", self["flash_bytes"], ""),
        )
        rows = [(w, count(n), note) for w, n, note in (*ram_rows(self), *flash) if n is not None]
        board, core = self["board"], self["core"]
        title = f"{self['source']} for {f'{board} ({core})' if board else core}"
        return html_table(title, (Column("what"), number("bytes"), Column("")), rows)

    def _layers(self) -> str:
        columns = Column("step"), _NAME("layer"), Column("shapes"), number("products")
        rows = [
            (str(layer["step"]), layer["title"], layer["shapes"], f"{layer['macs']:,}")
            for layer in self["layers"]
        ]
        return html_table(plural(len(rows), "layer"), columns, rows)


def model_html(manifest: Manifest, report: BuildReport) -> str:
    """The inputs and outputs of a model, and its report."""
    ports = [("input", p) for p in manifest.inputs] + [("output", p) for p in manifest.answers]
    rows = [(kind, port.name, f"{port.dtype}{list(port.shape)}") for kind, port in ports]
    named = html_table(manifest.model, (Column(""), _NAME("name"), Column("type")), rows)
    return named + report._repr_html_()


def verification_html(report: Mapping[str, Any]) -> str:
    """The comparison and the differences in the object of `edgec verify --json`."""
    first = report["first_difference"]
    rows = [
        ("against", report["reference"]), ("on", report["engine"]),
        ("cases", f"{report['cases']:,}"), ("elements", f"{report['elements']:,}"),
        ("differ", f"{report['mismatches']:,}"),
        ("more than allowed", f"{report['beyond']:,}"),
        ("largest difference", f"{report['max_abs_diff']:g}"),
    ]  # fmt: skip
    if first:
        where = f"case {first['case']}, {first['operator']} {first['tensor']}{first['index']}"
        rows.append(("first", f"{where}: expected {first['expected']}, found {first['found']}"))
    if report["note"]:
        rows.append(("note", report["note"]))
    same = "all the same bits" if not report["mismatches"] else "within tolerances"
    verdict = "differs" if report["beyond"] else same
    shown = html_table(f"verified: {verdict}", (Column(""), _NAME("")), rows)
    if not report["layers"]:
        return shown
    columns = _NAME("tensor"), Column("operator"), number("elements"), number("differ")
    layers = [
        (short_name(row["tensor"]), row["operator"], count(row["elements"]),
         count(row["mismatches"]))
        for row in report["layers"]
    ]  # fmt: skip
    return shown + html_table(plural(len(layers), "layer"), columns, layers)


class ShownExplanation(Explanation):
    """An explanation that a notebook shows as tables."""

    def _repr_html_(self) -> str:
        report = asdict(self)
        columns = (
            _NAME("value"), Column("operator"), Column("dtype"), number("scale"),
            number("zero point"), number("clipped"), number("dB"), number("of the error"),
        )  # fmt: skip
        rows = [
            (
                short_name(row["name"]), row["operator"], row["dtype"],
                f"{row['scale']:.6g}", str(row["zero_point"]),
                percent(row["clipped"], 1), _decibels(row["sqnr_db"]),
                percent(row["blame"], 1) if row["blame"] is not None else "",
            )
            for row in report["rows"]
        ]  # fmt: skip
        outputs = ", ".join(f"{o['name']} {o['sqnr_db']:.1f} dB" for o in report["outputs"])
        return html_table(f"{plural(self.samples, 'sample')}: {outputs}", columns, rows)


class Quantization(PostTraining):
    """The result of `edgec.quantize`: a quantized model that a notebook shows as tables."""

    @staticmethod
    def of(made: PostTraining) -> Quantization:
        return Quantization(**{field.name: getattr(made, field.name) for field in fields(made)})

    def explain(self, *given: Any, **named: Any) -> ShownExplanation:
        """Return `PostTraining.explain`, which a notebook shows as tables."""
        found = super().explain(*given, **named)
        return ShownExplanation(**{f.name: getattr(found, f.name) for f in fields(found)})

    def _repr_html_(self) -> str:
        columns = (
            _NAME("value"), number("least"), number("most"), Column("dtype"), number("scale"),
            number("zero point"),
        )  # fmt: skip
        rows = [
            (
                short_name(value.name), *(f"{end:.6g}" for end in self.ranges.get(value, ())),
                stored.dtype, f"{stored.quant.scale[0]:.6g}", str(stored.quant.zero_point[0]),
            )
            for value, stored in self.scheme.values.items()
            if value in self.ranges
        ]  # fmt: skip
        tried = [
            (way.observer, "yes" if way.equalized else "", _decibels(way.sqnr_db))
            for way in self.candidates
        ]  # fmt: skip
        shown = html_table(f"{plural(len(rows), 'value')} quantized", columns, rows)
        if not tried:
            return shown
        heads = Column("observer"), Column("equalized"), number("dB")
        return html_table("ways that were tried, the first was taken", heads, tried) + shown


def _decibels(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"

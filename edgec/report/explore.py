"""Builds of one model for many boards: as an object, as a table, and as a page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from edgec import __version__
from edgec.boards.power import ENERGY_NOTE
from edgec.deploy.explore import FORMS, Point
from edgec.report.figures import count
from edgec.report.html import page_environment
from edgec.report.table import Column, Table, number

Explored = Sequence[Point]


def report_of(
    model: Path, samples: Sequence[str], points: Explored, sqnr_db: Mapping[str, float | None]
) -> dict[str, Any]:
    """The object for JSON and for the page.

    samples: the words of a command line that name the samples. sqnr_db: of the forms whose
    signal-to-noise ratio is known. `is_best` marks the Pareto-optimal points of each board in RAM,
    flash and time.
    """
    best = {id(point) for board in _by_board(points) for point in _front(board)}
    return {
        "model": model.name,
        "edgec_version": __version__,
        "points": [
            {
                **asdict(point),
                "fits": point.fits,
                "time_ms": _rounded(point.time_ms, 3),
                "energy_mj": _rounded(point.energy_mj, 4),
                "sqnr_db": sqnr_db.get(point.form),
                "is_best": id(point) in best,
                "command": _command(model, samples, point),
                "advice": _advice(point, points),
            }
            for point in points
        ],
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _by_board(points: Explored) -> list[list[Point]]:
    boards = dict.fromkeys(point.board for point in points)
    return [[p for p in points if p.board == board and p.fits] for board in boards]


def _front(points: Explored) -> list[Point]:
    """The Pareto-optimal points."""

    def costs(point: Point) -> tuple[int, int, int]:
        return point.ram_bytes or 0, point.flash_bytes or 0, point.instructions or 0

    return [
        p
        for p in points
        if not any(
            costs(q) != costs(p) and all(a <= b for a, b in zip(costs(q), costs(p), strict=True))
            for q in points
        )
    ]


def _command(model: Path, samples: Sequence[str], point: Point) -> str:
    """Return the commands that make a point; for int8 `edgec build` alone is enough."""
    recipe = FORMS.get(point.form, {})
    first, made = "", str(model)
    if recipe:
        made = f"{model.stem}_{point.form}.onnx"
        words = [word for key, value in recipe.items() for word in (f"--{key}", value)]
        line = ["edgec", "quantize", str(model), *samples, *words, "-o", made]
        first = f"{shlex.join(line)} && "
    own = samples if point.form in FORMS and not recipe else ()
    build = ["edgec", "build", made, "--board", point.board, "--optimize", point.optimize, *own]
    return first + shlex.join(build)


def _advice(point: Point, points: Explored) -> str:
    """Changes that would make a point fit its board; empty if it fits."""
    if point.fits:
        return ""
    others = [p for p in points if p.board == point.board and p.fits]
    if not others:
        return "no build fits this board"
    cheapest = min(others, key=lambda p: (p.ram_bytes or 0, p.flash_bytes or 0))
    form = "" if cheapest.form == point.form else f" as {cheapest.form}"
    return f"--optimize {cheapest.optimize}{form} fits"


def explore_table(report: Mapping[str, Any]) -> list[str]:
    """Lines for a terminal: a row for each point, then how many boards there are it fits."""
    several = len({point["form"] for point in report["points"]}) > 1
    columns = [
        Column("board", least=12),
        Column("level"),
        *([Column("form")] if several else []),
        number("RAM"),
        number("flash"),
        number("instructions"),
        number("ms", optional=1),
        number("mJ", optional=2),
        Column("", least=16),
    ]
    rows = [
        [
            point["board"],
            point["optimize"],
            *([point["form"]] if several else []),
            count(point["ram_bytes"]),
            count(point["flash_bytes"]),
            ("about " if point["source"] == "estimated" else "") + count(point["instructions"]),
            "" if point["time_ms"] is None else f"{point['time_ms']:.2f}",
            "-" if point["energy_mj"] is None else f"{point['energy_mj']:.3g}",
            point["error"],
        ]
        for point in report["points"]
    ]
    # A column that nothing is known for leaves its room to the others.
    kept = [i for i in range(len(columns)) if any(row[i] not in ("", "-") for row in rows)]
    table = Table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])
    boards = {point["board"] for point in report["points"]}
    fitting = {point["board"] for point in report["points"] if point["fits"]}
    summary = f"{report['model']} fits {len(fitting)} of {len(boards)} boards"
    return [*table.text(), "", summary]


def render_explore(report: Mapping[str, Any], *, live: bool = False, nonce: str = "") -> str:
    """One page that needs nothing else: its script filters, sorts and copies.

    live: with a place to drop a model on, for the server; nonce: of its policy for scripts.
    """
    return page_environment().get_template("explore.html.j2").render(
        model=report["model"],
        version=__version__,
        # As text of a script: `<` must not end it.
        data=Markup(_script_json(report["points"])),
        energy_note=ENERGY_NOTE,
        live=live,
        nonce=nonce,
    )  # fmt: skip


def _script_json(value: Any) -> str:
    return json.dumps(value).replace("<", "\\u003c").replace("&", "\\u0026")

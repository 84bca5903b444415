"""The page of `edgec tune`: cost over trials of each nest, and the winners."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from edgec import __version__
from edgec.loop.tuned import TunedGroup
from edgec.report.figures import count, plural
from edgec.report.html import page_environment
from edgec.report.svg import element, picture
from edgec.report.table import Column, Table, number
from edgec.report.tuning import totals

WIDTH, HEIGHT = 640.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 24.0
#: Candidates that take more, relative to the default, are drawn at the top.
MOST_SHARE = 2.0


@dataclass(frozen=True)
class Trial:
    """A candidate by its share of the default's instructions, None if it is none."""

    share: float | None
    title: str
    is_winner: bool


def tuning_page(report: Mapping[str, Any], groups: Mapping[str, TunedGroup]) -> str:
    """One page that needs nothing else. groups: of the report's nests, by digest."""
    nests = [(nest, groups[nest["nest"]]) for nest in report["nests"]]
    return page_environment().get_template("tuning.html.j2").render(
        model=report["model"],
        core=report["core"],
        compiler=next((group.compiler for _, group in nests), ""),
        version=__version__,
        tiles=_tiles(report),
        table=_table(report),
        nests=[
            {
                "title": nest["title"],
                "chart": trial_chart(trials_of(group)),
                "words": _words(group),
                "winners": [_steps(winner.trace) for winner in group.winners],
            }
            for nest, group in nests
            if len(group.tried) > 1
        ],
    )  # fmt: skip


def _tiles(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    before, after = totals(report)
    return [
        ("instructions by default", count(before)),
        ("instructions tuned", count(after)),
        ("of the default", f"{after / before:.1%}" if before else ""),
        ("candidates that were tried", count(sum(nest["tried"] for nest in report["nests"]))),
    ]


def _table(report: Mapping[str, Any]) -> Table:
    columns = [
        Column("layers", least=20),
        number("how many"),
        number("tried"),
        number("by default"),
        number("tuned"),
        number("share"),
        number("code bytes"),
        number("scratch bytes"),
    ]
    return Table(columns, [_row(nest) for nest in report["nests"]])


def _row(nest: Mapping[str, Any]) -> list[str]:
    default, best = nest["default"], nest["best"]
    if default is None or best is None:
        return [nest["name"], str(nest["layers"]), str(nest["tried"]), *[""] * 5]
    return [
        nest["name"],
        str(nest["layers"]),
        str(nest["tried"]),
        count(default["instructions"]),
        count(best["instructions"]),
        f"{best['instructions'] / default['instructions']:.0%}",
        f"{default['code_bytes']:,} to {best['code_bytes']:,}",
        f"{default['scratch_bytes']:,} to {best['scratch_bytes']:,}",
    ]


def trials_of(group: TunedGroup) -> list[Trial]:
    """The candidates of a group in the order in which they were met."""
    default, found = group.figures.get(group.default), []
    winners = {winner.made for winner in group.winners}
    for digest in group.tried:
        figures = group.figures.get(digest)
        if figures is None or default is None:
            found.append(Trial(None, "not measured", False))
            continue
        share = figures.instructions / default.instructions
        title = (
            f"{figures.instructions:,} instructions ({share:.1%}), {figures.cycles:,} cycles, "
            f"{figures.code_bytes:,} bytes of code, {figures.scratch_bytes:,} of scratch"
        )
        found.append(Trial(share, title, digest in winners))
    return found


def trial_chart(trials: Sequence[Trial]) -> Markup:
    """A dot for each candidate, and a line along the best so far; 100 % is the default."""
    shares = [min(t.share, MOST_SHARE) for t in trials if t.share is not None]
    top = max([*shares, 1.0]) * 1.05

    def x(position: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * position / max(len(trials) - 1, 1)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(share, MOST_SHARE) / top

    drawn = [*_axes(top, len(trials), y), _best_line(trials, x, y)]
    for position, trial in enumerate(trials):
        if trial.share is not None:
            style = "taken" if trial.is_winner else "point"
            radius = 4.0 if trial.is_winner else 2.5
            at = {"cx": x(position), "cy": y(trial.share), "r": radius}
            drawn.append(element("circle", element("title", trial.title), class_=style, **at))
    return picture(WIDTH, HEIGHT, "Instructions of each candidate", *drawn, min_width=420)


def _axes(top: float, trials: int, y: Any) -> list[Markup]:
    lines = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
        if share > top:
            break
        at = y(share)
        style = "default" if share == 1 else "axis"
        lines.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_=style))
        lines.append(element("text", f"{share:.0%}", x=LEFT - 6, y=at + 4, class_="end"))
    words = plural(trials, "candidate")
    lines.append(element("text", words, x=WIDTH - RIGHT, y=HEIGHT - 6, class_="end"))
    return lines


def _best_line(trials: Sequence[Trial], x: Any, y: Any) -> Markup:
    points: list[tuple[float, float]] = []
    best = float("inf")
    for position, trial in enumerate(trials):
        if trial.share is not None and trial.share < best:
            if points:
                points.append((x(position), y(best)))
            best = trial.share
            points.append((x(position), y(best)))
    if points:
        points.append((x(len(trials) - 1), y(best)))
    text = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return element("polyline", points=text, class_="front")


def _words(group: TunedGroup) -> str:
    failed = sum(group.figures.get(each) is None for each in group.tried)
    won = "nothing beats the default" if not group.winners else plural(len(group.winners), "winner")
    return f"{plural(len(group.tried), 'candidate')}, {failed} of them not measured; {won}"


def _steps(trace: str) -> list[str]:
    lines = []
    for name, args, *_ in json.loads(trace):
        words = (f"{key}={_word(value)}" for key, value in args.items() if value is not None)
        lines.append(f"{name}({', '.join(words)})")
    return lines


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

"""The graph as a drawing: operators from top to bottom, values between them with their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edgec.report.figures import short_name
from edgec.report.svg import element, fit, number, picture

LEFT, BOX, TALL, GAP, LANE = 12.0, 296.0, 42.0, 26.0, 14.0


def graph_picture(rows: Sequence[Mapping[str, Any]], results: Sequence[str]) -> Markup:
    """A box for every row, in order of execution. An edge to the next row is straight, one that
    skips rows runs in a lane of its own on the right."""
    place = {row["output"]: position for position, row in enumerate(rows)}
    edges = [
        (place[name], position)
        for position, row in enumerate(rows)
        for name in dict.fromkeys(row["inputs"])
        if name in place and place[name] < position
    ]
    long = sorted({edge for edge in edges if edge[1] - edge[0] > 1})
    lanes = _lanes(long)
    busy = max(lanes.values(), default=-1) + 1
    width = LEFT + BOX + 16 + LANE * busy
    marks: list[str] = [_arrow()]
    for first, last in edges:
        if (first, last) in lanes:
            marks.append(_lane(first, last, lanes[first, last]))
        else:
            x = LEFT + BOX / 2
            marks.append(element("path", d=f"M{number(x)} {number(_top(first) + TALL)} V"
                                 f"{number(_top(last) - 1.5)}", class_="edge"))  # fmt: skip
    for position, row in enumerate(rows):
        marks += _box(position, row, row["output"] in results)
    height = _top(len(rows)) - GAP + 8
    return picture(width, height, "The graph, from input to output", *marks)


def _top(position: int) -> float:
    return 6 + position * (TALL + GAP)


def _lanes(edges: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Lanes so that edges side by side do not cross on the way: short ones inside."""
    taken: list[list[tuple[int, int]]] = []
    found = {}
    for first, last in sorted(edges, key=lambda edge: (edge[1] - edge[0], edge)):
        free = (
            lane
            for lane, others in enumerate(taken)
            if all(last <= a or b <= first for a, b in others)
        )
        lane = next(free, len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((first, last))
        found[first, last] = lane
    return found


def _lane(first: int, last: int, lane: int) -> Markup:
    right = LEFT + BOX
    x = right + 14 + LANE * lane
    start, stop = _top(first) + TALL * 0.68, _top(last) + TALL * 0.32
    turn = 7.0
    return element(
        "path",
        d=f"M{number(right)} {number(start)} H{number(x - turn)} "
        f"Q{number(x)} {number(start)} {number(x)} {number(start + turn)} "
        f"V{number(stop - turn)} "
        f"Q{number(x)} {number(stop)} {number(x - turn)} {number(stop)} H{number(right + 1.5)}",
        class_="edge",
    )


def _box(position: int, row: Mapping[str, Any], is_result: bool) -> list[Markup]:
    is_input = row["operators"] == "input"
    style = "input" if is_input else "step" if row["step"] is not None else "view"
    y = _top(position)
    name = row["tensor"] if is_input else row["name"]
    shape = f"{row['dtype']} [{', '.join(str(extent) for extent in row['shape'])}]"
    title = f"{row['operators']}\n{name}\n{shape}\nvalue {row['tensor'] or row['output']}"
    head = row["operators"].replace("+", " + ")
    step = "" if row["step"] is None else str(row["step"])
    after = f"{shape}, output" if is_result else shape
    room = BOX - 24
    return [
        element("rect", element("title", title), x=LEFT, y=y, width=BOX, height=TALL, rx=7.0,
                class_=f"node n-{style}"),
        element("text", fit(head, room * (0.9 if step else 1), 12), x=LEFT + 12, y=y + 17,
                class_="operator"),
        element("text", step, x=LEFT + BOX - 10, y=y + 17, class_="tick end"),
        element("text", fit(short_name(name), room - len(after) * 5.9 - 10, 11), x=LEFT + 12,
                y=y + 33, class_="tick"),
        element("text", fit(after, room, 10.5), x=LEFT + BOX - 10, y=y + 33, class_="shape end"),
    ]  # fmt: skip


def _arrow() -> Markup:
    head = element("path", d="M0 0 L8 4 L0 8 z", class_="head")
    return element(
        "defs",
        element("marker", head, id="arrow", viewBox="0 0 8 8", refX=number(7), refY=number(4),
                markerWidth=number(6), markerHeight=number(6), orient="auto-start-reverse"),
    )  # fmt: skip

"""The memory over time as a picture: steps to the right, arena offsets upwards, one rectangle for
each buffer, hatched where two share bytes because one takes the other's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edgec.report.figures import short_name, tight_name
from edgec.report.svg import SHRINK, element, fit, fit_name, number, picture, slanted, ticks

LEFT, TOP, HEIGHT, FOOT, RIGHT = 64.0, 26.0, 380.0, 106.0, 20.0
FONT = 11.0

#: From a step or an offset to a coordinate.
Scale = Callable[[float], float]
#: An input and the output that takes its place.
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]


def buffer_label(buffer: Mapping[str, Any]) -> str:
    """The name of a buffer for people: the source tensor's own short name."""
    if buffer["kind"] == "scratch":
        return "scratch"
    return short_name(buffer["tensor"] or buffer["name"])


def memory_map(
    buffers: Sequence[Mapping[str, Any]],
    overlaps: Sequence[Mapping[str, Any]],
    steps: Sequence[str],
    region: Mapping[str, Any],
) -> Markup:
    """The picture of one region; `steps` are the names below the axis, `region` its certificate."""
    inside = [b for b in buffers if b["region"] == region["region"] and b["bytes"] > 0]
    count: int = max([1, len(steps), *(b["stop"] for b in inside)])
    peak, bound = region["peak_bytes"], region["lower_bound_bytes"]
    # Files are not trusted: values above the peak must still fit in the picture.
    tallest: int = max([peak, bound, 1, *(b["offset"] + b["bytes"] for b in inside)])
    pitch = max(26.0, min(220.0, 940.0 / count))
    width, base = LEFT + pitch * count + RIGHT, TOP + HEIGHT

    def at(step: float) -> float:
        return LEFT + pitch * step

    def up(offset: float) -> float:
        return base - HEIGHT * (offset / tallest)

    marks: list[str] = []
    for tick in ticks(tallest, 8, base=2):
        marks.append(element("line", x1=LEFT, x2=at(count), y1=up(tick), y2=up(tick),
                             class_="grid"))  # fmt: skip
        # The bound's own label stands here.
        if abs(up(tick) - up(peak)) > 12:
            marks.append(element("text", f"{round(tick):,}", x=LEFT - 8, y=up(tick) + 4,
                                 class_="tick end"))  # fmt: skip
    marks += [_rectangle(b, at, up) for b in inside]
    pairs = _sharing(inside, overlaps)
    for first, second in pairs:
        marks.append(_shared(first, second, at, up))
    marks += [_text(b, _label_steps(b, pairs), at, up) for b in inside]
    marks += _lines(peak, bound, at(count), up)
    for position, name in enumerate(steps):
        title = f"step {position}: {name}"
        marks.append(slanted(position, name, at(position + 0.5), base + 14, title))
    return picture(
        width, base + FOOT, f"Buffers of region {region['region']} over time", _hatching(), *marks,
        min_width=round(width * SHRINK),
    )  # fmt: skip


def _describe(buffer: Mapping[str, Any]) -> str:
    name = buffer["tensor"] or buffer["name"]
    return (
        f"{name}\n{buffer['kind']}, {buffer['bytes']:,} bytes at offset {buffer['offset']:,}\n"
        f"steps {buffer['start']} to {buffer['stop'] - 1}"
    )


def _rectangle(buffer: Mapping[str, Any], at: Scale, up: Scale) -> Markup:
    low, high = up(buffer["offset"]), up(buffer["offset"] + buffer["bytes"])
    return element(
        "rect", element("title", _describe(buffer)), x=at(buffer["start"]) + 0.75, y=high,
        width=at(buffer["stop"]) - at(buffer["start"]) - 1.5, height=max(low - high, 1),
        class_=f"buffer k-{_kind(buffer)}",
    )  # fmt: skip


def _kind(buffer: Mapping[str, Any]) -> str:
    known = ("input", "activation", "output", "scratch", "state")
    return buffer["kind"] if buffer["kind"] in known else "activation"


def _label_steps(buffer: Mapping[str, Any], pairs: Sequence[Pair]) -> tuple[int, int]:
    """Steps under which a label meets no other's: where a buffer dies in place of another, the
    other has the room, unless it has some of its own."""
    start, stop = buffer["start"], buffer["stop"]
    last = min([stop, *(second["start"] for first, second in pairs if first is buffer)])
    own = max([start, *(first["stop"] for first, second in pairs if second is buffer)])
    if own < last:
        return own, last
    return (start, last) if start < last else (start, stop)


def _text(buffer: Mapping[str, Any], steps: tuple[int, int], at: Scale, up: Scale) -> Markup:
    """Name and size inside the rectangle, as far as they fit."""
    left, width = at(steps[0]), at(steps[1]) - at(steps[0]) - 8
    low, high = up(buffer["offset"]), up(buffer["offset"] + buffer["bytes"])
    middle, tall = (low + high) / 2, low - high
    whole, size = buffer_label(buffer), f"{buffer['bytes']:,}"
    name = fit_name(whole, width, FONT)
    if width >= 8 and name not in (whole, tight_name(whole)):
        for both in (f"{whole} {size}", f"{tight_name(whole)} {size}"):
            if fit(both, tall - 4, FONT) == both:
                return _upright(both, left + 4 + width / 2, middle)
    size = size if fit(size, width, FONT) == size else ""
    if tall >= 34 and name and size:
        lines = [(name, middle - 3), (size, middle + 12)]
    elif tall >= 14:
        both = f"{whole} {size}"
        lines = [(both if fit(both, width, FONT) == both else size or name, middle + 4)]
    else:
        lines = []
    return Markup("").join(
        element("text", text, x=left + 4 + width / 2, y=y, class_="inside") for text, y in lines
    )


def _upright(text: str, x: float, y: float) -> Markup:
    """A label that reads upwards, for tall boxes."""
    turn = f"rotate(-90 {number(x)} {number(y)})"
    return element("text", text, x=x, y=y + 4, transform=turn, class_="inside")


def _sharing(
    buffers: Sequence[Mapping[str, Any]], overlaps: Sequence[Mapping[str, Any]]
) -> list[Pair]:
    """The pairs that do overlap, among those that may."""
    by_name = {buffer["name"]: buffer for buffer in buffers}
    pairs = [(by_name.get(o["first"]), by_name.get(o["second"])) for o in overlaps]
    return [
        (first, second)
        for first, second in pairs
        if first is not None
        and second is not None
        and first["start"] < second["stop"]
        and second["start"] < first["stop"]
        and first["offset"] < second["offset"] + second["bytes"]
        and second["offset"] < first["offset"] + first["bytes"]
    ]


def _shared(first: Mapping[str, Any], second: Mapping[str, Any], at: Scale, up: Scale) -> Markup:
    """The bytes and the steps in which both buffers exist."""
    start, stop = max(first["start"], second["start"]), min(first["stop"], second["stop"])
    low = max(first["offset"], second["offset"])
    high = min(first["offset"] + first["bytes"], second["offset"] + second["bytes"])
    title = (
        f"{buffer_label(second)} takes the place of {buffer_label(first)}: "
        f"{high - low:,} bytes are shared in step {start}"
    )
    return element(
        "rect", element("title", title), x=at(start) + 0.75, y=up(high),
        width=at(stop) - at(start) - 1.5, height=up(low) - up(high), class_="shared",
    )  # fmt: skip


def _lines(peak: int, bound: int, right: float, up: Scale) -> list[Markup]:
    """Peak and lower bound; one label where they are the same."""
    found = []
    text = f"peak = lower bound {peak:,}" if peak == bound else f"peak {peak:,}"
    for value, style in ((peak, "peak"), (bound, "bound")):
        found.append(element("line", x1=LEFT, x2=right, y1=up(value), y2=up(value), class_=style))
    found.append(element("text", text, x=LEFT, y=up(peak) - 8, class_="peak-label"))
    if peak != bound:
        below = up(bound) + 14 if up(bound) - up(peak) < 16 else up(bound) - 5
        found.append(element("text", f"lower bound {bound:,}", x=right, y=below,
                             class_="bound-label end"))  # fmt: skip
    return found


def _hatching() -> Markup:
    stripe = element("path", d="M0 6 L6 0", class_="stripe")
    return element(
        "defs",
        element("pattern", stripe, id="hatch", width=number(6), height=number(6),
                patternUnits="userSpaceOnUse"),
    )  # fmt: skip

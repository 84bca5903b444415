"""Layers on this computer as a page: `edgec bench --host --html`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from edgec import __version__
from edgec.report.figures import count, short_title
from edgec.report.html import page_environment
from edgec.report.roofline import LayerTime, Peak, Roofline
from edgec.report.svg import Column as ChartColumn
from edgec.report.svg import column_chart, element, picture
from edgec.report.table import Column, Table, number

WIDTH, HEIGHT = 760.0, 360.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 20.0, 16.0, 40.0


def roofline_table(found: Roofline) -> Table:
    """One line for each layer."""
    columns = (
        Column("layer", least=12), number("µs"), number("MAC"), number("bytes"),
        number("MAC per byte"), number("GMAC/s"), number("of peak"), number("of roof"),
    )  # fmt: skip
    return Table(columns, [_cells(layer, found.peak) for layer in found.layers])


def _cells(layer: LayerTime, peak: Peak) -> list[str]:
    if not layer.macs:
        return [short_title(layer.title), f"{layer.us:.2f}", "", count(layer.bytes), "", "", "", ""]
    return [
        short_title(layer.title), f"{layer.us:.2f}", count(layer.macs), count(layer.bytes),
        f"{layer.macs_per_byte:.1f}", f"{layer.gmacs:.1f}", f"{of_peak(layer, peak):.0%}",
        f"{layer.gmacs / peak.limit(layer.dtype, layer.macs_per_byte):.0%}",
    ]  # fmt: skip


def of_peak(layer: LayerTime, peak: Peak) -> float:
    """The layer's speed as a fraction of the core's best instruction."""
    return layer.gmacs / peak.gmacs(layer.dtype)


def render_rooflines(found: Sequence[Roofline]) -> str:
    """All models as one page."""
    models = [(each, roofline_table(each), _bars(each), roofline_picture(each)) for each in found]
    template = page_environment().get_template("roofline.html.j2")
    return template.render(models=models, version=__version__)


def _bars(found: Roofline) -> Markup:
    """Each layer with products, as a fraction of the peak."""
    columns = [
        ChartColumn(short_title(layer.title), f"{layer.title}: {of_peak(layer, found.peak):.1%}",
                    (100 * of_peak(layer, found.peak),))
        for layer in found.layers if layer.macs
    ]  # fmt: skip
    return column_chart(columns, ("cost",), "%", f"layers of {found.model}")


def roofline_picture(found: Roofline) -> Markup:
    """Layers as points over their products per byte, below the core's limits."""
    layers = [layer for layer in found.layers if layer.gmacs and layer.macs_per_byte]
    if not layers:
        return Markup("")
    dtypes = list(dict.fromkeys(layer.dtype for layer in layers))
    tops = [found.peak.gmacs(dtype) for dtype in dtypes]
    steps = [layer.macs_per_byte for layer in layers]
    left, right = _decades([*steps, *(top / found.peak.gbytes for top in tops)])
    low, high = _decades([*(layer.gmacs for layer in layers), *tops])

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - left) / (right - left) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    marks = [_mark(x(10.0**n), HEIGHT - BOTTOM + 16, 10.0**n) for n in range(left, right + 1)]
    for power in range(low, high + 1):
        at = y(10.0**power)
        marks.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        marks.append(_mark(LEFT - 6, at + 4, 10.0**power, "tick end"))
    for top in sorted(set(tops)):
        bend, start = top / found.peak.gbytes, max(10.0**left, 10.0**low / found.peak.gbytes)
        path = (
            f"M{x(start):.1f} {y(found.peak.gbytes * start):.1f} L{x(bend):.1f} {y(top):.1f}"
            f" L{WIDTH - RIGHT:.1f} {y(top):.1f}"
        )
        marks.append(element("path", d=path, class_="front"))
    for layer in layers:
        title = element("title", f"{layer.title}: {layer.gmacs:.1f} GMAC/s")
        place = {"cx": x(layer.macs_per_byte), "cy": y(layer.gmacs)}
        marks.append(element("circle", title, r=4.0, class_="point", **place))
    note = "GMAC/s over MAC for each byte"
    marks.append(element("text", note, x=WIDTH - RIGHT, y=HEIGHT - 6, class_="tick end"))
    return picture(WIDTH, HEIGHT, f"roofline of {found.model}", *marks, min_width=560)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _mark(x: float, y: float, value: float, style: str = "tick") -> Markup:
    return element("text", f"{value:g}", x=x, y=y, class_=style)

"""Pictures of a run: boxes on the picture that was given, or the spectrogram of a sound, as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.build.staging import staged_file
from edgec.errors import EdgecError, ToolMissing
from edgec.report.spectrogram import loudness

#: Colours of boxes, by the number of the class; they differ on light and on dark pictures.
COLOURS = ("#ff3b30", "#0a84ff", "#30d158", "#ff9f0a", "#bf5af2", "#64d2ff", "#ffd60a", "#ff375f")
#: Pictures that are smaller are drawn larger, so that names can be read.
LEAST_SIDE = 384
#: From quiet to loud.
_RAMP = np.array([[13, 8, 60], [84, 15, 109], [186, 54, 85], [249, 142, 8], [252, 255, 164]])
_SOUND_SIZE, _LEFT, _BELOW = (880, 300), 64, 28


def _pillow() -> Any:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise ToolMissing(
            "--picture draws with Pillow, which is not installed", hint="pip install pillow"
        ) from None
    return Image, ImageDraw, ImageFont


def draw_boxes(source: Path, boxes: Sequence[Mapping[str, Any]], target: Path) -> None:
    """The picture with a box, a name and a score for everything that was found.

    Raises EdgecError for a picture that cannot be read, ToolMissing without Pillow.
    """
    image_module, draw_module, font_module = _pillow()
    try:
        with image_module.open(source) as opened:
            image = opened.convert("RGB")
    except (OSError, ValueError) as error:
        raise EdgecError(f"cannot read the image {source}: {error}") from None
    factor = max(1, -(-LEAST_SIDE // min(image.size)))
    image = image.resize((image.width * factor, image.height * factor), 0)
    draw = draw_module.Draw(image)
    font = font_module.load_default(max(12, min(image.size) // 30))
    width = max(2, min(image.size) // 200)
    for box in reversed(boxes):  # the best lie on top
        colour = COLOURS[box["class"] % len(COLOURS)]
        corners = _corners(box, image.size)
        draw.rectangle(corners, outline=colour, width=width)
        name = box["label"] if box["label"] is not None else f"class {box['class']}"
        _write(draw, font, (corners[0], corners[1]), f"{name} {box['score']:.2f}", colour)
    _save(image, target)


def _corners(box: Mapping[str, Any], size: tuple[int, int]) -> list[float]:
    """Pixels of a box, inside the picture, left of right and top above bottom."""
    spans = [
        sorted(min(max(box[side] * (extent - 1), 0.0), extent - 1.0) for side in sides)
        for sides, extent in ((("left", "right"), size[0]), (("top", "bottom"), size[1]))
    ]
    return [spans[0][0], spans[1][0], spans[0][1], spans[1][1]]


def _write(draw: Any, font: Any, at: tuple[float, float], text: str, colour: str) -> None:
    """The name on a ground of the box's colour: above the box, or inside if there is no room."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    height = bottom - top + 6
    y = at[1] - height if at[1] >= height else at[1]
    draw.rectangle([at[0], y, at[0] + right - left + 6, y + height], fill=colour)
    bright = sum(int(colour[k : k + 2], 16) * f for k, f in ((1, 0.3), (3, 0.59), (5, 0.11)))
    ink = "black" if bright > 120 else "white"
    draw.text((at[0] + 3 - left, y + 3 - top), text, ink, font=font)


def draw_spectrogram(samples: Any, rate: int, target: Path) -> None:
    """The loudness of frequencies over time, with axes in Hz and seconds. ToolMissing without
    Pillow.

    samples: float64 from -1 to 1.
    """
    image_module, draw_module, font_module = _pillow()
    width, height = _SOUND_SIZE
    level = loudness(samples, rate, width // 4, height // 2)
    at = level * (len(_RAMP) - 1)
    low = np.minimum(at.astype(np.int64), len(_RAMP) - 2)
    part = (at - low)[..., None]
    colours = _RAMP[low] * (1 - part) + _RAMP[low + 1] * part
    field = image_module.fromarray(np.rint(colours).astype(np.uint8)).resize((width, height), 2)
    image = image_module.new("RGB", (width + _LEFT + 24, height + _BELOW + 12), "white")
    image.paste(field, (_LEFT, 12))
    draw, font = draw_module.Draw(image), font_module.load_default(13)
    for part_of in range(5):
        y = 12 + height * part_of / 4
        draw.line([_LEFT - 5, y, _LEFT, y], "black")
        draw.text((_LEFT - 8, y), f"{rate / 2 * (1 - part_of / 4):,.0f} Hz", "black", font, "rm")
        x = _LEFT + width * part_of / 4
        draw.line([x, 12 + height, x, 17 + height], "black")
        seconds = len(samples) / rate * part_of / 4
        draw.text((x, 19 + height), f"{seconds:.2f} s", "black", font, "mt")
    _save(image, target)


def _save(image: Any, target: Path) -> None:
    with staged_file(target, hint="choose another --picture") as temporary:
        image.save(temporary, format="PNG")

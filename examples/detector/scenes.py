"""Scenes with shapes in them, drawn with fixed seeds, and pictures of what was found."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

SIZE, CELL, NAMES = 48, 8, ("circle", "square", "triangle")
GRID = SIZE // CELL
COLOURS = ("tomato", "deepskyblue", "limegreen")


def scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Gray pixels [SIZE, SIZE] of 0 to 1, and a row (kind, x, y, half the side) for each shape."""
    image = Image.new("L", (SIZE, SIZE), int(rng.integers(20, 90)))
    draw, shapes = ImageDraw.Draw(image), []
    while len(shapes) < rng.integers(1, 4):
        kind, half = int(rng.integers(3)), rng.uniform(4, 8)
        x, y = rng.uniform(half, SIZE - half, 2)
        if any(max(abs(x - a), abs(y - b)) < half + c + 1 for _, a, b, c in shapes):
            continue  # shapes do not hide each other
        gray, box = int(rng.integers(130, 255)), (x - half, y - half, x + half, y + half)
        if NAMES[kind] == "circle":
            draw.ellipse(box, gray)
        elif NAMES[kind] == "square":
            draw.rectangle(box, gray)
        else:
            draw.polygon([(x, box[1]), (box[2], box[3]), (box[0], box[3])], gray)
        shapes.append((kind, x, y, half))
    pixels = np.asarray(image, np.float32) / 255 + rng.normal(0, 0.03, (SIZE, SIZE))
    return np.clip(pixels, 0, 1).astype(np.float32), np.array(shapes, np.float32)


def target(shapes: np.ndarray) -> np.ndarray:
    """float32 [4, GRID, GRID]: in a shape's cell 1 + its kind, its place in the cell, its size."""
    wanted = np.zeros((4, GRID, GRID), np.float32)
    for kind, x, y, half in shapes:
        column, row = int(x // CELL), int(y // CELL)
        wanted[:, row, column] = 1 + kind, x / CELL - column, y / CELL - row, half / CELL
    return wanted


def draw_boxes(pixels: np.ndarray, found: list[tuple[int, float, float, float]]) -> Image.Image:
    """The scene, four times as large, with a box and a name for each shape that was found."""
    image = Image.fromarray((255 * pixels).astype(np.uint8)).convert("RGB")
    image = image.resize((4 * SIZE, 4 * SIZE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(image)
    for kind, x, y, half in found:
        box = [4 * (x - half), 4 * (y - half), 4 * (x + half), 4 * (y + half)]
        draw.rectangle(box, outline=COLOURS[kind], width=2)
        draw.text((box[0] + 3, box[1] + 1), NAMES[kind], COLOURS[kind])
    return image

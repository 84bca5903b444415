"""Boxes from the outputs of detectors, and pictures of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.errors import EdgecError
from edgec.report.boxes import BoxOutputs, find_boxes, read_boxes
from edgec.report.drawing import draw_boxes, draw_spectrogram
from edgec.report.spectrogram import loudness, spectrogram_lines

SIDES = ("left", "top", "right", "bottom")


@dataclass(frozen=True)
class Port:
    name: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


def found(outputs: dict[str, Any], given: BoxOutputs | None, **more: Any) -> Any:
    ports = [Port(name) for name in outputs]
    arrays = [np.asarray(array, np.float32) for array in outputs.values()]
    return find_boxes(ports, arrays, given, (100, 200), **more)  # type: ignore[arg-type]


def sides(box: dict[str, Any]) -> list[float]:
    return [round(box[side], 3) for side in SIDES]


def test_detection_post_process_is_known_by_its_shapes() -> None:
    rows = [[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0.9, 0.9, 1.0, 1.0]]]
    outputs = {"a": rows, "b": [[1, 0, 2]], "c": [[0.6, 0.9, 0.3]], "d": [2]}
    best, other = found(outputs, None, labels=["cat", "dog"])
    assert (best["label"], best["class"], sides(best)) == ("cat", 0, [0.6, 0.5, 0.8, 0.7])
    assert (other["label"], sides(other)) == ("dog", [0.2, 0.1, 0.4, 0.3])
    assert found({"a": [[1, 2, 3]]}, None) is None


@pytest.mark.parametrize(("form", "row"), [
    ("xyxy", [20, 10, 60, 50]), ("yxyx", [10, 20, 50, 60]),
    ("xywh", [20, 10, 40, 40]), ("cxcywh", [40, 30, 40, 40]),
])  # fmt: skip
def test_forms_in_pixels(form: str, row: list[float]) -> None:
    given = read_boxes(f"boxes=b,scores=s,form={form},unit=pixels")
    (box,) = found({"b": [[row]], "s": [[0.75]]}, given)
    assert sides(box) == [0.1, 0.1, 0.3, 0.5] and box["score"] == 0.75 and box["label"] is None


def test_the_best_of_a_heap_stays() -> None:
    rows = [[0, 0, 0.5, 0.5], [0.02, 0, 0.5, 0.5], [0.02, 0, 0.5, 0.5], [0.6, 0.6, 1, 1]]
    scores = [[0.9, 0.1], [0.8, 0.2], [0.1, 0.7], [0.95, 0.4]]
    joined = np.concatenate([rows, scores], axis=1)[None]
    one = found({"b": joined}, read_boxes("boxes=b"))
    two = found({"b": [rows], "s": [scores]}, read_boxes("boxes=b,scores=s"))
    assert one == two
    assert [(b["class"], round(b["score"], 2)) for b in one] == [(0, 0.95), (0, 0.9), (1, 0.7)]
    without = found({"b": joined}, read_boxes("boxes=b,background=0,least=0.3"))
    assert [(b["class"], round(b["score"], 2)) for b in without] == [(1, 0.7), (1, 0.4)]


@pytest.mark.parametrize("text", ["", "scores=s", "boxes=b,form=abcd", "boxes=b,least=x", "box=b"])
def test_words_that_are_no_boxes(text: str) -> None:
    with pytest.raises(ValueError):
        read_boxes(text)


@pytest.mark.parametrize(("text", "said"), [
    ("boxes=x", "no output 'x'"), ("boxes=b,scores=s", "are not boxes"),
    ("boxes=s", "are not boxes"),
    ("boxes=b,scores=t,classes=s", "3 classes of 2 boxes"),
])  # fmt: skip
def test_outputs_that_do_not_fit(text: str, said: str) -> None:
    outputs = {"b": np.zeros((1, 2, 4)), "s": np.zeros(3), "t": np.ones(2)}
    with pytest.raises(EdgecError, match=said):
        found(outputs, read_boxes(text))


def test_a_box_on_a_picture(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image.new("RGB", (200, 100), "white").save(tmp_path / "in.png")
    box = {"class": 1, "label": None, "score": 0.5,
           "left": 0.25, "top": 0.5, "right": 0.75, "bottom": 2.0}  # fmt: skip
    draw_boxes(tmp_path / "in.png", [box], tmp_path / "out.png")
    with image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (800, 400) and drawn.format == "PNG"
        blue = (0x0A, 0x84, 0xFF)
        assert drawn.getpixel((199, 300)) == blue == drawn.getpixel((400, 399))
        assert drawn.getpixel((400, 300)) == (255, 255, 255) == drawn.getpixel((100, 300))


def test_a_tone_in_a_spectrogram(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    rate = 8000
    turn = 2 * np.pi * 1000 / rate * np.arange(rate)
    samples = np.where(np.arange(rate) < rate // 2, np.sin(turn), 0.0)
    table = loudness(samples, rate, 60, 12)
    assert table.shape == (12, 60) and table.max() == 1
    loud = np.unravel_index(table.argmax(), table.shape)
    assert loud[0] == 9  # of 12 rows from 4000 Hz down, the tenth is 667 to 1000 Hz
    assert table[loud[0], :25].min() > 0.9 and not table[:, 35:].any()
    lines = spectrogram_lines(samples, rate, 80)
    assert len(lines) == 13 and max(map(len, lines)) <= 80 and lines[-1].endswith("1.00 s")
    draw_spectrogram(samples, rate, tmp_path / "s.png")
    with image.open(tmp_path / "s.png") as drawn:
        bright, dark = drawn.getpixel((200, 12 + 225)), drawn.getpixel((800, 12 + 225))
        assert sum(bright) > 500 and sum(dark) < 100
    assert not loudness(np.zeros(100), rate, 10, 4).any()

"""The inputs that `edgec run` shows: the spectrogram of a sound, boxes on a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click


def check_picture(picture: Path | None, inputs: Sequence[str]) -> None:
    """Raise UsageError, before all the work, where there is nothing to draw on."""
    if picture is not None and not (_files(inputs, images=True) or _files(inputs, images=False)):
        raise click.UsageError("--picture draws on an --input that is a picture or a .wav")


def show_inputs(
    inputs: Sequence[str], report: Mapping[str, Any], picture: Path | None, *, quiet: bool
) -> list[str]:
    """Draw the picture, and return the lines of a sound's spectrogram for the terminal."""
    from edgec.report.drawing import draw_boxes, draw_spectrogram
    from edgec.report.spectrogram import spectrogram_lines
    from edgec.report.table import terminal_width
    from edgec.runners.media_files import read_sound

    images, sounds = _files(inputs, images=True), _files(inputs, images=False)
    if picture is not None and images:
        draw_boxes(images[0], report.get("boxes", ()), picture)
        picture = None
    sound = read_sound(sounds[0]) if sounds else None
    if sound is not None and picture is not None:
        draw_spectrogram(sound.samples, sound.rate, picture)
    if sound is None or quiet:
        return []
    return [*spectrogram_lines(sound.samples, sound.rate, terminal_width()), ""]


def _files(inputs: Sequence[str], *, images: bool) -> list[Path]:
    """The inputs that are pictures, or sounds, without the names of the model's inputs."""
    from edgec.runners.media_files import IMAGES

    found = []
    for word in inputs:
        path = Path(word) if Path(word).exists() else Path(word.rpartition("=")[2])
        if path.suffix.lower() in (IMAGES if images else (".wav",)):
            found.append(path)
    return found

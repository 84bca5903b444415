"""Inputs in the user's terms: pictures, sounds and tables, as the real values that a model takes.

An integer input gets `real / scale + zero_point`, rounded to nearest even and saturated, by the
scale and zero point of its port; one without a scale takes whole numbers as they are.
"""

from __future__ import annotations

import struct
import warnings
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ToolMissing
from edgec.resources import plain_file
from edgec.runners.inputs import Port, describe_port

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".webp", ".tif", ".tiff")
MEDIA = (*IMAGES, ".wav", ".csv")
#: Exceptions of Pillow for files that are not pictures, or cut off, or damaged.
DAMAGED = (OSError, EOFError, IndexError, MemoryError, SyntaxError, ValueError, struct.error)


#: Makes features of a sound: its file, the input, and the steps that they are for.
Hear = Callable[[Path, Port, int], Any]


@dataclass(frozen=True)
class Sound:
    """samples: float64 from -1 to 1, the mean of the channels. rate: samples per second."""

    samples: Any
    rate: int


def read_media(
    path: Path, port: Port, pixels: tuple[float, float], steps: int, hear: Hear | None = None
) -> Any:
    """The values of a picture, a WAV or a CSV file in the port's dtype and shape.

    pixels: the real values of black and white. steps: with more than one, a first axis of steps;
    a sound or table holds them one after the other, a picture is the same in each. hear: makes
    the values of a sound in place of its samples. Raises EdgecError for a file that is damaged or
    does not fit, ToolMissing for a picture without Pillow.
    """
    kind = path.suffix.lower()
    if kind == ".wav" and hear is not None:
        return hear(path, port, steps)
    if kind in IMAGES:
        real = image_reader(port, path, pixels)(path)
        real = real if steps == 1 else np.repeat(real[np.newaxis], steps, axis=0)
    else:
        values = read_sound(path).samples if kind == ".wav" else _csv(path)
        real = _consecutive(values, path, port, steps)
    return stored(real, port, path)


def stored(real: Any, port: Port, path: Path) -> Any:
    """Real values as the port stores them. Raises EdgecError where a dtype cannot hold them."""
    if port.dtype.startswith("float"):
        return real.astype(port.dtype)
    info: Any = np.iinfo(port.dtype) if port.dtype != "bool" else None
    low, high = (0, 1) if info is None else (info.min, info.max)
    if len(port.scale) == 1:
        zero_point = port.zero_point[0] if port.zero_point else 0
        values = np.clip(np.rint(real / np.float64(port.scale[0])) + zero_point, low, high)
    else:
        values = np.clip(np.rint(real), low, high)
        if not np.array_equal(values, real):
            raise EdgecError(
                f"{path} has values that {describe_port(port)} cannot hold",
                details=(f"the input has no scale: whole numbers from {low} to {high}",),
            )
    return values.astype(port.dtype)


def _consecutive(real: Any, path: Path, port: Port, steps: int) -> Any:
    """Values in a row as the elements of one or more runs."""
    size = int(np.prod(port.shape, dtype=np.int64))
    if real.size != steps * size:
        runs = real.size // size if size else 0
        raise EdgecError(
            f"{path} has {real.size:,} values, and {steps} of {describe_port(port)} need "
            f"{steps * size:,}",
            hint=f"cut it to {runs * size:,} values and give --steps {runs}" if runs else "",
        )
    return real.reshape(tuple(port.shape) if steps == 1 else (steps, *port.shape))


def read_sound(path: Path) -> Sound:
    """A WAV file of PCM of 8, 16 or 32 bits. Raises EdgecError for another."""
    try:
        with wave.open(str(plain_file(path))) as sound:
            width, channels = sound.getsampwidth(), sound.getnchannels()
            rate = sound.getframerate()
            data = sound.readframes(sound.getnframes())
    except (OSError, wave.Error, EOFError) as error:
        raise EdgecError(
            f"cannot read the sound {path}: {str(error) or 'it is cut off'}",
            hint="use a WAV file of PCM",
        ) from None
    if width not in (1, 2, 4):
        raise EdgecError(f"{path} has samples of {8 * width} bits", hint="convert it to 16 bits")
    raw = np.frombuffer(data, {1: "u1", 2: "<i2", 4: "<i4"}[width]).astype(np.float64)
    centred = (raw - 128) / 128 if width == 1 else raw / (1 << (8 * width - 1))
    whole = centred[: len(centred) // channels * channels].reshape(-1, channels)
    return Sound(whole.mean(axis=1), rate)


def _csv(path: Path) -> Any:
    """The numbers of a table in reading order; a first line of names is left out."""
    try:
        with plain_file(path).open(encoding="utf-8") as stream:
            lines = [line for line in stream.read().splitlines() if line.split("#")[0].strip()]
        try:
            np.loadtxt(lines[:1] or ["none"], delimiter=",")
        except ValueError:
            lines = lines[1:]
        if not lines:
            raise ValueError("it has no numbers")
        return np.loadtxt(lines, delimiter=",", ndmin=2).reshape(-1)
    except (OSError, ValueError) as error:
        raise EdgecError(
            f"cannot read the table {path}: {error}", hint="use numbers with commas between them"
        ) from None


def _ends(pixels: tuple[Any, Any], channels: int, port: Port) -> tuple[Any, Any]:
    """Black and white, each one number or one for each channel. Raises EdgecError."""
    low, high = (np.asarray(side, np.float64) for side in pixels)
    if low.size not in (1, channels):
        raise EdgecError(
            f"--pixels has {low.size} means, and {describe_port(port)} has {channels} channels"
        )
    return low, high


def image_reader(port: Port, source: Path, pixels: tuple[Any, Any]) -> Callable[[Path], Any]:
    """A function from a picture to the real values of the port's input, scaled to its size.

    Raises ToolMissing without Pillow, EdgecError for an input that is not a picture; the function
    raises EdgecError for a file that is not one. source: named in errors. pixels: black and white,
    each a number or one number for each channel.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ToolMissing(
            f"{source} holds images, which Pillow reads, and it is not installed",
            hint="pip install pillow",
        ) from None
    shape = tuple(port.shape)
    places = [axis for axis in (3, 1) if len(shape) == 4 and shape[axis] in (1, 3)]
    if not places:
        raise EdgecError(
            f"{source} holds images, but the model's input is {describe_port(port)}",
            hint="images need an input of 1 or 3 channels: [1, H, W, C] or [1, C, H, W]",
        )
    axis = places[0]
    height, width = shape[1:3] if axis == 3 else shape[2:4]
    low, high = _ends(pixels, shape[axis], port)

    def read(file: Path) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(plain_file(file)) as image:
                    grey = image.convert("L" if shape[axis] == 1 else "RGB")
                    data = np.asarray(grey.resize((width, height), Image.Resampling.BILINEAR))
        except (Image.DecompressionBombError, Image.DecompressionBombWarning, *DAMAGED) as error:
            raise EdgecError(f"cannot read the image {file}: {error}") from None
        data = data.reshape(height, width, shape[axis])
        real = low + data.astype(np.float64) * ((high - low) / 255.0)
        return (real.transpose(2, 0, 1) if axis == 1 else real).reshape(shape)

    return read

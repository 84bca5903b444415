"""Samples of the MLPerf Tiny benchmarks, as bytes that a device is sent, with their labels."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.codegen.harness import ANOMALY, IMAGES, KEYWORDS, MEANINGS, PERSON, WAKE_WORD
from edgec.errors import EdgecError, ToolMissing

#: Frames of a recording that make one input of anomaly detection.
_FRAMES = 5


@dataclass(frozen=True)
class Sample:
    """One sample: the inputs that are sent (several for a recording), and its label, if the set has
    labels.
    """

    inputs: tuple[bytes, ...]
    label: int | None


def keywords(folder: Path, most: int) -> Iterator[Sample]:
    """Spectrograms, int8 as the model has them."""
    stored = np.load(folder / "mlperf_kws01_dev500_int8.npz")
    for x, y in list(zip(stored["x"], stored["y"], strict=True))[:most]:
        yield Sample((x.tobytes(),), int(y))


def images(folder: Path, most: int) -> Iterator[Sample]:
    """CIFAR-10 images, unsigned bytes."""
    stored = np.load(folder / "cifar10_test_exact_dev240.npz")
    for x, y in list(zip(stored["x"], stored["y"], strict=True))[:most]:
        yield Sample((x.astype(np.uint8).tobytes(),), int(y))


def persons(folder: Path, most: int) -> Iterator[Sample]:
    """Photographs, unsigned bytes; the files hold blue, green, red, the model reads the reverse."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolMissing(
            "reading the photographs needs the Python package pillow", hint="pip install pillow"
        ) from error
    with zipfile.ZipFile(folder / "mlperf_vww01_dev500_BGRjpg96.zip") as archive:
        listing = next(name for name in archive.namelist() if name.endswith("labels.csv"))
        with archive.open(listing) as stream:
            rows = list(csv.reader(io.TextIOWrapper(stream, encoding="utf-8")))
        labels = {row[0]: int(row[-1]) for row in rows if row and row[-1].strip().isdigit()}
        for name in sorted(n for n in archive.namelist() if n.endswith(".jpg"))[:most]:
            with Image.open(io.BytesIO(archive.read(name))) as image:
                pixels = np.asarray(image.convert("RGB"))[..., ::-1]
            yield Sample((pixels.tobytes(),), labels[Path(name).stem])


def recordings(folder: Path, most: int) -> Iterator[Sample]:
    """Recordings of machines as windows of five frames, float32; at most `most` windows of each.

    The samples are stored in the int8 model's own quantization.
    """
    scale, zero_point = 0.3910152316093445, 89
    stored = np.load(folder / "mlperf_ad_toycar_6clips_int8.npz")
    for clip, y in zip(stored["x"], stored["y"], strict=True):
        firsts = np.arange(clip.shape[0] - _FRAMES + 1)
        firsts = firsts[:: max(1, -(-len(firsts) // most))]
        real = ((clip.astype(np.float32) - zero_point) * np.float32(scale)).astype("<f4")
        windows = tuple(real[first : first + _FRAMES].tobytes() for first in firsts)
        yield Sample(windows, int(y))


def wake_words(folder: Path, most: int) -> Iterator[Sample]:
    """Spectrograms of 30 frames of 40 bands, in the int8 model's own quantization.

    The set was made for calibrating that model, so its accuracy is not a result of the benchmark.
    """
    scale, zero_point = MEANINGS[WAKE_WORD][1:]
    stored = np.load(folder / "mlperf_sww_calibration_samples.npz")
    spectrograms = stored["specs"]
    labels = stored["labels"] if "labels" in stored.files else [None] * len(spectrograms)
    for x, y in list(zip(spectrograms, labels, strict=True))[:most]:
        quantized = np.clip(np.round(x / scale) + zero_point, -128, 127).astype(np.int8)
        # A class, or a one among zeros.
        label = None if y is None else int(y if np.size(y) == 1 else np.argmax(y))
        yield Sample((quantized.tobytes(),), label)


@dataclass(frozen=True)
class Benchmark:
    """The name of its model on a device, and its samples."""

    id: str
    samples: Callable[[Path, int], Iterator[Sample]]


#: By the names of baselines.json, in the order in which the benchmark lists them.
BENCHMARKS = {
    "kws": Benchmark(KEYWORDS, keywords),
    "vww": Benchmark(PERSON, persons),
    "ic": Benchmark(IMAGES, images),
    "ad": Benchmark(ANOMALY, recordings),
    "sww": Benchmark(WAKE_WORD, wake_words),
}


def load_samples(key: str, folder: Path, most: int) -> list[Sample]:
    """Return samples of a benchmark. Raises EdgecError where the data is not there."""
    try:
        samples = list(BENCHMARKS[key].samples(folder, most))
        if not samples:
            raise ValueError("there are none")
        return samples
    except (OSError, KeyError, StopIteration, ValueError, zipfile.BadZipFile) as error:
        raise EdgecError(
            f"the samples of {key} are not readable in {folder}: {error}",
            hint="set EDGEC_SHARED to the folder that holds `data`",
        ) from error


def area_under_curve(scores: list[float], labels: list[int]) -> float:
    """Return how often a sample of label 1 has a higher score than one of label 0; ties half."""
    ones = [score for score, label in zip(scores, labels, strict=True) if label]
    zeros = [score for score, label in zip(scores, labels, strict=True) if not label]
    if not ones or not zeros:
        raise EdgecError("the recordings are all of one kind")
    won = sum((one > zero) + 0.5 * (one == zero) for one in ones for zero in zeros)
    return won / (len(ones) * len(zeros))

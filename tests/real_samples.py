"""Real evaluation data as inputs of the sample models, quantized as their makers say.

Every function takes the folder of sample data and gives arrays of one model's input shape.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

#: Scale and zero point of mlperf_sww_int8's input.
SWW_INPUT = (0.003701042616739869, -128)


def kws(data: Path) -> Iterator[np.ndarray]:
    """500 spectrograms of the MLPerf Tiny keyword set, already int8."""
    for x in np.load(data / "mlperf_kws01_dev500_int8.npz")["x"]:
        yield x[None]


def ic(data: Path) -> Iterator[np.ndarray]:
    """240 CIFAR-10 images; the model's input scale is 1 and its zero point -128."""
    for x in np.load(data / "cifar10_test_exact_dev240.npz")["x"]:
        yield (x.astype(np.int16) - 128).astype(np.int8)[None]


def vww(data: Path) -> Iterator[np.ndarray]:
    """500 photographs; the files hold blue, green, red, the model reads red, green, blue."""
    from PIL import Image

    with zipfile.ZipFile(data / "mlperf_vww01_dev500_BGRjpg96.zip") as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".jpg")):
            with Image.open(io.BytesIO(archive.read(name))) as image:
                pixels = np.asarray(image.convert("RGB"))[..., ::-1]
            yield (pixels.astype(np.int16) - 128).astype(np.int8)[None]


def ad(data: Path) -> Iterator[np.ndarray]:
    """Windows of five frames of six machine recordings, every 14th of them."""
    for clip in np.load(data / "mlperf_ad_toycar_6clips_int8.npz")["x"]:
        for first in range(0, clip.shape[0] - 4, 14):
            yield np.ascontiguousarray(clip[first : first + 5].reshape(1, 640))


def sww(data: Path) -> Iterator[np.ndarray]:
    """45 spectrograms of the streaming wake word's calibration set."""
    scale, zero_point = SWW_INPUT
    for spectrogram in np.load(data / "mlperf_sww_calibration_samples.npz")["specs"]:
        stored = np.round(spectrogram / scale) + zero_point
        yield np.clip(stored, -128, 127).astype(np.int8)[None]


def person_detect(data: Path) -> Iterator[np.ndarray]:
    """Two greyscale photographs, with a person and without."""
    from PIL import Image

    for name in ("tflm_person.bmp", "tflm_no_person.bmp"):
        with Image.open(data / name) as image:
            pixels = np.asarray(image.convert("L"))
        yield (pixels.astype(np.int16) - 128).astype(np.int8)[None, ..., None]


#: By the names of baselines.json.
SAMPLES: dict[str, Callable[[Path], Iterator[np.ndarray]]] = {
    "kws": kws,
    "ic": ic,
    "vww": vww,
    "ad": ad,
    "sww": sww,
    "person_detect": person_detect,
}

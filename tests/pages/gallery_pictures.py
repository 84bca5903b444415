"""Draw the pictures of `docs/gallery.md` from the examples' own data.

python tests/pages/gallery_pictures.py     writes docs/gallery/*.png; it needs matplotlib and Pillow
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

REPO_ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, FOLDER = REPO_ROOT / "examples", REPO_ROOT / "docs" / "gallery"
for name in ("gesture", "vibration", "denoise", "detector", "torch_kws"):
    sys.path.insert(0, str(EXAMPLES / name))


def save(name: str) -> None:
    pyplot.tight_layout()
    pyplot.savefig(FOLDER / f"{name}.png", dpi=90, metadata={"Software": None})
    pyplot.close()


def panels(count: int, titles: Sequence[str], draw: Callable[[Any, int], None]) -> None:
    """A row of pictures with titles and without ticks."""
    figure, axes = pyplot.subplots(1, count, figsize=(1.55 * count, 1.8))
    figure.patch.set_facecolor("white")
    for index, axis in enumerate(axes):
        draw(axis, index)
        axis.set_title(titles[index], fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])


def digits() -> None:
    """Held-out images, with the answers of the C on this computer."""
    import edgec

    with np.load(EXAMPLES / "digits" / "digits_test.npz") as archive:
        images = archive["x"][:8]
    with edgec.compile(EXAMPLES / "digits" / "digits_int8.onnx", board="host") as model:
        answers = [int(np.argmax(model.run(image[np.newaxis]))) for image in images]
    titles = [f"it reads {answer}" for answer in answers]
    panels(8, titles, lambda axis, i: axis.imshow(images[i][0], cmap="gray_r"))
    save("digits")


def torch_kws() -> None:
    """A second of each word, as the network hears it: time to the right, bands upward."""
    from words import NAMES, features, spoken

    random = np.random.RandomState(3)
    heard = [features(spoken(word, random)) for word in NAMES]
    panels(len(NAMES), NAMES, lambda axis, i: axis.imshow(
        heard[i].T, origin="lower", aspect="auto", cmap="magma"))  # fmt: skip
    save("torch_kws")


def wav_kws() -> None:
    """Three sounds, and what the C of features.toml hears of each."""
    from words import SECOND, spoken

    import edgec

    random = np.random.RandomState(3)
    names = ("yes", "no", "right")
    sounds = [spoken(name, random) for name in names]
    with edgec.compile(EXAMPLES / "wav_kws" / "features.toml", board="host") as front:
        size = front.built.manifest.inputs[0].shape[-1]
        heard = [
            np.concatenate(
                [
                    front.run(frame)
                    for frame in np.int16(sound * (32767 / np.abs(sound).max()))[
                        : SECOND // size * size
                    ].reshape(-1, 1, size)
                ]
            )
            for sound in sounds
        ]

    def draw(axis: Any, i: int) -> None:
        if i % 2:
            axis.imshow(heard[i // 2].T, origin="lower", aspect="auto", cmap="magma")
        else:
            axis.plot(sounds[i // 2], linewidth=0.4)

    panels(6, [name + kind for name in names for kind in (".wav", ", heard")], draw)
    save("wav_kws")


def vibration() -> None:
    """The first 80 ms of a healthy machine and of each fault."""
    from machine import FAULTS, windows

    heard = [windows(1, 5, kind)[0, 0, :128] for kind in ("", *FAULTS)]
    panels(4, ("healthy", *FAULTS), lambda axis, i: axis.plot(heard[i], linewidth=0.8))
    save("vibration")


def gesture() -> None:
    """Three accelerations of each gesture over two seconds."""
    from motion import NAMES
    from motion import gesture as move

    rng = np.random.default_rng(4)
    moved = [move(kind, rng)[:, :3] for kind in range(len(NAMES))]
    panels(len(NAMES), NAMES, lambda axis, i: axis.plot(moved[i], linewidth=0.9))
    save("gesture")


def denoise() -> None:
    """What comes in, and the voice that is wanted of it: time to the right, pitch upward."""
    from sound import scene, spectra

    clean, noisy = scene(2.0, 501)
    shown = [np.log10(np.abs(spectra(each)).T ** 2 + 1e-4) for each in (noisy, clean)]
    panels(2, ("in noise", "wanted"), lambda axis, i: axis.imshow(
        shown[i], origin="lower", aspect="auto", cmap="magma", vmin=-4, vmax=2))  # fmt: skip
    save("denoise")


def detector() -> None:
    """What the emulated board found; its own script draws it."""
    (FOLDER / "detector.png").write_bytes((EXAMPLES / "detector" / "found.png").read_bytes())


def sklearn_forest() -> None:
    """A digit of the test, and how many of the trees vote for each answer."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    images, labels = load_digits(return_X_y=True)
    forest = RandomForestClassifier(n_estimators=100, random_state=0).fit(
        images[:1300], labels[:1300]
    )
    shown = [1302, 1310, 1350]

    def draw(axis: Any, i: int) -> None:
        image = images[shown[i // 2]]
        if i % 2:
            axis.bar(range(10), forest.predict_proba(image[np.newaxis])[0])
        else:
            axis.imshow(image.reshape(8, 8), cmap="gray_r")

    panels(6, ("digit", "votes, 0 to 9") * 3, draw)
    save("sklearn_forest")


def transformer() -> None:
    """A digit, and the eight rows of it that the network reads as tokens."""
    from sklearn.datasets import load_digits

    image = load_digits().images[7]
    apart = np.full((15, 8), np.nan)
    apart[::2] = image
    shown = (image, apart)
    panels(2, ("digit", "tokens"), lambda axis, i: axis.imshow(shown[i], cmap="gray_r"))
    save("transformer")


PICTURES = (
    digits,
    torch_kws,
    wav_kws,
    vibration,
    gesture,
    detector,
    denoise,
    sklearn_forest,
    transformer,
)

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for picture in PICTURES:
        picture()

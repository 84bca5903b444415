"""Samples from files and folders: what is read, in which order, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgec.errors import EdgecError
from edgec.runners.sample_files import open_samples


@dataclass(frozen=True)
class Port:
    name: str = "x"
    shape: tuple[int, ...] = (1, 2, 3)
    dtype: str = "float32"
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


DATA = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


def check(source: Path, count: int = 4) -> None:
    samples = open_samples([Port()], source)
    assert len(samples) == count
    for _ in range(2):  # as often as one likes
        for found, wanted in zip(samples, DATA, strict=True):
            assert found[0].shape == (1, 2, 3) and np.array_equal(found[0][0], wanted)
    assert len(list(samples.first(2))) == 2 and len(samples.first(None)) == count


def test_arrays_and_folders_of_them(tmp_path: Path) -> None:
    np.save(tmp_path / "all.npy", DATA)
    check(tmp_path / "all.npy")
    np.savez(tmp_path / "all.npz", x=DATA, labels=np.arange(4))
    check(tmp_path / "all.npz")
    for kind in ("npy", "npz"):
        folder = tmp_path / kind
        folder.mkdir()
        for number, sample in enumerate(DATA):
            if kind == "npy":
                np.save(folder / f"{number}.npy", sample)
            else:
                np.savez(folder / f"{number}.npz", x=sample)
        check(folder)


def test_several_inputs(tmp_path: Path) -> None:
    ports = [Port("a"), Port("b", (2,))]
    np.savez(tmp_path / "one.npz", a=DATA[0], b=np.ones(2, np.float32))
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "one.npz").rename(folder / "one.npz")
    ((a, b),) = open_samples(ports, folder)
    assert np.array_equal(a[0], DATA[0]) and b.tolist() == [1, 1]
    np.save(tmp_path / "x.npy", DATA)
    with pytest.raises(EdgecError, match="no samples for input a"):
        open_samples(ports, tmp_path / "x.npy")
    (folder / "one.npz").unlink()
    np.save(folder / "x.npy", DATA[0])
    with pytest.raises(EdgecError, match="the model has 2 inputs"):
        open_samples(ports, folder)


@pytest.mark.parametrize("shape", [(1, 4, 6, 3), (1, 3, 4, 6), (1, 4, 6, 1)])
def test_images(shape: tuple[int, ...], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "b.png")
    image.fromarray(np.full((8, 12), 255, np.uint8)).save(tmp_path / "a.png")
    (white,), (found,) = open_samples([Port(shape=shape)], tmp_path, (-1.0, 1.0))
    assert white.shape == shape and white.dtype == np.float32 and (white == 1).all()
    if 3 in shape:
        wanted = pixels if shape[3] == 3 else pixels.transpose(2, 0, 1)
        np.testing.assert_allclose(found[0], wanted / 127.5 - 1, atol=1e-6)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    def refused(source: Path, port: Port | None = None) -> str:
        with pytest.raises(EdgecError) as caught:
            list(open_samples([port or Port()], source))
        return str(caught.value.message)

    folder = tmp_path / "folder"
    folder.mkdir()
    assert "it holds nothing" in refused(folder)
    np.save(folder / "a.npy", DATA[0])
    (folder / "b.txt").write_text("no", "utf-8")
    assert "it holds .npy, .txt" in refused(folder)
    (folder / "b.txt").unlink()
    np.save(folder / "b.npy", DATA[0].astype(np.float64))
    assert "b.npy: input x: float32[1, 2, 3] is needed" in refused(folder)
    (folder / "b.npy").write_bytes(b"\x93NUMPY")
    assert "cannot read" in refused(folder)
    assert "cannot read" in refused(tmp_path / "absent.npy")
    np.save(tmp_path / "empty.npy", DATA[:0])
    assert "has no samples" in refused(tmp_path / "empty.npy")
    images = tmp_path / "images"
    images.mkdir()
    (images / "a.png").write_bytes(b"no image")
    pytest.importorskip("PIL", reason="pillow is not installed")
    assert "images need" in _hint(images)
    assert "cannot read the image" in refused(images, Port(shape=(1, 4, 4, 3)))


def _hint(images: Path) -> str:
    with pytest.raises(EdgecError) as caught:
        open_samples([Port()], images)
    return str(caught.value.hint)

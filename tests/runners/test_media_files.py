"""Pictures, sounds and tables as inputs: the real values, and the integers that store them."""

from __future__ import annotations

import struct
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click import BadParameter

from edgec.cli.arguments import PIXELS
from edgec.errors import EdgecError
from edgec.report.classes import likeliest, read_labels
from edgec.runners.inputs import read_steps
from edgec.runners.media_files import read_media


@dataclass(frozen=True)
class Port:
    name: str = "x"
    dtype: str = "float32"
    shape: tuple[int, ...] = (1, 4)
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


def sound(path: Path, frames: bytes, width: int = 2, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(16000)
        out.writeframes(frames)
    return path


def test_a_sound(tmp_path: Path) -> None:
    frames = struct.pack("<4h", 0, 16384, -32768, 32767)
    path = sound(tmp_path / "a.wav", frames)
    found = read_media(path, Port(), (0, 1), 1)
    assert found.dtype == np.float32 and found.shape == (1, 4)
    assert found[0, :3].tolist() == [0, 0.5, -1] and found[0, 3] == pytest.approx(32767 / 32768)
    int8 = Port(dtype="int8", scale=(1 / 64,), zero_point=(-3,))
    assert read_media(path, int8, (0, 1), 1).tolist() == [[-3, 29, -67, 61]]
    two = read_media(path, Port(shape=(1, 2)), (0, 1), 2)
    assert two.shape == (2, 1, 2) and two[1, 0, 0] == -1


def test_channels_and_widths(tmp_path: Path) -> None:
    stereo = sound(tmp_path / "s.wav", struct.pack("<4h", 16384, 0, -16384, -16384), channels=2)
    assert read_media(stereo, Port(shape=(2,)), (0, 1), 1).tolist() == [0.25, -0.5]
    assert read_media(sound(tmp_path / "b.wav", bytes([128, 192, 0, 64]), 1), Port(),
                      (0, 1), 1).tolist() == [[0, 0.5, -1, -0.5]]  # fmt: skip
    wide = sound(tmp_path / "w.wav", struct.pack("<4i", 0, 1 << 30, -(1 << 31), 0), 4)
    assert read_media(wide, Port(), (0, 1), 1).tolist() == [[0, 0.5, -1, 0]]
    (tmp_path / "cut.wav").write_bytes(b"RI")
    with pytest.raises(EdgecError, match="it is cut off"):
        read_media(tmp_path / "cut.wav", Port(), (0, 1), 1)
    with pytest.raises(EdgecError, match="24 bits"):
        read_media(sound(tmp_path / "n.wav", bytes(12), 3), Port(), (0, 1), 1)


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,value\n1,2.5\n-3,4e1\n", "utf-8")
    assert read_media(path, Port(), (0, 1), 1).tolist() == [[1, 2.5, -3, 40]]
    uint8 = Port(dtype="uint8", scale=(0.5,), zero_point=(3,))
    assert read_media(path, uint8, (0, 1), 1).tolist() == [[5, 8, 0, 83]]
    with pytest.raises(EdgecError, match="cannot hold"):
        read_media(path, Port(dtype="int32"), (0, 1), 1)
    path.write_text("1,2\n3,4\n", "utf-8")
    assert read_media(path, Port(dtype="int32"), (0, 1), 1).tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("shape", [(1, 2, 2, 3), (1, 3, 2, 2), (1, 2, 2, 1)])
def test_a_picture(shape: tuple[int, ...], tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    path = tmp_path / "p.png"
    image.new("RGB", (2, 2), (255, 255, 255)).save(path)
    port = Port(shape=shape, dtype="int8", scale=(2 / 255,), zero_point=(0,))
    assert (read_media(path, port, (-1.0, 1.0), 1) == 127).all()
    assert read_media(path, port, (-1.0, 1.0), 3).shape == (3, *shape)


IMAGENET = "mean=0.485,0.456,0.406:std=0.229,0.224,0.225"


@pytest.mark.parametrize("shape", [(1, 2, 2, 3), (1, 3, 2, 2)])
def test_a_picture_is_normalized_as_in_training(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The formula of torchvision's Normalize, channel by channel."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    data = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
    image.fromarray(data).save(tmp_path / "p.png")
    pixels = PIXELS.convert(IMAGENET, None, None)
    found = read_media(tmp_path / "p.png", Port(shape=shape), pixels, 1)[0]
    expected = (data / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    if shape[1] == 3:
        expected = expected.transpose(2, 0, 1)
    assert np.allclose(found, expected, atol=1e-6)
    with pytest.raises(EdgecError, match=r"3 means, and x: .* has 1 channels"):
        read_media(tmp_path / "p.png", Port(shape=(1, 2, 2, 1)), pixels, 1)


@pytest.mark.parametrize(
    "text", ["mean=1:std=0", "mean=1,2:std=1", "mean=:std=1", "mean=nan:std=1", "1:1", "mean=0.5"]
)
def test_pixels_that_mean_nothing(text: str) -> None:
    with pytest.raises(BadParameter, match="not a pixel range"):
        PIXELS.convert(text, None, None)


def test_words_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,3,4\n", "utf-8")
    ports = [Port("x"), Port("y")]
    ((x, y),) = read_steps([f"y={tmp_path}/a.csv", f"{tmp_path}/a.csv"], ports, 1)
    assert x.tolist() == y.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.wav", b"RIFF", "cannot read the sound"),
        ("a.csv", b"1,b,3\n2,c\n", "cannot read the table"),
        ("a.csv", b"1,2,3\n", "has 3 values"),
        ("a.csv", b"1,2,3,4\n5,6,7,8\n9", "cannot read the table"),
        ("a.csv", b"a,b\n# none\n\n", "it has no numbers"),
        ("a.csv", b",,,,", "it has no numbers"),
        ("a.csv", b"", "it has no numbers"),
        ("a.png", b"no picture", "images need"),
    ],
)
def test_files_that_do_not_fit(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    if name.endswith("png"):
        pytest.importorskip("PIL", reason="pillow is not installed")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(EdgecError) as caught:
        read_media(tmp_path / name, Port(), (0, 1), 1)
    assert said in str(caught.value)


def test_pictures_of_too_many_pixels(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """A few KB, which become 900 and 170 MB; of the second, Pillow only warns."""
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    for size, name in ((30_000, "large.png"), (13_000, "wide.png")):
        image.new("1", (size, size)).save(tmp_path / name)
        with pytest.raises(EdgecError, match=r"cannot read the image .* exceeds limit"):
            read_media(tmp_path / name, Port(shape=(1, 4, 4, 1)), (0, 1), 1)
    path = tmp_path / "cut.png"
    path.write_bytes((tmp_path / "wide.png").read_bytes()[:60])
    with pytest.raises(EdgecError, match="cannot read the image"):
        read_media(path, Port(shape=(1, 4, 4, 1)), (0, 1), 1)
    assert len(recwarn) == 0


def test_several_runs_are_hinted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2,3,4,5,6,7,8,9\n", "utf-8")
    with pytest.raises(EdgecError) as caught:
        read_media(tmp_path / "a.csv", Port(), (0, 1), 1)
    assert caught.value.hint == "cut it to 8 values and give --steps 2"


def test_the_likeliest_classes(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("off\non\nno\n", "utf-8")
    labels = read_labels(path)
    port = Port(scale=(0.5,), zero_point=(1,))
    found = likeliest([port], [np.array([[1, 5, 5]], np.int8)], labels)  # type: ignore[list-item]
    assert [(each["label"], each["value"]) for each in found] == [("on", 2), ("no", 2), ("off", 0)]
    with pytest.raises(EdgecError, match="no output has 3"):
        likeliest([port], [np.zeros((1, 4))], labels)  # type: ignore[list-item]
    path.write_text("", "utf-8")
    with pytest.raises(EdgecError, match="no labels"):
        read_labels(path)

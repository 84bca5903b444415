"""`edgec quantize`: from a float model and samples to a file that builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

FLOAT = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_float.onnx"


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    data = np.load(FLOAT.with_name("digits_test.npz"))
    images = next(data[name] for name in data.files if data[name].ndim > 1)
    labels = next(data[name] for name in data.files if data[name].ndim == 1)
    np.save(tmp_path / "samples.npy", images[:60].astype(np.float32))
    np.save(tmp_path / "labels.npy", labels[:60].astype(np.int64))
    return tmp_path


def test_a_float_model_becomes_firmware(edgec: Callable, samples: Path) -> None:
    out = samples / "int8.onnx"
    ran = edgec(
        "quantize", FLOAT, "--calibration", samples / "samples.npy", "-o", out,
        "--labels", samples / "labels.npy", "--samples", 40, "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    report = ran.json
    assert report["calibration_samples"] == report["samples"] == 40
    assert report["accuracy"] >= report["float_accuracy"] - 0.025
    assert report["agreement"] >= 0.95 and report["output_sqnr_db"] > 25
    assert report["inaccurate"] is None
    assert [node["operator"] for node in report["float_nodes"]][::3] == ["quantize"]
    assert report["corrected_biases"] in (True, False)
    assert len(report["candidates"]) == 10 and report["recipe"]["equalize"] == "auto"
    assert 25 < report["held_out_sqnr_db"] == report["candidates"][0]["sqnr_db"]
    built = edgec("build", out, "--target", "cortex-m4", "-o", samples / "project", "--json")
    assert built.status == 0, built.err
    float_bytes = edgec(
        "build", FLOAT, "--target", "cortex-m4", "-o", samples / "float", "--json"
    ).json["weights_bytes"]
    assert built.json["weights_bytes"] < 0.45 * float_bytes


def test_a_float_model_is_quantized_and_built_in_one_go(edgec: Callable, samples: Path) -> None:
    folder = samples / "folder"
    folder.mkdir()
    for number, image in enumerate(np.load(samples / "samples.npy")[:20]):
        np.save(folder / f"{number:02}.npy", image)
    project = samples / "project"
    built = edgec(
        "build", FLOAT, "--calibration", folder, "--target", "cortex-m4", "-o", project, "--json"
    )
    assert built.status == 0, built.err
    same = edgec(
        "quantize", FLOAT, "--calibration", folder, "-o", samples / "digits_float.onnx",
        "--no-blame", "--json",
    )  # fmt: skip
    assert same.status == 0 and all(row["blame"] is None for row in same.json["rows"])
    content = (samples / "digits_float.onnx").read_bytes()
    assert (project / "quantized.onnx").read_bytes() == content
    assert built.json["model"] == "digits_float"


def test_images_and_a_page(edgec: Callable, samples: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    folder = samples / "images"
    folder.mkdir()
    for number, pixels in enumerate(np.load(samples / "samples.npy")[:12]):
        grey = np.rint(pixels.reshape(8, 8) * 255).astype(np.uint8)
        image.fromarray(grey).save(folder / f"{number:02}.png")
    ran = edgec(
        "quantize", FLOAT, "--calibration", folder, "--test", samples / "samples.npy",
        "--labels", samples / "labels.npy", "-o", samples / "q.onnx", "--html",
        samples / "q.html", "--equalize", "never",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "most of the error: " in ran.out and "page written to" in ran.out
    page = (samples / "q.html").read_text("utf-8")
    assert "nodes that stay in float:" in ran.out and "Nodes that stay in float" in page
    assert "Layers to blame" in page and "<script" not in page and "http" not in page
    assert page.count('aria-label="histogram of') >= 6
    assert "accuracy in float" in page
    assert "channels not equalized" in ran.out and "channels equalized" not in ran.out + page
    assert page.count("tried on held-out samples") == 4
    assert "held-out samples" in page and "held-out samples: " in ran.out


def test_the_table_names_the_worst_layers(edgec: Callable, samples: Path) -> None:
    ran = edgec(
        "quantize", FLOAT, "--calibration", samples / "samples.npy", "-o", samples / "q.onnx",
        "--observer", "entropy", "--keep-biases", "--test", samples / "samples.npy",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    assert "SQNR dB" in ran.out and "most of the error: " in ran.out and "written to" in ran.out


def test_what_is_wrong_is_said_and_nothing_written(refused: Callable, samples: Path) -> None:
    out = samples / "q.onnx"
    calibration = ("--calibration", samples / "samples.npy")
    int8 = FLOAT.with_name("digits_int8.onnx")
    assert "is quantized already" in refused("quantize", int8, *calibration, "-o", out)
    assert "cannot read" in refused(
        "quantize", FLOAT, "--calibration", samples / "no.npy", "-o", out
    )
    (samples / "bad.npy").write_bytes(b"nonsense")
    assert "cannot read" in refused(
        "quantize", FLOAT, "--calibration", samples / "bad.npy", "-o", out
    )
    np.save(samples / "few.npy", np.arange(3))
    assert "3 labels for 60 samples" in refused(
        "quantize", FLOAT, *calibration, "-o", out, "--labels", samples / "few.npy"
    )
    np.save(samples / "nan.npy", np.full((2, 1, 8, 8), np.nan, np.float32))
    assert "NaN" in refused("quantize", FLOAT, "--calibration", samples / "nan.npy", "-o", out)
    assert not out.exists()


def test_usage(edgec: Callable, samples: Path) -> None:
    assert edgec("quantize", FLOAT, "-o", samples / "q.onnx").status == 2
    calibration = ("--calibration", samples / "samples.npy")
    assert edgec("quantize", FLOAT, *calibration, "-o", samples / "q.tflite").status == 2
    bad = ("--pixels", "1:1")
    assert edgec("quantize", FLOAT, *calibration, "-o", samples / "q.onnx", *bad).status == 2

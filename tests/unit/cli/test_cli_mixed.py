"""`edgec quantize --weights`: four bits, and mixes that keep limits or say what is nearest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

FLOAT = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_float.onnx"


@pytest.fixture
def quantize(edgec: Callable, tmp_path: Path) -> Callable:
    data = np.load(FLOAT.with_name("digits_test.npz"))
    np.save(tmp_path / "samples.npy", data["x"][:40].astype(np.float32))

    def run(*words: object) -> object:
        return edgec(
            "quantize", FLOAT, "--calibration", tmp_path / "samples.npy", "--no-blame",
            "--observer", "minmax", "-o", tmp_path / "q.onnx", *words,
        )  # fmt: skip

    return run


def test_a_part_of_the_weights(quantize: Callable, tmp_path: Path) -> None:
    page = tmp_path / "q.html"
    ran = quantize("--weights", "mixed", "--max-weights", "60%", "--html", page, "--json")
    assert ran.status == 0, ran.err
    found = ran.json["precision"]
    assert found["weights_bytes"] <= 0.6 * found["int8_weights_bytes"]
    assert {layer["bits"] for layer in found["layers"]} <= {4, 8}
    assert sum(layer["weights_bytes"] for layer in found["layers"]) == found["weights_bytes"]
    (taken,) = [point for point in found["front"] if point["taken"]]
    assert taken["weights_bytes"] == found["weights_bytes"]
    losses = [point["loss"] for point in found["front"]]
    assert losses == sorted(losses, reverse=True) and losses[-1] == 0.0
    text = page.read_text("utf-8")
    assert "Weights of int4 and int8" in text and text.count("in int4") >= len(losses)
    assert ran.json["agreement"] > 0.95


def test_the_front_and_the_layers_as_text(quantize: Callable) -> None:
    ran = quantize("--weights", "mixed", "--max-weights", "8000")
    assert ran.status == 0, ran.err
    assert "loss in 4 bits" in ran.out and "bytes (loss), estimated, * taken: " in ran.out


def test_all_in_four_bits(quantize: Callable, edgec: Callable, tmp_path: Path) -> None:
    sizes = []
    for weights in ("int8", "int4"):
        assert quantize("--weights", weights).status == 0
        built = edgec("build", tmp_path / "q.onnx", "--target", "cortex-m0", "-o",
                      tmp_path / weights, "--json")  # fmt: skip
        sizes.append(built.json["weights_bytes"])
    assert sizes[1] < 0.65 * sizes[0]


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_limits_of_a_build(quantize: Callable, edgec: Callable, tmp_path: Path) -> None:
    assert quantize("--weights", "int4").status == 0
    built = edgec("build", tmp_path / "q.onnx", "--board", "sim_m0", "-o", tmp_path / "b", "--json")
    least = built.json["flash_bytes"]
    limit = least + 2500  # the weights of all layers in eight bits take 5,136 bytes more
    ran = quantize("--weights", "mixed", "--board", "sim_m0", "--max-flash", limit, "--json")
    assert ran.status == 0, ran.err
    found = ran.json["precision"]
    assert least <= found["build"]["flash_bytes"] <= limit
    assert {layer["bits"] for layer in found["layers"]} == {4, 8}
    built = edgec("build", tmp_path / "q.onnx", "--board", "sim_m0", "-o",
                  tmp_path / "mixed", "--json")  # fmt: skip
    # The model's name is in the image.
    assert abs(built.json["flash_bytes"] - found["build"]["flash_bytes"]) <= 16
    ran = quantize("--weights", "mixed", "--board", "sim_m0", "--max-flash", least - 500)
    assert ran.status == 3 and "nearest: " in ran.err and "Traceback" not in ran.err


def test_what_cannot_be_is_said(quantize: Callable) -> None:
    ran = quantize("--weights", "mixed", "--max-weights", "100")
    assert ran.status == 3 and "nearest: all layers in int4" in ran.err
    for words in (
        ("--weights", "mixed"), ("--max-weights", "60%"), ("--weights", "mixed", "--max-flash", 9),
        ("--weights", "mixed", "--max-weights", "0%"), ("--weights", "int4", "--board", "sim_m0"),
    ):  # fmt: skip
        assert quantize(*words).status == 2

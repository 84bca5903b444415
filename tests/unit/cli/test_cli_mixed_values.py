"""`edgec quantize`: int16 for some values, by name or by a goal."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from uneven_network import pixels, uneven

from edgec.frontends.onnx_writer import to_onnx


@pytest.fixture
def quantize(edgec: Callable, tmp_path: Path) -> Callable:
    model = to_onnx(uneven(300.0), producer_version="0")
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "samples.npz", x=np.concatenate([x for (x,) in pixels(30)]))

    def run(*words: object) -> object:
        return edgec(
            "quantize", tmp_path / "f.onnx", "--calibration", tmp_path / "samples.npz",
            "--no-blame", "--observer", "minmax", "--equalize", "never", "-o",
            tmp_path / "q.onnx", *words,
        )  # fmt: skip

    return run


def test_a_goal(quantize: Callable, tmp_path: Path) -> None:
    page = tmp_path / "q.html"
    goal = ("--activations", "mixed", "--min-sqnr", 28)
    ran = quantize(*goal, "--html", page, "--json")
    assert ran.status == 0, ran.err
    found = ran.json["values"]
    assert found["int8_sqnr_db"] < found["goal_db"] == 28.0 <= found["sqnr_db"]
    kinds = [layer["dtype"] for layer in found["layers"]]
    assert set(kinds) == {"int8", "int16"}
    assert sum(layer["values_bytes"] for layer in found["layers"]) == found["values_bytes"]
    assert found["int16"] == ran.json["recipe"]["int16"]
    (taken,) = [point for point in found["front"] if point["taken"]]
    assert taken["size_bytes"] == found["values_bytes"]
    assert taken["int16_layers"] == kinds.count("int16") and not taken["float_layers"]
    text = page.read_text("utf-8")
    assert "Values of int8 and int16" in text and text.count("in int16, ") >= len(found["front"])
    ran = quantize(*goal)
    assert ran.status == 0, ran.err
    assert "loss in int8" in ran.out and "bytes (dB), estimated, * taken: " in ran.out
    named = [word for name in found["int16"] for word in ("--int16", name)]
    ran = quantize(*named, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["values"] is None and ran.json["recipe"]["int16"] == found["int16"]


def test_inaccurate_outputs_are_reported_with_a_command_that_mends_them(
    quantize: Callable, edgec: Callable, tmp_path: Path
) -> None:
    page = tmp_path / "q.html"
    plain = quantize("--json", "--html", page)
    assert plain.status == 0, plain.err
    (output,) = plain.json["outputs"]
    assert output["sqnr_db"] == pytest.approx(plain.json["output_sqnr_db"])
    inaccurate = plain.json["inaccurate"]
    assert inaccurate["outputs"] == [output] and output["sqnr_db"] < inaccurate["least_db"] == 20.0
    words = shlex.split(inaccurate["command"])
    assert words[:2] == ["edgec", "quantize"] and words[-2:] == ["--activations", "mixed"]
    shown = page.read_text("utf-8")
    assert "<h2>Low accuracy</h2>" in shown and "--activations mixed</code>" in shown
    mended = edgec(*words[1:])
    assert mended.status == 0, mended.err
    assert mended.json["inaccurate"] is None and mended.json["outputs"][0]["sqnr_db"] > 30.0
    assert "Low accuracy" not in page.read_text("utf-8")
    said = quantize()
    assert said.status == 0 and "\nwarning: integers are too coarse for this model: " in said.out
    assert f"\n  {inaccurate['command'].partition(' --json')[0]} --activations mixed\n" in said.out
    assert "warning: " not in quantize("--activations", "mixed").out
    loose = quantize("--activations", "mixed", "--min-sqnr", 5, "--json")
    assert loose.status == 0 and loose.json["inaccurate"] is None


def test_a_build_from_samples_says_it_too(
    quantize: Callable, edgec: Callable, tmp_path: Path
) -> None:
    words = ("--target", "cortex-m4", "-o", tmp_path / "project", "--json")
    ran = edgec("build", tmp_path / "f.onnx", "--calibration", tmp_path / "samples.npz", *words)
    assert ran.status == 0 and ran.json["model"] == "f"
    assert "warning: int8 is too coarse for this model: 1" in ran.err
    fine = to_onnx(uneven(1.0), producer_version="0")
    (tmp_path / "fine.onnx").write_bytes(fine.SerializeToString())
    ran = edgec("build", tmp_path / "fine.onnx", "--calibration", tmp_path / "samples.npz", *words)
    assert ran.status == 0 and "warning" not in ran.err


def test_what_cannot_be_is_said(quantize: Callable) -> None:
    ran = quantize("--activations", "mixed", "--min-sqnr", 100)
    assert ran.status == 3 and "nearest: " in ran.err and "Traceback" not in ran.err
    ran = quantize("--int16", "nothing")
    assert ran.status == 1 and "there is no layer 'nothing' to store in int16" in ran.err
    ran = quantize("--int16", "x", "--activations", "int16")
    assert (
        ran.status == 1 and "int16 layers (x) cannot be combined with activations int16" in ran.err
    )
    for words in (
        ("--min-sqnr", 30), ("--activations", "mixed", "--min-sqnr", 0),
        ("--activations", "mixed", "--board", "host", "--max-instructions", 1000),
        ("--activations", "mixed", "--weights", "mixed", "--max-weights", "60%"),
        ("--activations", "mixed", "--weights", "float16"),
    ):  # fmt: skip
        assert quantize(*words).status == 2


@pytest.mark.full  # weights have the same limits in test_cli_mixed.py
@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_limits_of_a_build(quantize: Callable, edgec: Callable, tmp_path: Path) -> None:
    def build(*words: object) -> object:
        return edgec("build", tmp_path / "q.onnx", "--board", "sim_m0", "-o",
                     tmp_path / "out", "--json", *words)  # fmt: skip

    taken = []
    for activations in ("int8", "int16"):
        assert quantize("--activations", activations).status == 0
        taken.append(build("--optimize", "ram").json["ram_bytes"])
    mixed = ("--activations", "mixed", "--board", "sim_m0")
    limit = taken[0] + (taken[1] - taken[0]) * 3 // 4
    page = tmp_path / "q.html"
    ran = quantize(*mixed, "--max-ram", limit, "--html", page, "--json")
    assert ran.status == 0, ran.err
    found = ran.json["values"]
    assert {layer["dtype"] for layer in found["layers"]} == {"int8", "int16"}
    assert found["goal_db"] is None and found["sqnr_db"] > 30.0 > 15.0 > found["int8_sqnr_db"]
    assert found["build"]["ram_bytes"] <= limit and found["build"]["instructions"] is None
    assert f"RAM {found['build']['ram_bytes']:,}" in page.read_text("utf-8")
    built = build("--max-ram", limit)
    assert built.status == 0 and built.json["ram_bytes"] <= limit, built.err
    (tmp_path / "q.onnx").unlink()
    ran = quantize(*mixed, "--max-ram", 100)
    assert ran.status == 3 and "nearest: " in ran.err and "over in RAM: " in ran.err
    ran = quantize(*mixed, "--max-ram", limit, "--min-sqnr", 100)
    assert ran.status == 3 and "within the limits keeps 100.0 dB" in ran.err
    assert not (tmp_path / "q.onnx").exists()
    for words in (mixed, (*mixed[:2], "--max-ram", limit), ("--board", "sim_m0")):
        assert quantize(*words).status == 2

"""Pages that edgec writes, in a real browser: everybody can use them, on any screen.

`pytest -k everybody` looks at all pages: reports of builds, the explorer, also after a
model was dropped and built, and every page of the documentation.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import objections
from project_case import make_report
from test_tuning_page import GROUP
from test_tuning_page import report as tuning_report

from edgec.oracle.gpu_bench import render_gpu
from edgec.report.diff import compare_reports
from edgec.report.html import render_page
from edgec.report.peers import render_peers
from edgec.report.roofline import LayerTime, Peak, Roofline
from edgec.report.roofline_page import render_rooflines
from edgec.report.tuning_page import tuning_page

FLOAT = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_float.onnx"


def _report() -> str:
    old = make_report()
    old["flash_bytes"] += 100
    return render_page(make_report(), compare_reports(old, make_report()))


def _peers() -> str:
    ours = {"model": "kws", "by": "edgec", "instructions": 5, "cycles": 6, "ram_bytes": 7,
            "flash_bytes": 8}  # fmt: skip
    theirs = {**ours, "by": "another", "version": "1", "instructions": 9, "ratio": 0.55,
              "max_abs_diff": 0.0}  # fmt: skip
    return render_peers([ours, theirs], "the same core and flags", "another 1")


def _gpu() -> str:
    rows = [{"model": "kws", "by": name, "us": us, "median_us": us, "ratio": 29 / us}
            for name, us in (("edgec", 29.0), ("torch", 61.0))]  # fmt: skip
    return render_gpu([*rows, {"model": "kws", "by": "TensorRT", "error": "it is not installed"}])


def _rooflines() -> str:
    layers = (LayerTime("conv", 10.0, 1_000_000, 50_000, "int8"), LayerTime("add", 1, 0, 9, "int8"))
    return render_rooflines([Roofline("m.tflite", "x86-64-v3", Peak(200.0, 50.0, 100.0), layers)])


def _quantization() -> str:
    with np.load(FLOAT.with_name("digits_test.npz")) as data:
        images = next(data[name] for name in data.files if data[name].ndim > 1)
    words = ["quantize", FLOAT, "--calibration", "s.npy", "-o", "q.onnx", "--html", "q.html"]
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "s.npy", images[:20].astype(np.float32))
        subprocess.run(
            [sys.executable, "-m", "edgec", *words, "--keep-float", "stem", "--json"],
            cwd=name, check=True, capture_output=True,
        )  # fmt: skip
        return (Path(name) / "q.html").read_text("utf-8")


PAGES = {
    "report": _report,
    "tuning": lambda: tuning_page(tuning_report(), {"nest": GROUP}),
    "peers": _peers,
    "gpu": _gpu,
    "rooflines": _rooflines,
    "quantization": _quantization,
}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_the_page(browser: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(PAGES[name](), "utf-8")
    assert objections(browser, path.as_uri()) == []

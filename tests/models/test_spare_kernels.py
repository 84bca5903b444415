"""Kernels that hardly pay for their code are left out by default, and kept for `time`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import MODELS

from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core


@pytest.mark.parametrize(("optimize", "is_used"), [("time", True), ("balanced", False)])
@pytest.mark.parametrize(
    ("core", "spare", "used"),
    [
        ("cortex-m4", "ec_matrix_1_", {"ec_matrix_4_s8_dsp", "ec_depthwise_3x3_s8_dsp"}),
        ("cortex-m55", "ec_dense_", {"ec_conv_s8_mve", "ec_depthwise_planes_s8_mve"}),
    ],
)
def test_one_small_dense_layer(
    core: str, spare: str, used: set[str], optimize: str, is_used: bool,
    sample_model: Callable[[str], Path],
) -> None:  # fmt: skip
    """Of KWS, the last layer alone would call a kernel for single rows."""
    path = sample_model(MODELS["kws"])
    compiled = compile_model(path, find_core(core), Options(optimize=optimize))
    names = {name for variant in compiled.chosen for name in kernels_of(variant.function)}
    assert any(name.startswith(spare) for name in names) == is_used
    assert used <= names

"""Models whose layers take the schedules that ship with edgec have TFLite Micro's bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from built_models import MODELS, build

from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs, outputs_fnv1a32


@pytest.mark.parametrize("name", ["kws", "ad"])
def test_bits_of_tflite_micro(
    name: str, shared_dir: Path, sample_model: Callable[[str], Path]
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    baselines = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    compiled, built = build(sample_model(MODELS[name]), "mps2_an385", "gcc", optimize="time")
    assert sum(variant.is_tuned for variant in compiled.chosen) >= 5
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session("core", built) as session:
        for seed in (1, 2):
            outputs = session.run(generate_inputs(seed, types)).outputs
            assert outputs_fnv1a32(outputs) == baselines["models"][name]["output_fnv1a"][seed - 1]

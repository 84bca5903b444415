"""Float models: near their frameworks, and the same bits in C on every engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from built_models import build

from edgec.runners.engine import open_session
from edgec.runners.oracle import open_oracle
from edgec.runners.samples import generate_inputs


@dataclass(frozen=True)
class FloatModel:
    """A sample model, how near its framework it must be, and where it runs.

    tolerance: largest difference as a part of the output's largest magnitude. boards: besides
    the host, each with the engine `core`.
    """

    file: str
    tolerance: float
    boards: tuple[str, ...] = ()
    reference: str | None = None


#: M0 and M3 compute floats in software, M4, M7 and M33 in hardware.
CORES = ("sim_m0", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an505")

MODELS = (
    FloatModel("tflm_hello_world_f32.tflite", 2e-6, CORES),
    FloatModel("tflm_magic_wand_f32.tflite", 1e-6, CORES),
    FloatModel("mlperf_ad_autoencoder_f32.tflite", 2e-6, ("mps2_an385", "mps2_an386")),
    FloatModel("mlperf_ic_resnet8_f32.tflite", 1e-6, ("mps2_an386",)),
    FloatModel("mlperf_vww_mbv1_f32.tflite", 1e-6, ("mps2_an386",)),
    FloatModel("mlperf_ic_resnet8_f32.onnx", 1e-6),
    FloatModel("mlperf_vww_mbv1_f32.onnx", 1e-6),
)
PLACES = [(m, b) for m in MODELS for b in ("host", *m.boards)]


def stem(value: object) -> str:
    return Path(value.file).stem if isinstance(value, FloatModel) else str(value)


@pytest.mark.parametrize(("model", "board"), PLACES, ids=stem)
def test_c_equals_the_reference_in_every_bit(
    model: FloatModel, board: str, sample_model: Callable[[str], Path]
) -> None:
    if board != "host":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
        if shutil.which("arm-none-eabi-gcc") is None:
            pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    path = sample_model(model.file)
    compiled, built = build(path, board)
    oracle = open_oracle(path, model.reference)
    types = [(p.shape, p.dtype) for p in built.manifest.inputs]
    with open_session("host" if board == "host" else "core", built) as session:
        assert session.selftest() == 0
        for seed in (1, 2):
            inputs = generate_inputs(seed, types)
            mine = compiled.reference(inputs)
            wanted = oracle.run(inputs).outputs
            found = session.run(inputs).outputs
            for reference, c, framework in zip(mine, found, wanted, strict=True):
                assert c.tobytes() == np.ascontiguousarray(reference).tobytes(), f"seed {seed}"
                most = float(np.abs(framework).max())
                difference = float(np.abs(reference.reshape(framework.shape) - framework).max())
                assert difference <= model.tolerance * most, f"seed {seed}"

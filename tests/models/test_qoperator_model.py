"""A model that ONNX Runtime's own quantizer writes in its QOperator format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import edgec


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, path: Path) -> None:
        rng = np.random.default_rng(0)
        (entry,) = onnxruntime.InferenceSession(path).get_inputs()
        shape = [1, *entry.shape[1:]]
        self.left = [{entry.name: rng.random(shape, dtype=np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


@pytest.mark.parametrize(
    ("activations", "per_channel"), [(QuantType.QInt8, True), (QuantType.QUInt8, False)], ids=str
)
def test_resnet8(
    activations: Any, per_channel: bool, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """Every layer has ONNX Runtime's bits on the Cortex-M4."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    source = sample_model("mlperf_ic_resnet8_f32.onnx")
    path = tmp_path / "m.onnx"
    quantize_static(
        source, path, _Samples(source), quant_format=QuantFormat.QOperator,
        activation_type=activations, weight_type=QuantType.QInt8, per_channel=per_channel,
    )  # fmt: skip
    found = edgec.verify(path, board="mps2_an386", engine="core", random=1, layers=True)
    assert len(found.layers) > 12 and not found.mismatches, found.to_dict()

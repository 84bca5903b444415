"""Transformers in integers: written as ONNX, near ONNX Runtime, on a core in every bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from encoder_models import COEFFICIENTS, FRAMES, encoder, keyword_encoder
from measure_quantization import by_onnxruntime
from quantized_files import float_function, qdq_bytes, quantize_model
from transformer_block import TOKENS, WIDTH, block

from edgec.api import compile as compile_model
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function

MODELS: dict[str, tuple[Callable[[Path], Path], tuple[int, ...]]] = {
    "encoder": (encoder, (1, 16, 64)),
    "keywords": (keyword_encoder, (1, FRAMES, COEFFICIENTS)),
}


def test_quantized_and_written(tmp_path: Path) -> None:
    import onnxruntime

    function = block()
    rng = np.random.default_rng(1)
    samples = [[rng.normal(size=(1, TOKENS, WIDTH)).astype(np.float32)] for _ in range(12)]
    made = quantize_function(function, samples, Recipe())
    path = tmp_path / "quantized.onnx"
    path.write_bytes(qdq_bytes(made))
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert {"LayerNormalization", "MatMul", "Gelu", "Softmax", "QuantizeLinear"} <= kinds

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    back = import_model(path).main
    for (sample,) in samples:
        (wanted,) = interpret(function, [sample])
        (mine,), (theirs,) = interpret(back, [sample]), session.run(None, {"x": sample})
        step = float(np.abs(wanted).max()) / 64
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=step)
        assert np.sum((mine - wanted) ** 2) < 0.003 * np.sum(wanted**2)  # 25 dB


def inputs(shape: tuple[int, ...], count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(2)
    return [[rng.normal(size=shape).astype(np.float32)] for _ in range(count)]


def decibels(wanted: list[np.ndarray], found: list[np.ndarray]) -> float:
    exact = np.stack(wanted).astype(np.float64)
    noise = np.sum((exact - np.stack(found)) ** 2)
    return float(10 * np.log10(np.sum(exact**2) / max(noise, 1e-12)))


def made_of(name: str, folder: Path, recipe: Recipe, count: int = 16) -> tuple[Path, PostTraining]:
    write, shape = MODELS[name]
    made = quantize_model(write(folder / "float.onnx"), inputs(shape, count), recipe)
    path = folder / "quantized.onnx"
    path.write_bytes(qdq_bytes(made))
    return path, made


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("dtype", "least_db"), [("int8", 24.0), ("int16", 39.0)])
def test_all_of_a_transformer_is_integers(
    name: str, dtype: str, least_db: float, tmp_path: Path
) -> None:
    recipe = Recipe("minmax", activations=dtype, reconstruct=False, correct_biases=False,
                    equalize="never")  # fmt: skip
    path, made = made_of(name, tmp_path, recipe)
    back = run_passes(import_model(path).main, "onnx")
    for function in (made.integers, back):
        floats = [n.op.name for n in function.nodes if any(v.type.is_float for v in n.outputs)]
        assert floats == ["dequantize"]
    samples = inputs(MODELS[name][1], 20)[16:]
    floats = [interpret(made.source, sample)[0] for sample in samples]
    mine = [interpret(back, sample)[0] for sample in samples]
    assert decibels(floats, mine) > least_db
    oracle = open_oracle(path)
    theirs = [oracle.run(sample).outputs[0] for sample in samples]
    assert decibels(theirs, mine) > least_db + 10  # what is rounded otherwise


@pytest.mark.parametrize("name", MODELS)
def test_no_more_than_a_decibel_behind_onnxruntime(name: str, tmp_path: Path) -> None:
    """ONNX Runtime's static quantizer, by tensor and by channel, on samples of neither."""
    write, shape = MODELS[name]
    path, given = write(tmp_path / "float.onnx"), inputs(shape, 48)
    function = float_function(path)
    made = quantize_function(function, given[:32], Recipe("minmax", equalize="never"))
    floats = [interpret(function, sample)[0].reshape(-1) for sample in given[32:]]
    mine = [interpret(made.integers, sample)[0].reshape(-1) for sample in given[32:]]
    theirs = [
        by_onnxruntime(function, [s for (s,) in given[:32]], tmp_path, per_channel=by_channel)
        for by_channel in (False, True)
    ]
    rivals = [decibels(floats, list(run(np.stack([s for (s,) in given[32:]])))) for run in theirs]
    assert decibels(floats, mine) > max(rivals) - 1.0


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_core_has_the_bits_of_the_interpreter(dtype: str, tmp_path: Path) -> None:
    samples = inputs((1, TOKENS, WIDTH), 12)
    recipe = Recipe("minmax", activations=dtype, equalize="never")
    path = tmp_path / "block.onnx"
    path.write_bytes(qdq_bytes(quantize_function(block(), samples, recipe)))
    function = run_passes(import_model(path).main, "onnx")
    (wanted,) = interpret(function, samples[0])
    with compile_model(path, board="stm32", engine="core") as compiled:
        np.testing.assert_array_equal(wanted, compiled.run(samples[0][0]))

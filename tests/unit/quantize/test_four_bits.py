"""Weights of four bits: chosen layer after layer, kept by the file, in the same bits everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from quantized_files import qdq_bytes
from small_network import images, network

import edgec
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.reshape import ReshapeAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.batches import Batch, parts_of
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function


@pytest.fixture(scope="module")
def made() -> PostTraining:
    return quantize_function(network(), images(60), Recipe("mse", weights="int4"))


@pytest.fixture(scope="module")
def path(made: PostTraining, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("four_bits") / "int4.onnx"
    path.write_bytes(qdq_bytes(made))
    return path


def test_many_samples_at_once_give_what_one_does(made: PostTraining) -> None:
    for function in (made.source, made.quantized.function):
        batch, samples = Batch(function, 4), images(6)
        assert batch.count == 4
        found = np.concatenate([batch.run(part)[0] for part in parts_of(samples, 4)])
        wanted = np.concatenate([interpret(function, sample)[0] for sample in samples])
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_what_mixes_samples_runs_one_by_one() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "float32"))
    function = b.finish([b.op("reshape", [x], ReshapeAttrs((2, 2)), name="y")])
    batch = Batch(function, 4)
    assert batch.count == 1 and batch.run([np.ones((1, 4), np.float32)])[0].shape == (2, 2)


def test_following_is_better_than_rounding_to_nearest(made: PostTraining) -> None:
    recipe = Recipe("mse", weights="int4", reconstruct=False)
    plain = quantize_function(network(), images(60), recipe)
    tests = images(40, seed=6)
    found, nearest = (each.explain(tests).output_sqnr_db for each in (made, plain))
    assert found > 14.0 and found > nearest + 2.0


def digest() -> str:
    """Of the file that the recipe makes of the small network."""
    made = quantize_function(network(), images(60), Recipe("mse", weights="int4"))
    return hashlib.sha256(qdq_bytes(made)).hexdigest()


@pytest.mark.parametrize("kernels", ["Nehalem", "Haswell"])
def test_other_matrix_products_make_the_same_file(made: PostTraining, kernels: str) -> None:
    """NumPy's OpenBLAS adds in another order for other processors and on more threads."""
    others = {
        "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "2",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", "import test_four_bits; print(test_four_bits.digest())"],
        cwd=Path(__file__).parent, env={**os.environ, **others}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.stdout.strip() == hashlib.sha256(qdq_bytes(made)).hexdigest()


def test_all_weights_fit_in_four_bits(made: PostTraining) -> None:
    stored = [weights.data for weights in made.scheme.weights.values()]
    assert len(stored) == 4
    assert all(data.min() >= -8 and data.max() <= 7 for data in stored)
    assert min(data.min() for data in stored) == -8  # all that four bits can hold is used


def test_the_file_keeps_them_in_four_bits(made: PostTraining, path: Path) -> None:
    model = onnx.load(path)
    assert model.opset_import[0].version == 21
    short = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT4]
    assert sum(len(t.dims) > 1 for t in short) == 4
    back = run_passes(import_model(path).main, "onnx")
    for sample in images(10, seed=7):
        assert np.array_equal(interpret(made.integers, sample)[0], interpret(back, sample)[0])


def test_onnxruntime_runs_the_file(made: PostTraining, path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    oracle = open_oracle(path)
    (step,) = {made.scheme.values[made.source.results[0]].quant.scale[0]}
    for sample in images(10, seed=7):
        # It dequantizes int4 weights: sums are rounded in float and may miss a tie.
        found = oracle.run(sample).outputs[0]
        np.testing.assert_allclose(interpret(made.integers, sample)[0], found, atol=1.01 * step)


@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an385", "mps2_an386"])
def test_the_same_bits_everywhere(made: PostTraining, path: Path, board: str) -> None:
    with edgec.compile(path, board=board) as model:
        for sample in images(3, seed=8):
            wanted = interpret(made.integers, sample)[0]
            assert np.array_equal(model.run(*sample), wanted)
        if board == "host":  # vectors of x86 read whole bytes
            return
        eight = sum(weights.data.size for weights in made.scheme.weights.values())
        assert model.report["weights_bytes"] < 0.5 * eight + 400

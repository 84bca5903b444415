"""`--activations float32`: weights in integers of a byte or half of one, all else in float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import build
from quantized_files import quantize_model, write_quantized
from test_float16_weights import network
from test_same_bits import need_tools

from edgec.oracle.frameworks import open_oracle
from edgec.quantizer.post_training import Recipe
from edgec.runners.engine import open_session

#: Of the three layers with weights.
ELEMENTS = (108, 36, 320)
CHANNELS = (4, 4, 5)


def samples(count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(1)
    return [[rng.normal(0, 1, (1, 3, 6, 6)).astype(np.float32)] for _ in range(count)]


@pytest.mark.parametrize("bits, least_db", [(8, 37.0), (4, 12.0)])
def test_file_reference_and_images_agree(bits: int, least_db: float, tmp_path: Path) -> None:
    path = network(tmp_path / "float.onnx")
    made = quantize_model(path, samples(24), Recipe(weights=f"int{bits}", activations="float32"))
    explained = made.explain(samples(6))
    assert least_db < explained.output_sqnr_db < 90.0
    written = write_quantized(made, tmp_path / "written.onnx")
    model = onnx.load(written)
    kind = onnx.TensorProto.INT8 if bits == 8 else onnx.TensorProto.INT4
    stored = [int(np.prod(t.dims)) for t in model.graph.initializer
              if t.data_type == kind and len(t.dims) > 1]  # fmt: skip
    assert sorted(stored) == sorted(ELEMENTS)
    assert {node.op_type for node in model.graph.node} & {"QuantizeLinear"} == set()
    oracle = open_oracle(written)
    compiled, _ = build(written, "host", optimize="size")
    plain, _ = build(written, "host")
    for sample in samples(6):
        (ours,) = compiled.reference(sample)
        (theirs,) = oracle.run(sample).outputs
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max())
        assert ours.tobytes() == plain.reference(sample)[0].tobytes()
    bytes_ = sum(
        array.nbytes
        for variant in compiled.chosen
        for name, array in variant.constants.items()
        if name.startswith("w")
    )
    assert bytes_ == sum(ELEMENTS) * bits // 8 + 4 * sum(CHANNELS)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an386", "mps3_an547"])
def test_the_same_bits(board: str, bits: int, tmp_path: Path) -> None:
    engine = {"host": "host", "mps3_an547": "qemu"}.get(board, "core")
    need_tools(engine, "gcc", board)
    path = network(tmp_path / "float.onnx")
    made = quantize_model(path, samples(8), Recipe(weights=f"int{bits}", activations="float32"))
    written = write_quantized(made, tmp_path / "written.onnx")
    compiled, built = build(written, board, optimize="size")
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        (sample,) = samples(1)
        (found,) = session.run(sample).outputs
    assert found.tobytes() == compiled.reference(sample)[0].tobytes()


def test_layers_may_keep_their_weights(tmp_path: Path) -> None:
    path = network(tmp_path / "float.onnx")
    name = onnx.load(path).graph.node[-1].output[0]
    recipe = Recipe(activations="float32", keep_float=(name,))
    made = quantize_model(path, samples(8), recipe)
    assert len(made.scheme.weights) == 2
    assert {node.op.name for node in made.scheme.weights} == {"conv2d", "depthwise_conv2d"}

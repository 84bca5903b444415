"""Models from quantization-aware training: the file's own parameters, and ONNX Runtime's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from built_models import build
from onnx import numpy_helper
from quantized_files import quantize_model
from test_same_bits import need_tools
from trained_builder import Trained, TrainedBuilder, convolutions, products

from edgec.graph.ir import Constant
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import Compiled
from edgec.quantizer.post_training import Recipe
from edgec.runners.engine import open_session

#: How values are stored: dtype, and limits within it.
VALUES = {
    "uint8": ("uint8", None),
    "uint8 of 7 bits": ("uint8", (0, 127)),
    "int8": ("int8", None),
    "int8 of 6 bits": ("int8", (-32, 31)),
}
#: How weights are made of floats.
WEIGHTS: dict[str, dict[str, Any]] = {
    "per channel": {},
    "per channel, narrow": {"narrow": True},
    "per tensor": {"per_channel": False},
    "stored, narrow": {"narrow": True, "is_stored": True},
    "uint8 around 128": {"dtype": "uint8", "zero_point": 128},
}
NETWORKS = {"convolutions": (convolutions, (1, 3, 8, 8)), "products": (products, (1, 4, 20))}


def inputs(shape: tuple[int, ...], count: int, dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    if dtype == np.float32:
        return [rng.normal(0, 1.5, shape).astype(np.float32) for _ in range(count)]
    return [rng.integers(0, 128, shape).astype(dtype) for _ in range(count)]


def names(compiled: Compiled) -> list[str]:
    """The operators between the first quantize and the last dequantize, but for views."""
    left = ("quantize", "dequantize", "transpose", "reshape")
    return [node.op.name for node in compiled.module.main.nodes if node.op.name not in left]


def check_parameters(compiled: Compiled, trained: Trained) -> None:
    """What the file has is in the compiled model, and no other scale, zero point or weight."""
    main = compiled.module.main
    moved = {(scale, zero - 128) for scale, zero in trained.values}
    of_values, weights = set(), []
    for node in main.nodes:
        assert not any(v.type.is_float for v in node.inputs) or node.op.name in (
            "quantize", "transpose", "reshape",
        ), node  # fmt: skip
        for value in node.outputs:
            if value.type.quant is not None:
                assert value.type.quant.per_tensor and value.type.dtype == "int8"
                of_values.add((value.type.quant.scale[0], value.type.quant.zero_point[0]))
        if node.op.name in ("conv2d", "depthwise_conv2d", "dense"):
            assert isinstance(node.inputs[1], Constant)
            weights.append(node.inputs[1])
    assert of_values in (moved, trained.values)
    assert len(weights) == len(trained.weights)
    for mine, (stored, scale) in zip(weights, trained.weights, strict=True):
        assert mine.type.quant is not None and not any(mine.type.quant.zero_point)
        assert mine.type.quant.scale == tuple(map(float, scale.reshape(-1)))
        order = {4: (0, 2, 3, 1), 2: (0, 1)}[stored.ndim]
        if stored.ndim == 4 and mine.data.ndim == 3:  # depthwise
            order = (2, 3, 0, 1)
        assert np.array_equal(mine.data.reshape(-1), stored.transpose(order).reshape(-1))


def check_bits(
    path: Path, shape: tuple[int, ...], board: str = "host", dtype: Any = np.float32
) -> Compiled:
    """The C of a model on a board gives ONNX Runtime's bits."""
    engine = {"host": "host", "mps3_an547": "qemu"}.get(board, "core")
    need_tools(engine, "gcc", board)
    compiled, built = build(path, board)
    oracle = open_oracle(path)
    seen: set[float] = set()
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for x in inputs(shape, 6, dtype):
            expected = oracle.run([x]).outputs
            seen.update(expected[0].reshape(-1).tolist())
            for found, wanted in zip(session.run([x]).outputs, expected, strict=True):
                assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
    assert len(seen) > 5
    return compiled


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("network", NETWORKS)
def test_parameters_and_bits(network: str, values: str, weights: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write, shape = NETWORKS[network]
    model = TrainedBuilder(3, shape, *VALUES[values])
    path = model.save(write(model, **WEIGHTS[weights]), tmp_path / "trained.onnx")
    check_parameters(check_bits(path, shape), model.trained)


@pytest.mark.parametrize("board", ["sim_m0", "mps2_an386", "mps3_an547"])
def test_bits_on_cores(board: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write, shape = NETWORKS["convolutions"]
    model = TrainedBuilder(3, shape, *VALUES["uint8 of 7 bits"])
    path = model.save(write(model), tmp_path / "trained.onnx")
    check_parameters(check_bits(path, shape, board), model.trained)


def test_weights_that_do_not_fit_stay_in_float(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write, shape = NETWORKS["products"]
    model = TrainedBuilder(3, shape)
    path = model.save(write(model, dtype="uint8", zero_point=90), tmp_path / "trained.onnx")
    compiled, _ = build(path, "host")
    assert "requantize" not in names(compiled)
    step = 0.02
    for x in inputs(shape, 3):
        (found,), (wanted,) = compiled.reference([x]), open_oracle(path).run([x]).outputs
        assert np.abs(found - wanted).max() <= 1.01 * step
        assert np.mean(found != wanted) < 0.1


def weights_alone(b: TrainedBuilder) -> str:
    y = b.add("Conv", ["x", b.fake_weights((8, 3, 3, 3)), b.bias(8)], pads=[1, 1, 1, 1])
    weights = b.fake_weights((4, 8, 3, 3), per_channel=False, narrow=True)
    return b.add("Conv", [b.add("Relu", [y]), weights])


@pytest.mark.parametrize("is_baked", [False, True])
def test_the_rest_is_quantized_around_weights(is_baked: bool, tmp_path: Path) -> None:
    """Weights from training, dequantized in the file or baked in as floats, stay what they are."""
    shape = (1, 3, 8, 8)
    model = TrainedBuilder(3, shape)
    path = model.save(weights_alone(model), tmp_path / "trained.onnx")
    if is_baked:
        path = baked(path, model.trained)
    samples = [[x] for x in inputs(shape, 12)]
    for recipe in (Recipe(), Recipe(activations="float32"), Recipe(activations="int16")):
        made = quantize_model(path, samples, recipe)
        kept = [w for node, w in made.scheme.weights.items()]
        assert len(kept) == len(model.trained.weights)
        for mine, (stored, scale) in zip(kept, model.trained.weights, strict=True):
            stored = stored.transpose(0, 2, 3, 1)
            wide = scale.reshape([-1, 1, 1, 1] if scale.ndim else [])
            assert np.array_equal(mine.data, stored)
            np.testing.assert_allclose(mine.real(), stored * wide, rtol=2e-7)


def baked(path: Path, trained: Trained) -> Path:
    """The same model with weights as floats that are multiples of their steps."""
    model = onnx.load(path)
    made = {}
    stored = iter(trained.weights)
    for node in [n for n in model.graph.node if n.op_type == "DequantizeLinear"]:
        numbers, scale = next(stored)
        wide = scale.reshape([-1, 1, 1, 1] if scale.ndim else [])
        made[node.output[0]] = (numbers.astype(np.float32) * wide).astype(np.float32)
    kept = [n for n in model.graph.node if n.op_type in ("Conv", "Relu")]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in made.items())
    path = path.with_name("baked.onnx")
    path.write_bytes(model.SerializeToString())
    return path

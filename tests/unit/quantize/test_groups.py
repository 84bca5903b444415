"""`--group`: int4 weights with a scale for each group of inputs, exact in integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import build
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import OnnxBuilder
from quantized_files import qdq_bytes, quantize_model
from test_same_bits import need_tools

from edgec.errors import EdgecError, ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.group_scales import group_of, group_scales
from edgec.quantizer.mixed_weights import stored_bytes
from edgec.quantizer.post_training import PostTraining, Recipe
from edgec.runners.engine import open_session

#: What has a scale for each channel alone; all else is chosen as it is by default.
CHANNELS = Recipe("mse", weights="int4")


def network(path: Path) -> Path:
    """Two convolutions and a Gemm whose inputs differ in size from channel to channel."""
    rng = np.random.default_rng(3)
    model = OnnxBuilder(3, (1, 32, 5, 6))

    def weights(name: str, *shape: int) -> str:
        data = rng.normal(0, 0.1, shape) * np.exp2(rng.integers(-3, 1, (1, shape[1] // 16, 1)))\
            .repeat(16, axis=1).reshape(1, shape[1], *(1,) * (len(shape) - 2))  # fmt: skip
        return model.constant(data.astype(np.float32), name)

    y = model.add("Conv", ["x", weights("w1", 48, 32, 3, 3)], pads=[1, 1, 1, 1])
    y = model.add("Conv", [model.add("Relu", [y]), weights("w2", 16, 48, 1, 1)])
    y = model.add("Flatten", [model.add("Relu", [y])])
    return model.save(model.add("Gemm", [y, weights("w3", 6, 480)], transB=1), path)


def samples(count: int, seed: int = 1) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(0, 1, (1, 32, 5, 6)).astype(np.float32)] for _ in range(count)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return network(tmp_path_factory.mktemp("groups") / "float.onnx")


@pytest.fixture(scope="module")
def made(path: Path) -> PostTraining:
    return quantize_model(path, samples(40), replace(CHANNELS, group=16))


@pytest.fixture(scope="module")
def written(made: PostTraining, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "int4.onnx"
    path.write_bytes(qdq_bytes(made))
    return path


def test_groups_are_better_than_channels(path: Path, made: PostTraining) -> None:
    channels = quantize_model(path, samples(40), CHANNELS)
    found, whole = (m.explain(samples(100, 2)).output_sqnr_db for m in (made, channels))
    assert found > whole + 2.0


def test_scales_are_shifts_of_the_channels(made: PostTraining) -> None:
    assert sorted(weights.group for weights in made.scheme.weights.values()) == [16, 16, 16]
    for node, weights in made.scheme.weights.items():
        groups = weights.data.reshape(*weights.data.shape[:-1], -1, weights.group)
        fits = [
            (groups % 2**n == 0).all(-1) & (np.abs(groups * 2 + 2**n) <= 15 * 2**n).all(-1)
            for n in range(4)
        ]
        assert np.any(fits, axis=0).all()
        assert stored_bytes(node, 4, 16) == weights.data.size // 2 + -(-weights.data.size // 32)


def test_the_file_has_blocks_and_comes_back(made: PostTraining, written: Path) -> None:
    model = onnx.load(written)
    blocks = [n for n in model.graph.node if any(a.name == "block_size" for a in n.attribute)]
    assert len(blocks) == 3 and model.opset_import[0].version == 21
    kinds = {t.name: t.data_type for t in model.graph.initializer}
    assert {kinds[node.input[0]] for node in blocks} == {TensorProto.INT4}
    back = run_passes(import_model(written).main, "onnx")
    assert not any(node.op.name == "dequantize" for node in back.nodes[:-1])
    for sample in samples(5, 3):
        assert np.array_equal(interpret(made.integers, sample)[0], interpret(back, sample)[0])


def test_onnxruntime_runs_the_file(made: PostTraining, written: Path) -> None:
    oracle = open_oracle(written)
    step = made.scheme.values[made.source.results[0]].quant.scale[0]
    for sample in samples(5, 3):
        # It dequantizes int4 weights: sums are rounded in float and may miss a tie.
        found = oracle.run(sample).outputs[0]
        np.testing.assert_allclose(interpret(made.integers, sample)[0], found, atol=1.01 * step)


@pytest.mark.parametrize("board", ["host", "sim_m0", "mps2_an385", "mps2_an386", "mps3_an547"])
def test_the_same_bits_everywhere(written: Path, board: str) -> None:
    engine = {"host": "host", "mps3_an547": "qemu"}.get(board, "core")
    need_tools(engine, "gcc", board)
    compiled, built = build(written, board)
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for sample in samples(2, 4):
            (found,) = session.run(sample).outputs
            assert found.tobytes() == compiled.reference(sample)[0].tobytes()
    if board in ("sim_m0", "mps2_an385"):  # products on DSP, MVE and x86 read whole bytes
        elements = (48 * 32 * 9, 16 * 48, 6 * 480)
        stored = [
            array.nbytes
            for variant in compiled.chosen
            for name, array in variant.constants.items()
            if name.startswith("w")
        ]
        assert sum(stored) == sum(n // 2 + n // 32 for n in elements)


def test_weights_alone_in_groups(path: Path, tmp_path: Path) -> None:
    recipe = Recipe(weights="int4", activations="float32", group=32)
    made = quantize_model(path, samples(40), recipe)
    written = tmp_path / "alone.onnx"
    written.write_bytes(qdq_bytes(made))
    compiled, _ = build(written, "host", optimize="size")
    oracle = open_oracle(written)
    for sample in samples(3, 5):
        (ours,) = compiled.reference(sample)
        (theirs,) = oracle.run(sample).outputs
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=4e-6 * np.abs(theirs).max())
    names = [name for v in compiled.chosen for name in v.constants]
    assert names.count("w_shift") == 3 and names.count("w_step") == 3


def test_which_sizes_and_what_is_refused(made: PostTraining) -> None:
    by_depth = {node.inputs[1].type.shape[-1]: node for node in made.scheme.weights}
    assert [group_of(by_depth[48], most) for most in (0, 16, 30, 47, 100)] == [0, 16, 24, 24, 48]
    for recipe in ({"group": 32}, {"group": 8, "weights": "int4"}):
        with pytest.raises(EdgecError, match="groups of"):
            Recipe(**recipe)


def test_scales_follow_what_inputs_are() -> None:
    rows = np.full((1, 32), 1.0)
    rows[0, 16:] = 0.1
    scales, steps = group_scales(rows, 16, np.zeros(1))
    assert set(steps[0, :16]) == {8.0} and steps[0, 16] < 8.0 and scales[0] < 1 / 40
    least = np.array([0.5])
    assert group_scales(rows, 16, least)[0][0] == 0.5


def blocked(path: Path, scales: np.ndarray, zeros: np.ndarray | None = None) -> Path:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-8, 8, (4, 32)).astype(np.int8)
    stored = helper.make_tensor("w", TensorProto.INT4, (4, 32), numbers.reshape(-1).tolist())
    initializers = [stored, numpy_helper.from_array(scales, "s")]
    if zeros is not None:
        flat = zeros.reshape(-1).tolist()
        initializers.append(helper.make_tensor("z", TensorProto.INT4, zeros.shape, flat))
    names = ["w", "s"] + ([] if zeros is None else ["z"])
    nodes = [
        helper.make_node("DequantizeLinear", names, ["real"], axis=1, block_size=16),
        helper.make_node("Gemm", ["x", "real"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 32))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        initializers,
    )  # fmt: skip
    opset = [helper.make_opsetid("", 21)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
    )
    return path


@pytest.mark.parametrize("kind", ["shifts", "any", "zeros"])
def test_blocks_of_any_scales_are_read(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scales = rng.uniform(0.01, 0.02, (4, 2)).astype(np.float32)
    if kind == "shifts":
        scales[:, 1] = scales[:, 0] * np.float32(4)
    zeros = rng.integers(-8, 8, (4, 2)) if kind == "zeros" else None
    path = blocked(tmp_path / "m.onnx", scales, zeros)
    main = import_model(path).main
    assert any(node.op.name == "dequantize" for node in main.nodes) == (kind == "shifts")
    x = rng.normal(0, 1, (1, 32)).astype(np.float32)
    (ours,) = interpret(run_passes(main, "onnx"), [x])
    (theirs,) = open_oracle(path).run([x]).outputs
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(theirs).max())


def test_scales_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = blocked(tmp_path / "m.onnx", np.full((4, 3), 0.5, np.float32))
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "scales [4, 3] for blocks [4, 2]" in str(caught.value.details) + caught.value.message

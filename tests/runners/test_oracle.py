"""The oracles give the published hashes, and every tensor inside agrees with the outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.errors import ImportFailed, RunFailed
from edgec.oracle.frameworks import open_oracle
from edgec.runners.samples import fnv1a32, generate_inputs, outputs_fnv1a32

REPO = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EDGEC_SHARED", REPO.parent / "shared"))
MODELS = ("kws", "ic", "vww", "ad", "sww", "person_detect")


def shared_file(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"shared data {name} is absent")
    return path


def baseline(model: str) -> dict:
    return json.loads(shared_file("baselines.json").read_text())["models"][model]


def seeded_inputs(oracle, seed: int):
    return generate_inputs(seed, [(shape, dtype) for _, shape, dtype in oracle.input_types()])


def test_fnv1a32_known_values() -> None:
    # From the authors' published test vectors.
    assert fnv1a32(b"") == "811c9dc5"
    assert fnv1a32(b"a") == "e40c292c"
    assert fnv1a32(b"foobar") == "bf9cf968"


def test_generator_equals_its_definition() -> None:
    state, expected = 3, []
    for _ in range(300):
        state = (state * 1664525 + 1013904223) % 2**32
        expected.append(state >> 24)
    first, second = generate_inputs(3, [((10, 20), np.int8), ((100,), np.uint8)])
    assert first.view(np.uint8).ravel().tolist() == expected[:200]
    assert second.tolist() == expected[200:]
    (wide,) = generate_inputs(3, [((75,), np.int32)])
    assert wide.astype("<i4").view(np.uint8).tolist() == expected
    (real,) = generate_inputs(3, [((300,), np.float32)])
    assert np.array_equal(real * 128, np.array(expected, np.uint8).view(np.int8))


@pytest.mark.parametrize("model", MODELS)
def test_tflm_gives_the_hashes_of_real_firmware(model: str) -> None:
    entry = baseline(model)
    oracle = open_oracle(shared_file("models") / entry["file"])
    hashes = [
        outputs_fnv1a32(oracle.run(seeded_inputs(oracle, seed)).outputs) for seed in (1, 2, 3, 4)
    ]
    assert hashes == entry["output_fnv1a"]


def test_tflm_keeps_every_tensor() -> None:
    path = shared_file("models") / baseline("kws")["file"]
    oracle = open_oracle(path)
    (image,) = seeded_inputs(oracle, 1)
    result = oracle.run([image], tensors=True)
    assert np.array_equal(result.tensors["input_1"], image)
    assert np.array_equal(result.tensors["Identity"], result.outputs[0])
    assert len(result.indexed) == 14  # the input, and one result of each of 13 operators
    assert all(value.dtype == np.int8 for value in result.indexed.values())
    again = open_oracle(path).run([image], tensors=True)
    assert all(np.array_equal(again.indexed[i], v) for i, v in result.indexed.items())


def test_litert_reference_agrees_on_convolutions() -> None:
    path = shared_file("models") / baseline("vww")["file"]
    oracle = open_oracle(path, "litert")
    inputs = seeded_inputs(oracle, 1)
    mine = oracle.run(inputs, tensors=True)
    other = open_oracle(path).run(inputs, tensors=True)
    assert mine.indexed.keys() == other.indexed.keys()
    assert all(np.array_equal(mine.indexed[i], other.indexed[i]) for i in mine.indexed)


def test_onnx_outputs_and_integer_tensors() -> None:
    oracle = open_oracle(REPO / "examples/digits/digits_int8.onnx")
    inputs = seeded_inputs(oracle, 1)
    result = oracle.run(inputs, tensors=True)
    (name,) = [n for n, v in result.tensors.items() if v is result.outputs[0]] or ["logits"]
    assert np.array_equal(result.tensors[name], result.outputs[0])
    quantized = [result.tensors[n] for n in oracle.quantized]
    assert len(quantized) > 5
    assert all(value.dtype in (np.int8, np.uint8, np.int16) for value in quantized)
    again = oracle.run(inputs)
    assert np.array_equal(again.outputs[0], result.outputs[0]) and not again.tensors


def test_onnx_integer_tensors_come_from_the_fused_model() -> None:
    """The copy that shows integer tensors still gives the unmodified model's outputs."""
    oracle = open_oracle(REPO / "examples/digits/digits_int8.onnx")
    data = np.load(REPO / "examples/digits/digits_test.npz")
    images = data[next(k for k in data.files if data[k].ndim > 1)]
    name, shape, dtype = oracle.input_types()[0]
    for image in images[:20]:
        value = np.ascontiguousarray(image.reshape([max(s, 1) for s in shape]).astype(dtype))
        result = oracle.run([value], tensors=True)
        shown = oracle._call(oracle._integer, {name: value})
        assert np.array_equal(shown[0], result.outputs[0])


def test_wrong_inputs_are_named() -> None:
    oracle = open_oracle(REPO / "examples/digits/digits_int8.onnx")
    with pytest.raises(RunFailed, match="takes 1 inputs, 0"):
        oracle.run([])
    with pytest.raises(RunFailed, match=r"input 'image'.*was given int8"):
        oracle.run([np.zeros(3, np.int8)])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    for name in ("bad.tflite", "bad.onnx"):
        path = tmp_path / name
        path.write_bytes(b"\x10\0\0\0TFL3 nonsense")
        with pytest.raises((ImportFailed, RunFailed), match=name):
            open_oracle(path).run([])
    with pytest.raises(ImportFailed, match="cannot read"):
        open_oracle(tmp_path / "absent.tflite").run([])


def test_onnx_dequantized_tensors_are_those_of_the_integers(tmp_path: Path) -> None:
    """Floats are shown by a copy that computes in floats, and rounds otherwise at ties."""
    import onnx

    model = OnnxBuilder(1, (1, 1, 64, 64))
    x = model.qdq("x", 0.25, 0)
    halved = model.add("Mul", [x, model.qdq(model.constant(np.float32(0.3), "c"), 0.1, 0)])
    moved = model.add("Add", [model.qdq(halved, 0.05, 0), x])
    last = model.add("Sigmoid", [model.qdq(moved, 0.07, 0)])
    y = model.add("Identity", [last])
    oracle = open_oracle(path := model.save(y, tmp_path / "m.onnx"))
    x = np.random.default_rng(1).normal(0, 3, (1, 1, 64, 64)).astype(np.float32)
    result = oracle.run([x], tensors=True)
    tensors = result.tensors
    assert np.array_equal(tensors[last], result.outputs[0])
    graph = onnx.load(path).graph
    constants = {entry.name: onnx.numpy_helper.to_array(entry) for entry in graph.initializer}
    pairs = [node for node in graph.node if node.input[0] in oracle.quantized]
    assert len(pairs) >= 3
    for node in pairs:
        scale, zero_point = (constants[name] for name in node.input[1:])
        difference = tensors[node.input[0]].astype(np.int32) - zero_point
        real = difference.astype(np.float32) * scale
        assert np.array_equal(tensors[node.output[0]], real), node.name

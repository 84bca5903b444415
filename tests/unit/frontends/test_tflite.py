"""What becomes of sound TFLite files, and the words for those that cannot be imported."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends.tflite import import_tflite
from edgec.graph.verify import verify_module

STRIDES = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
QUANT = {"scale": 0.5, "zero_point": -3}


def load(data: bytes, folder: Path) -> Any:
    path = folder / "model.tflite"
    path.write_bytes(data)
    return import_tflite(path)


def failure(data: bytes, folder: Path) -> ImportFailed:
    with pytest.raises(ImportFailed) as caught:
        load(data, folder)
    assert "model.tflite" in caught.value.render()
    return caught.value


def reshape_chain(model: TfliteBuilder, links: list[tuple[str, str]], **kinds: str) -> bytes:
    """A model of operators named by (input, output) tensors of six values; `in` to `out`."""
    tensors: dict[str, int] = {}
    for name in dict.fromkeys(n for link in links for n in link):
        tensors[name] = model.tensor(name, (6,), "int8", **QUANT)
    for before, after in links:
        model.operator(kinds.get(after, "RESHAPE"), [tensors[before]], [tensors[after]])
    return model.build([tensors["in"]], [tensors["out"]])


def conv_model(**changes: Any) -> bytes:
    """A 1x1 convolution of [1, 4, 4, 2] to 3 channels; keywords replace what `tensor` gets."""
    model = TfliteBuilder()
    fields: dict[str, dict[str, Any]] = {
        "x": {"shape": (1, 4, 4, 2), "dtype": "int8", **QUANT},
        "w": {
            "shape": (3, 1, 1, 2), "dtype": "int8", "scale": [0.1, 0.2, 0.3],
            "zero_point": [0, 0, 0], "data": np.ones((3, 1, 1, 2), np.int8),
        },
        "b": {"shape": (3,), "dtype": "int32", "data": np.array([1, 2, 3], np.int32)},
        "y": {"shape": (1, 4, 4, 3), "dtype": "int8", **QUANT},
    }  # fmt: skip
    options = {"Padding": 1, **STRIDES, **changes.pop("options", {})}
    table = changes.pop("table", "Conv2DOptions")
    for name, change in changes.items():
        fields[name].update(change)
    numbers = [
        model.tensor(name, entry.pop("shape"), entry.pop("dtype"), **entry)
        for name, entry in fields.items()
    ]
    model.operator("CONV_2D", numbers[:3], numbers[3:], table, **(options if table else {}))
    return model.build(numbers[:1], numbers[3:])


def test_values_have_names_types_and_provenance(tmp_path) -> None:
    module = load(conv_model(), tmp_path)
    verify_module(module)
    main = module.main
    assert (module.source, module.format) == ("model.tflite", "tflite")
    assert [node.op.name for node in main.nodes] == ["conv2d", "requantize"]
    assert [node.name for node in main.nodes] == ["y", "y/requantize"]
    assert [node.sources for node in main.nodes] == [("y",), ("y",)]
    acc, y = (node.output for node in main.nodes)
    assert (acc.name, acc.origin, acc.type.quant) == ("y.acc", None, None)
    assert y is main.results[0] and y.name == "y"
    assert y.origin is not None and (y.origin.tensor, y.origin.index) == ("y", 3)
    assert main.params[0].origin is not None and main.params[0].origin.index == 0
    weights = main.nodes[0].inputs[1]
    assert weights.type.quant is not None and weights.type.quant.axis == 0
    assert np.array_equal(main.nodes[0].inputs[2].data, [1, 2, 3])


def test_multipliers_are_exact_doubles(tmp_path) -> None:
    attrs = load(conv_model(), tmp_path).main.nodes[1].attrs
    scales = [float(np.float32(s)) for s in (0.1, 0.2, 0.3)]
    assert attrs.multiplier == tuple(0.5 * scale / 0.5 for scale in scales)
    assert (attrs.minimum, attrs.maximum, attrs.rounding) == (-128, 127, "tflm")


def test_activations_become_ranges(tmp_path) -> None:
    ranges = {}
    for number in range(4):
        data = conv_model(options={"FusedActivationFunction": number})
        attrs = load(data, tmp_path).main.nodes[1].attrs
        ranges[number] = (attrs.minimum, attrs.maximum)
    assert ranges == {0: (-128, 127), 1: (-3, 127), 2: (-5, -1), 3: (-3, 9)}


def test_names_are_shortened_made_unique_and_never_empty(tmp_path) -> None:
    model = TfliteBuilder()
    a, b, c, d = (
        model.tensor(name, (6,), "int8", **QUANT) for name in ("", "relu;bias;conv", "relu;2", "")
    )
    for before, after in ((a, b), (b, c), (c, d)):
        model.operator("RESHAPE", [before], [after])
    main = load(model.build([a], [d]), tmp_path).main
    assert [value.name for value in main.values()] == ["tensor_0", "relu", "relu#1", "tensor_3"]
    origins = [value.origin.tensor for value in main.values()]
    assert origins == ["tensor 0", "relu;bias;conv", "relu;2", "tensor 3"]


def test_an_open_batch_dimension_is_one(tmp_path) -> None:
    data = conv_model(x={"signature": (-1, 4, 4, 2)}, y={"signature": (-1, 4, 4, 3)})
    assert load(data, tmp_path).main.params[0].type.shape == (1, 4, 4, 2)


def test_results_may_be_inputs_and_constants_are_shared(tmp_path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (2,), "int8", **QUANT)
    c = model.tensor("c", (2,), "int8", **QUANT, data=np.array([1, 2], np.int8))
    y, z = (model.tensor(name, (2,), "int8", **QUANT) for name in "yz")
    model.operator("ADD", [x, c], [y], "AddOptions")
    model.operator("ADD", [y, c], [z], "AddOptions")
    main = load(model.build([x], [z, x]), tmp_path).main
    assert main.results[1] is main.params[0]
    assert len(main.constants()) == 1


def test_unsupported_operators_are_reported_together(tmp_path) -> None:
    model = TfliteBuilder()
    data = reshape_chain(
        model,
        [("in", "a"), ("a", "b"), ("b", "c"), ("c", "out")],
        a="CUSTOM:Sorcery", b="RESHAPE", c="MULTINOMIAL", out="SKIP_GRAM",
    )  # fmt: skip
    found = failure(data, tmp_path)
    assert found.message == "3 operators of model.tflite are not supported"
    assert found.details == (
        'CUSTOM:Sorcery  node "a": no importer for TFLite CUSTOM:Sorcery',
        'MULTINOMIAL  node "c": no importer for TFLite MULTINOMIAL',
        'SKIP_GRAM  node "out": no importer for TFLite SKIP_GRAM',
    )
    assert "edgec ops" in found.hint


def test_many_unsupported_operators_are_grouped(tmp_path) -> None:
    names = ["in", *(f"t{i}" for i in range(24)), "out"]
    links = list(itertools.pairwise(names))
    kinds = {name: "MULTINOMIAL" if i % 2 else "HASHTABLE_SIZE" for i, name in enumerate(names)}
    found = failure(reshape_chain(TfliteBuilder(), links, **kinds), tmp_path)
    assert found.message == "25 operators of model.tflite are not supported"
    assert found.details == (
        'MULTINOMIAL  13 nodes "t0", "t2", "t4" ...: no importer for TFLite MULTINOMIAL',
        'HASHTABLE_SIZE  12 nodes "t1", "t3", "t5" ...: no importer for TFLite HASHTABLE_SIZE',
    )


def test_operators_without_outputs_are_named_after_their_kind(tmp_path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (6,), "int8", **QUANT) for name in "xy")
    model.operator("CALL_ONCE", [], [])
    model.operator("RESHAPE", [x], [y])
    found = failure(model.build([x], [y]), tmp_path)
    assert found.details == ('CALL_ONCE  node "CALL_ONCE": it has no CallOnceOptions',)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": {"dtype": "float32", "scale": ()}, "y": {"dtype": "float32", "scale": ()}},
         "int32 bias: float32 is expected"),
        ({"x": {"dtype": "int16"}, "y": {"dtype": "int16"}}, "int16 inputs with zero point 0"),
        ({"x": {"dtype": "uint8", "scale": ()}}, "uint8 input and int8 weights"),
        ({"w": {"dtype": "float32", "data": np.ones(6, np.float32)}}, "and float32 weights"),
        ({"w": {"data": None}}, 'reads tensor 1 "w", which nothing computes'),
        ({"w": {"data": b"123"}}, 'tensor 1 "w" needs 6 bytes, its buffer has 3'),
        ({"b": {"data": b"1234567812345678"}}, "needs 12 bytes, its buffer has 16"),
        ({"w": {"zero_point": [0, 1, 0]}}, "zero point other than 0"),
        ({"w": {"scale": [0.1, 0.2], "zero_point": [0, 0]}}, "2 scales along dimension 0"),
        ({"w": {"axis": 7}}, "3 scales along dimension 7 of [3, 1, 1, 2]"),
        ({"w": {"scale": [0.1, float("nan"), 0.2]}}, "not a positive number"),
        ({"x": {"zero_point": 300}}, "is not read"),
        ({"y": {"scale": 0.0}}, "not a positive number"),
        ({"y": {"scale": ()}}, "the output is not quantized"),
        ({"y": {"shape": (1, 4, 4, 2)}}, "the file declares int8[1, 4, 4, 2]"),
        ({"y": {"shape": (1, 4, 0, 3)}}, "is empty"),
        ({"y": {"shape": (1, 4, -1, 3)}}, "has a dynamic shape (dimension 2)"),
        ({"y": {"shape": (1, 1 << 15, 1 << 15, 3)}}, "is larger than 1 GiB"),
        ({"w": {"shape": (3, 1, 1, 1), "data": np.ones(3, np.int8)}}, "grouped convolution"),
        ({"w": {"shape": (3, 5, 5, 2), "data": np.ones(150, np.int8)}}, "does not fit in 4"),
        ({"w": {"variable": True}}, "weights that are computed are not supported"),
        ({"table": ""}, "it has no Conv2DOptions"),
        ({"options": {"StrideH": 0}}, "stride 0 x 1"),
        ({"options": {"Padding": 9}}, "padding number 9 is unknown"),
        ({"options": {"FusedActivationFunction": 4}}, "fused activation TANH is not supported"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_words_for_what_a_convolution_cannot_be(changes, words, tmp_path) -> None:
    if words == "is not read":  # a model's input is checked before its operators
        assert "input tensor 0" in failure(conv_model(**changes), tmp_path).message
        return
    found = failure(conv_model(**changes), tmp_path)
    assert found.message == "1 operator of model.tflite is not supported"
    assert found.details[0].startswith('CONV_2D  node "y": ')
    assert words in found.details[0]


def test_a_cycle_is_named(tmp_path) -> None:
    data = reshape_chain(TfliteBuilder(), [("in", "a"), ("c", "b"), ("b", "c"), ("c", "out")])
    found = failure(data, tmp_path)
    assert "only a later operator computes: the graph is cyclic or out of order" in found.details[0]


def test_two_writers_of_a_tensor_are_named(tmp_path) -> None:
    data = reshape_chain(TfliteBuilder(), [("in", "out"), ("in", "out")])
    assert 'writes tensor 1 "out", which is written already' in failure(data, tmp_path).message
    data = reshape_chain(TfliteBuilder(), [("in", "in"), ("in", "out")])
    assert 'writes tensor 0 "in"' in failure(data, tmp_path).message


def test_an_output_that_nothing_computes_is_named(tmp_path) -> None:
    model = TfliteBuilder()
    x, y, z = (model.tensor(name, (6,), "int8", **QUANT) for name in "xyz")
    model.operator("RESHAPE", [x], [y])
    found = failure(model.build([x], [z]), tmp_path)
    assert 'output tensor 2 "z" is never computed' in found.message


def test_match_is_checked(tmp_path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(conv_model())
    with pytest.raises(ImportFailed, match="--match caffe is unknown"):
        import_tflite(path, match="caffe")
    assert import_tflite(path, match="onnx").main.nodes[1].attrs.rounding == "onnx"
    assert import_tflite(path, match="litert").main.nodes[1].attrs.rounding == "tflm"

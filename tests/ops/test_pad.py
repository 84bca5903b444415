"""pad: PAD and PADV2 as TFLite Micro, ONNX Pad as ONNX Runtime, and folded into windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from quantized_cases import random_zero_point
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.pad import Pad, PadAttrs
from edgec.passes.fold_padding import fold_padding
from edgec.runners.samples import generate_inputs


def pad_model(seed: int, kind: str = "PAD", dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 6, rank).tolist()
    padding = rng.integers(0, 4, (rank, 2)) * rng.integers(0, 2, (rank, 2))
    zero_point = random_zero_point(rng) if dtype == "int8" else 0
    quant = {"scale": 0.1, "zero_point": zero_point} if dtype in ("int8", "int16") else {}
    model = TfliteBuilder()
    x = model.tensor("x", shape, dtype, **quant)
    inputs = [x, model.tensor("paddings", (rank, 2), "int32", data=padding.astype(np.int32))]
    if kind == "PADV2":
        value = np.array([int(rng.integers(-128, 128))]).astype(dtype)
        inputs.append(model.tensor("value", (1,), dtype, data=value, **quant))
    padded = [e + int(p.sum()) for e, p in zip(shape, padding, strict=True)]
    y = model.tensor("y", padded, dtype, **quant)
    model.operator(kind, inputs, [y], "PadOptions" if kind == "PAD" else "PadV2Options")
    return model.build([x], [y])


def inputs_of(function, seed: int) -> list[np.ndarray]:
    return generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in function.params])


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("PAD", dtype) for dtype in ("int8", "int16", "int32", "float32")),
        *(("PADV2", dtype) for dtype in ("int8", "int16", "float32")),
    ],
)
def test_random_pads_equal_tflm(kind: str, dtype: str, tmp_path: Path) -> None:
    for seed in range(12):
        module = assert_same_bits(pad_model(seed, kind, dtype), tmp_path)
        check_nests(module.main, inputs_of(module.main, seed))


@pytest.mark.parametrize(("opset", "axes"), [(17, None), (18, [1, -1])])
def test_equals_onnxruntime(opset: int, axes: list[int] | None, tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    pads = [0, 1, 2, 1, 0, 1] if axes is None else [1, 2, 0, 1]
    constants = {
        "pads": np.array(pads, np.int64),
        "value": np.array(-1.5, np.float32),
        "axes": None if axes is None else np.array(axes, np.int64),
    }
    if axes is None:
        del constants["axes"]
    path = save_node(tmp_path / "m.onnx", "Pad", x, constants, opset=opset)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_other_padding_is_refused(tmp_path: Path) -> None:
    x = np.zeros((3, 4), np.float32)
    constants = {"pads": np.array([0, 1, 0, 1], np.int64)}
    path = save_node(tmp_path / "m.onnx", "Pad", x, constants, mode="round")
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "padding by 'round'" in str(failure.value.details)


def test_padding_that_no_machine_could_hold_is_refused(tmp_path: Path) -> None:
    constants = {"pads": np.array([0, 1 << 40], np.int64)}
    path = save_node(tmp_path / "m.onnx", "Pad", np.zeros(3, np.float32), constants)
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "more than 1 GiB" in str(failure.value.details)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (PadAttrs(((0, 0),)), "1 pairs"),
        (PadAttrs(((0, 0), (-1, 0))), "negative"),
        (PadAttrs(((0, 0), (1, 0)), 200), "does not fit"),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs: PadAttrs, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Pad().infer(attrs, TensorType((2, 3), "int8"))


def padded_window(op: str, padding: int, value: int):
    """pad, then a 3 x 3 window with a padding of its own; the function and one input."""
    rng = np.random.default_rng(3)
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 6, 5, 4), "int8", Quant((0.1,), (7,))))
    pairs = ((0, 0), (padding, 0), (0, padding), (0, 0))
    padded = builder.op("pad", [x], PadAttrs(pairs, value), name="pad")
    from edgec.ops.conv2d import Conv2dAttrs
    from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
    from edgec.ops.max_pool2d import MaxPool2dAttrs

    if op == "max_pool2d":
        y = builder.op(op, [padded], MaxPool2dAttrs((3, 3), (2, 2)), name=op)
    else:
        shape = (3, 3, 3, 4) if op == "conv2d" else (3, 3, 4)
        channels = shape[0] if op == "conv2d" else shape[2]
        w = builder.constant("w", rng.integers(-128, 128, shape).astype(np.int8))
        bias = builder.constant("bias", np.arange(channels, dtype=np.int32))
        kind = Conv2dAttrs if op == "conv2d" else DepthwiseConv2dAttrs
        y = builder.op(op, [padded, w, bias], kind(padding=((0, 1), (1, 0))), name=op)
    return builder.finish([y]), rng.integers(-128, 128, (1, 6, 5, 4)).astype(np.int8)


@pytest.mark.parametrize(
    ("op", "padding", "value", "folds"),
    [
        ("conv2d", 1, 7, True),
        ("conv2d", 1, 0, False),
        ("conv2d", 3, 7, False),
        ("depthwise_conv2d", 2, 7, True),
        ("max_pool2d", 2, -128, True),
        ("max_pool2d", 2, 7, False),
    ],
)
def test_folding_into_windows_keeps_the_meaning(op, padding, value, folds) -> None:
    function, x = padded_window(op, padding, value)
    folded = fold_padding(function)
    assert ([node.op.name for node in folded.nodes] == [op]) == folds
    assert np.array_equal(interpret(function, [x])[0], interpret(folded, [x])[0])

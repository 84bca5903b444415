"""slice: SLICE, STRIDED_SLICE, SPLIT, SPLIT_V and UNPACK as TFLite Micro; ONNX Slice and Split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import Quant, TensorType
from edgec.ops.slice import Slice, SliceAttrs
from edgec.runners.samples import generate_inputs

QUANT = {"scale": 0.1, "zero_point": 0}


def check(data: bytes, folder: Path, seed: int = 1) -> None:
    main = assert_same_bits(data, folder).main
    check_nests(main, generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in main.params]))


def int32(model: TfliteBuilder, name: str, values: list[int]) -> int:
    return model.tensor(name, (len(values),), "int32", data=np.array(values, np.int32))


@pytest.mark.parametrize("seed", range(30))
def test_random_strided_slices_equal_tflm(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 7, rank).tolist()
    masks = rng.integers(0, 1 << rank, 3).tolist()
    begins, ends, strides, kept = [], [], [], []
    for axis, extent in enumerate(shape):
        begin, end = sorted(rng.integers(0, extent, 2).tolist())
        stride = int(rng.choice([1, 1, 2, 3, -1, -2]))
        shrinks = masks[2] >> axis & 1
        if shrinks:
            stride = 1
        begin, end = (begin, end + 1) if stride > 0 else (end, begin - 1)
        masks[0] &= ~(shrinks << axis)
        masks[1] |= (end < 0) << axis  # -1 would be the last element
        first = None if masks[0] >> axis & 1 else begin
        last = None if masks[1] >> axis & 1 else end
        if not shrinks:
            kept.append(len(range(extent)[first:last:stride]))
        begins.append(begin - extent if rng.random() < 0.3 else begin)
        ends.append(end)
        strides.append(stride)
    dtype = ["int8", "int16", "int32", "float32"][seed % 4]
    quant = QUANT if dtype in ("int8", "int16") else {}
    model = TfliteBuilder()
    x = model.tensor("x", shape, dtype, **quant)
    y = model.tensor("y", kept, dtype, **quant)
    ranges = [int32(model, n, v) for n, v in (("b", begins), ("e", ends), ("s", strides))]
    model.operator(
        "STRIDED_SLICE", [x, *ranges], [y], "StridedSliceOptions",
        BeginMask=masks[0], EndMask=masks[1], ShrinkAxisMask=masks[2],
    )  # fmt: skip
    check(model.build([x], [y]), tmp_path, seed)


@pytest.mark.parametrize("field", ["EllipsisMask", "NewAxisMask"])
def test_masks_that_tflm_refuses_are_refused(field: str, tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (4,), "int8", **QUANT) for name in "xy")
    ranges = [int32(model, n, [v]) for n, v in (("b", 0), ("e", 4), ("s", 1))]
    model.operator("STRIDED_SLICE", [x, *ranges], [y], "StridedSliceOptions", **{field: 1})
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "ellipsis or a new axis" in str(failure.value.details)


def test_slice_equals_tflm(tmp_path: Path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (3, 4, 5), "int8", **QUANT)
    y = model.tensor("y", (2, 4, 2), "int8", **QUANT)
    ranges = [int32(model, "begin", [1, 0, 2]), int32(model, "size", [2, -1, 2])]
    model.operator("SLICE", [x, *ranges], [y], "SliceOptions")
    check(model.build([x], [y]), tmp_path)


@pytest.mark.parametrize("kind", ["SPLIT", "SPLIT_V"])
def test_splits_equal_tflm(kind: str, tmp_path: Path) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (2, 6, 3), "int8", **QUANT)
    sizes = [2, 2, 2] if kind == "SPLIT" else [1, 3, 2]
    outputs = [model.tensor(f"y{n}", (2, size, 3), "int8", **QUANT) for n, size in enumerate(sizes)]
    axis = int32(model, "axis", [1])
    if kind == "SPLIT":
        model.operator(kind, [axis, x], outputs, "SplitOptions", NumSplits=3)
    else:
        inputs = [x, int32(model, "sizes", sizes), axis]
        model.operator(kind, inputs, outputs, "SplitVOptions", NumSplits=3)
    check(model.build([x], outputs), tmp_path)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unpack_equals_tflm(axis: int, tmp_path: Path) -> None:
    shape = [2, 3, 4]
    model = TfliteBuilder()
    x = model.tensor("x", shape, "int8", **QUANT)
    count = shape.pop(axis)
    outputs = [model.tensor(f"y{n}", shape, "int8", **QUANT) for n in range(count)]
    model.operator("UNPACK", [x], outputs, "UnpackOptions", Num=count, Axis=axis)
    check(model.build([x], outputs), tmp_path)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [0], [1]),
        ([0, -3], [-1, 100], [2, 1], [2, 1]),
        ([-1], [-100], [2], [-2]),
        ([3], [0], [2], [-1]),
    ],
)
def test_slice_equals_onnxruntime(starts, ends, axes, steps, tmp_path: Path) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    constants = {
        name: np.array(values, np.int64)
        for name, values in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))
    }
    path = save_node(tmp_path / "m.onnx", "Slice", x, constants)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_old_slices_have_attributes(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    path = save_node(tmp_path / "m.onnx", "Slice", x, {}, opset=9, starts=[1], ends=[3], axes=[1])
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize(
    ("begin", "stride", "shape"), [((2,), (1,), (2,)), ((0,), (-1,), (2,)), ((0,), (0,), (1,))]
)
def test_what_leaves_the_input_is_refused(begin, stride, shape) -> None:
    with pytest.raises(TypeMismatch, match="slice of"):
        Slice().infer(SliceAttrs(begin, stride, shape), TensorType((3,), "int8"))


def test_quantization_along_an_axis_is_refused() -> None:
    x = TensorType((2,), "int8", Quant((1.0, 2.0), (0, 0), 0))
    with pytest.raises(TypeMismatch, match="along an axis"):
        Slice().infer(SliceAttrs((0,), (1,), (1,)), x)

"""transpose_conv2d: TFLite Micro's int8 and int16 TRANSPOSE_CONV in every bit, floats closely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import check_operator
from quantized_cases import add_accumulation
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.transpose_conv2d import TransposeConv2d, TransposeConv2dAttrs
from edgec.oracle.frameworks import open_oracle


def geometry(rng: np.random.Generator) -> tuple[list[int], list[int], list[int], bool, list[int]]:
    """Extents, kernel, stride, whether padding is SAME, and the output's extents."""
    extents, kernel, stride = (rng.integers(1, most, 2).tolist() for most in (6, 6, 4))
    same = bool(rng.random() < 0.5)
    if same:
        output = [e * s for e, s in zip(extents, stride, strict=True)]
    else:
        output = [(e - 1) * s + max(k, s) for e, k, s in zip(extents, kernel, stride, strict=True)]
    return extents, kernel, stride, same, output


def options(stride: list[int], same: bool) -> dict[str, int]:
    return {"Padding": 0 if same else 1, "StrideH": stride[0], "StrideW": stride[1]}


def quantized_model(seed: int, wide: str = "") -> bytes:
    rng = np.random.default_rng(seed)
    extents, kernel, stride, same, output = geometry(rng)
    depth, channels = rng.integers(1, 8, 2).tolist()
    model = TfliteBuilder()
    operands = add_accumulation(
        model, rng, (1, *extents, depth), (channels, *kernel, depth), channel_axis=0,
        taps=kernel[0] * kernel[1] * depth, per_channel=rng.random() < 0.7, wide=wide,
    )  # fmt: skip
    shape = (1, *output, channels)
    target = model.tensor("shape", (4,), "int32", data=np.array(shape, np.int32))
    y = model.tensor(
        "y", shape, "int16" if wide else "int8",
        scale=operands.output_scale, zero_point=operands.output_zero_point,
    )  # fmt: skip
    x, weights, *bias = operands.inputs
    model.operator("TRANSPOSE_CONV", [target, weights, x, *bias], [y], "TransposeConvOptions",
                   **options(stride, same))  # fmt: skip
    return model.build([x], [y])


@pytest.mark.parametrize("wide", ["", "int64"])
def test_random_cases_equal_tflm(wide: str, tmp_path: Path) -> None:
    for seed in range(60):
        data = quantized_model(seed, wide)
        if seed < 12:
            check_operator(data, tmp_path)  # the loop nests too
        else:
            assert_same_bits(data, tmp_path)


def test_floats_are_close_to_tflm(tmp_path: Path) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        extents, kernel, stride, same, output = geometry(rng)
        depth, channels = rng.integers(1, 8, 2).tolist()
        model = TfliteBuilder()
        shape = (1, *output, channels)
        target = model.tensor("shape", (4,), "int32", data=np.array(shape, np.int32))
        x = model.tensor("x", (1, *extents, depth), "float32")
        data = rng.normal(size=(channels, *kernel, depth)).astype(np.float32)
        w = model.tensor("w", data.shape, "float32", data=data)
        bias = rng.normal(size=channels).astype(np.float32)
        b = model.tensor("b", bias.shape, "float32", data=bias)
        y = model.tensor("y", shape, "float32")
        model.operator("TRANSPOSE_CONV", [target, w, x, b], [y], "TransposeConvOptions",
                       **options(stride, same))  # fmt: skip
        path = tmp_path / "m.tflite"
        path.write_bytes(model.build([x], [y]))
        function = import_model(path).main
        given = rng.normal(size=(1, *extents, depth)).astype(np.float32)
        (mine,) = interpret(function, [given])
        (expected,) = open_oracle(path).run([given]).outputs
        # Up to 7 * 25 products of numbers near 1, summed in another order.
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)
        if seed < 6:
            check_nests(function, [given])


def mediapipe_model(
    extents: list[int], kernel: list[int], stride: list[int], padding: int, *,
    raw: bytes | None = None, dtype: str = "float32", constants: str = "float32",
) -> bytes:  # fmt: skip
    """Convolution2DTransposeBias of 3 channels to 2, with TfLitePadding.

    constants: float16 ones go through DEQUANTIZE.
    """
    rng = np.random.default_rng(sum(extents + kernel + stride))
    cut = [
        max(0, k - (e - 1) % s - 1) if padding == 1 else 0
        for e, k, s in zip(extents, kernel, stride, strict=True)
    ]
    output = [s * (e - 1) + k - c for e, k, s, c in zip(extents, kernel, stride, cut, strict=True)]
    model = TfliteBuilder()
    x = model.tensor("x", (1, *extents, 3), dtype)

    def constant(name: str, *shape: int) -> int:
        stored = model.tensor(name, shape, constants, data=rng.normal(size=shape).astype(constants))
        if constants == "float32":
            return stored
        wide = model.tensor(f"{name}.wide", shape, "float32")
        model.operator("DEQUANTIZE", [stored], [wide])
        return wide

    w, b = constant("w", 2, *kernel, 3), constant("b", 2)
    y = model.tensor("y", (1, *output, 2), "float32")
    # Fields of later versions of the struct follow.
    struct = np.array([padding, stride[1], stride[0], 0, 0], "<i4").tobytes()
    model.operator("CUSTOM:Convolution2DTransposeBias", [x, w, b], [y],
                   custom_options=struct if raw is None else raw)  # fmt: skip
    return model.build([x], [y])


def test_mediapipe_operator_is_close_to_litert(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    for seed in range(30):
        rng = np.random.default_rng(seed)
        extents, kernel, stride, same, _ = geometry(rng)
        constants = "float16" if seed % 3 == 0 else "float32"
        path.write_bytes(
            mediapipe_model(extents, kernel, stride, 1 if same else 2, constants=constants)
        )
        function = import_model(path).main
        given = rng.normal(size=(1, *extents, 3)).astype(np.float32)
        oracle = open_oracle(path, "litert")
        (mine,) = interpret(function, [given])
        (expected,) = oracle.run([given]).outputs
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5, strict=True)
        if seed < 4:
            check_nests(function, [given])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"raw": b""}, "0 bytes, not 12"),
        ({"raw": bytes(12)}, "stride (0, 0) and padding 0"),
        ({"dtype": "int8"}, "int8 input"),
    ],
    ids=str,
)
def test_mediapipe_operator_refuses(changes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mediapipe_model([4, 4], [2, 2], [2, 2], 1, **changes))
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert message in "\n".join(caught.value.details)


INT8 = TensorType((1, 4, 4, 2), "int8", Quant((0.1,), (0,)))
WEIGHTS = TensorType((3, 3, 3, 2), "int8")
BIAS = TensorType((3,), "int32")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((INT8.with_shape((1, 4, 4, 5)), WEIGHTS, BIAS), "read 2 channels, the input has 5"),
        ((INT8, WEIGHTS, TensorType((4,), "int32")), r"bias \[4\] for 3 channels"),
        ((INT8.with_shape((4, 4, 2)), WEIGHTS, BIAS), "rank 4"),
    ],
)
def test_infer_refuses_what_has_no_meaning(types, message) -> None:
    attrs = TransposeConv2dAttrs((2, 2), (0, 0), (9, 9))
    assert TransposeConv2d().macs(attrs, [INT8, WEIGHTS, BIAS]) == 32 * 27
    with pytest.raises(TypeMismatch, match=message):
        TransposeConv2d().infer(attrs, *types)
    with pytest.raises(TypeMismatch, match="at least 1"):
        TransposeConv2d().infer(TransposeConv2dAttrs((0, 2), (0, 0), (9, 9)), INT8, WEIGHTS, BIAS)

"""ONNX convolutions and pools in all their forms: near ONNX Runtime, nests in the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from onnx import TensorProto, helper
from onnx_builder import OnnxBuilder
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import host_core


def check(
    path: Path, kind: str, x: np.ndarray, constants: dict[str, Any], **attributes: Any
) -> None:
    save_node(path, kind, x, constants, opset=19, **attributes)
    check_nests(check_against_onnxruntime(path, x, 2e-6), [x])


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_groups(groups: int, bias: bool, tmp_path: Path) -> None:
    given = {"w": weights(8, 8 // groups, 3, 2)} | ({"b": weights(8)} if bias else {})
    x = float_values((2, 8, 6, 5))
    check(tmp_path / "m.onnx", "Conv", x, given, group=groups, pads=[1, 0, 0, 1])


@pytest.mark.parametrize("groups", [1, 3, 6])
def test_one_axis(groups: int, tmp_path: Path) -> None:
    x = float_values((1, 6, 11))
    given = {"w": weights(6, 6 // groups, 3), "b": weights(6)}
    check(tmp_path / "m.onnx", "Conv", x, given, group=groups, dilations=[2], pads=[2, 1],
          strides=[2])  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "groups", "attributes"),
    [
        ((3, 3), 1, {"pads": [2, 3, 3, 4]}),
        ((1, 1), 1, {"pads": [1, 0, 2, 1]}),
        ((2, 3), 4, {"pads": [0, 5, 2, 1], "dilations": [2, 2]}),
        ((3, 2), 2, {"pads": [3, 1, 3, 2], "strides": [2, 3]}),
    ],
)
def test_padding_as_wide_as_the_window(
    kernel: tuple[int, int], groups: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    """Outputs of windows in the padding alone are the bias."""
    given = {"w": weights(4, 4 // groups, *kernel), "b": weights(4)}
    check(tmp_path / "m.onnx", "Conv", float_values((1, 4, 5, 6)), given, group=groups,
          **attributes)  # fmt: skip


POOLS = [
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1},  # a window would begin outside
    {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]},
    {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [7, 9], "strides": [2, 3], "ceil_mode": 1},  # larger than the image
]


@pytest.mark.parametrize("attributes", POOLS, ids=str)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools(kind: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    check(tmp_path / "m.onnx", kind, float_values((1, 3, 6, 8)), {}, **attributes)


@pytest.mark.parametrize("attributes", POOLS[1:4], ids=str)
def test_counted_padding(attributes: dict[str, Any], tmp_path: Path) -> None:
    x = float_values((1, 3, 6, 8))
    check(tmp_path / "m.onnx", "AveragePool", x, {}, count_include_pad=1, **attributes)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pools_over_one_axis(kind: str, tmp_path: Path) -> None:
    x = float_values((2, 3, 9))
    check(tmp_path / "m.onnx", kind, x, {}, kernel_shape=[3], strides=[2], pads=[1, 1])


@pytest.mark.parametrize("shape", [(1, 3, 7), (2, 3, 4, 5), (1, 2, 3, 2, 4)], ids=str)
@pytest.mark.parametrize("kind", ["GlobalMaxPool", "GlobalAveragePool"])
def test_pools_over_everything(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    check(tmp_path / "m.onnx", kind, float_values(shape), {})


@pytest.mark.parametrize(
    ("kind", "constants", "attributes", "why"),
    [
        ("Conv", {"w": weights(4, 2, 3, 3)}, {"group": 4}, "4 groups of 4 channels"),
        ("MaxPool", {}, {"kernel_shape": [2], "dilations": [2, 2]}, "windows of [2] over"),
        ("AveragePool", {}, {"kernel_shape": [2]}, "kernel_shape (2,)"),
        ("MaxPool", {}, {"kernel_shape": [3, 3], "pads": [0, 3, 0, 0]}, "ONNX Runtime refuses it"),
        ("AveragePool", {}, {"kernel_shape": [2, 2], "pads": [0, 0, 2, 0]}, "use a Pad node"),
    ],
)
def test_what_is_not_supported_is_refused(
    kind: str, constants: dict[str, Any], attributes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    path = save_node(tmp_path / "m.onnx", kind, float_values((1, 4, 5, 5)), constants,
                     opset=19, **attributes)  # fmt: skip
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert why in "\n".join(refused.value.details)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes"),
    [
        ("Conv", [(1, 4, 5, 5), (6, 4, 3, 3), (6,)], {}),
        ("Conv", [(1, 4, 5, 5), (4, 1, 3, 3), (4,)], {"group": 4}),
        ("Conv", [(1, 4, 5), (4, 2, 3), (4,)], {"group": 2}),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 2, 3, 3), (2,)], {}),
        ("Gemm", [(2, 4), (4, 3), (3,)], {}),
    ],
    ids=str,
)
def test_computed_biases(
    kind: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], tmp_path: Path
) -> None:
    """Beside constant weights; they were called computed where a constant is needed."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    x, w, b = (float_values(shape) for shape in shapes)
    model = OnnxBuilder(1, x.shape)
    w_name = model.constant(w, "w")
    more = helper.make_tensor_value_info("b", TensorProto.FLOAT, b.shape)
    bias = model.add("Neg", ["b"])
    made = model.add(kind, ["x", w_name, bias], **attributes)
    path = model.save(made, tmp_path / "m.onnx", more=[more])
    compiled = compile_model(path, host_core(), Options())
    (found,) = compiled.reference([x, b])
    (want,) = open_oracle(path).run([x, b]).outputs
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * np.abs(want).max())

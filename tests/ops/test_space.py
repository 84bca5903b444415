"""Blocks to channels and to the batch, as TFLite Micro and ONNX Runtime move them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import Operand, check_operator, one_operator
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("block", [2, 3])
def test_depth_and_space_equal_tflm(dtype: str, block: int, tmp_path: Path) -> None:
    small, large = (2, 3, 2, block * block * 2), (2, 3 * block, 2 * block, 2)
    for kind, before, after in (
        ("DepthToSpace", small, large),
        ("SpaceToDepth", large, small),
    ):
        name = {"DepthToSpace": "DEPTH_TO_SPACE", "SpaceToDepth": "SPACE_TO_DEPTH"}[kind]
        data = one_operator(
            name, [Operand(before, dtype)], [Operand(after, dtype)], f"{kind}Options",
            BlockSize=block,
        )  # fmt: skip
        check_operator(data, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("edges", [[0, 0, 0, 0], [1, 2, 0, 1]], ids=str)
def test_batches_equal_tflite(dtype: str, edges: list[int], tmp_path: Path) -> None:
    height, width = 6 - edges[0] - edges[1], 6 - edges[2] - edges[3]
    blocks = Operand.integers([2, 3])
    pairs = Operand((2, 2), "int32", None, data=np.array(edges, np.int32).reshape(2, 2))
    space = Operand((1, height, width, 3), dtype, zero_point=4 if dtype == "int8" else 0)
    batches = Operand((6, 3, 2, 3), dtype, zero_point=space.zero_point)
    to_batch = one_operator(
        "SPACE_TO_BATCH_ND", [space, blocks, pairs], [batches], "SpaceToBatchNDOptions"
    )
    # TFLite Micro leaves the padding of SPACE_TO_BATCH_ND unwritten: LiteRT says what it is.
    assert_same_bits(to_batch, tmp_path, reference="litert")
    if not any(edges):
        check_operator(to_batch, tmp_path)
    to_space = one_operator(
        "BATCH_TO_SPACE_ND", [batches, blocks, pairs], [space], "BatchToSpaceNDOptions"
    )
    check_operator(to_space, tmp_path)


@pytest.mark.parametrize(
    ("kind", "shape", "attributes"),
    [
        ("DepthToSpace", (1, 8, 2, 3), {"mode": "DCR"}),
        ("DepthToSpace", (1, 8, 2, 3), {"mode": "CRD"}),
        ("SpaceToDepth", (1, 2, 4, 6), {}),
    ],
)
def test_equals_onnxruntime(kind, shape, attributes, tmp_path: Path) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    path = save_node(tmp_path / "m.onnx", kind, x, {}, blocksize=2, **attributes)
    check_nests(check_against_onnxruntime(path, x), [x])


def test_blocks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    data = one_operator(
        "SPACE_TO_DEPTH", [Operand((1, 3, 4, 1))], [Operand((1, 1, 2, 4))], "SpaceToDepthOptions",
        BlockSize=2,
    )  # fmt: skip
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "3 x 4 pixels" in str(failure.value.details)

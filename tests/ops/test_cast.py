"""cast: TFLite Micro's CAST of integers, which wraps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from against_tflm import assert_same_bits
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.cast import Cast, CastAttrs


@pytest.mark.parametrize("dtypes", [("int16", "int32"), ("int32", "int8"), ("int8", "int32"),
                                    ("int32", "uint32", "int32")], ids=str)  # fmt: skip
def test_tflite_cast(dtypes, tmp_path) -> None:
    model = TfliteBuilder()
    tensors = [model.tensor(f"t{n}", (3, 7), dtype) for n, dtype in enumerate(dtypes)]
    for before, after in itertools.pairwise(tensors):
        model.operator("CAST", [before], [after])
    function = assert_same_bits(model.build(tensors[:1], tensors[-1:]), tmp_path).main
    info = np.iinfo(dtypes[0])
    rng = np.random.default_rng(1)
    check_nests(function, [rng.integers(info.min, info.max, (3, 7)).astype(dtypes[0])])


def test_refusals() -> None:
    for type_ in (TensorType((2,), "float32"), TensorType((2,), "int8", Quant((0.5,), (0,)))):
        with pytest.raises(TypeMismatch, match="only plain integers"):
            Cast().infer(CastAttrs("int32"), type_)

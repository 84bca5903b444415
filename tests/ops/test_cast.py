"""cast: TFLite Micro's CAST of integers, which wraps; narrow floats against ml_dtypes."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from against_tflm import assert_same_bits
from sanitized import check_sanitized
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Module
from edgec.graph.types import DTYPES, Quant, TensorType
from edgec.numerics.narrow_float import FORMATS, STORED_IN
from edgec.ops.cast import BitCast, Cast, CastAttrs
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core


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


#: Types that C does not have, and some that it has.
NARROW = [dtype for dtype in DTYPES if dtype in STORED_IN]
WIDE = ("bool", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64")


def some_floats() -> np.ndarray:
    """Floats of every size, halves between narrow ones, and what is no number."""
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (rng.normal(0, 1, 4000) * np.exp2(rng.integers(-30, 20, 4000))).astype(np.float32)
    ends = [0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 240, 248, 57344, 61440, 65504, 65520]
    rest = np.float32([*np.arange(-64, 64, 0.25), *ends])
    return np.concatenate([bits, near, rest])


def cast_array(x: np.ndarray, dtype: str, **more: bool) -> np.ndarray:
    attrs, source = CastAttrs(dtype, **more), TensorType(x.shape, x.dtype.name)
    (found,) = Cast().evaluate(attrs, [x], [source], Cast().infer(attrs, source))
    return found


@pytest.mark.parametrize("dtype", FORMATS)
def test_narrow_floats_are_those_of_ml_dtypes(dtype: str) -> None:
    form, x = FORMATS[dtype], some_floats()
    stored = np.arange(1 << form.width).astype(STORED_IN[dtype]).view(dtype)
    np.testing.assert_array_equal(cast_array(stored, "float32"), stored.astype(np.float32))
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    found = cast_array(x, dtype, saturate=False)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
    most = np.float32(ml_dtypes.finfo(dtype).max)
    if dtype.startswith("float8"):
        found = cast_array(np.float32([1e30, -np.inf]), dtype).astype(np.float32)
        np.testing.assert_array_equal(found, [most, -most])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers(dtype: str) -> None:
    x = np.arange(-20, 20, dtype=np.int32)
    found = cast_array(x, dtype)
    np.testing.assert_array_equal(cast_array(found, "int32"), found.astype(np.int32))
    np.testing.assert_array_equal(found.astype(np.int32), x.astype(dtype).astype(np.int32))


def test_powers_of_two() -> None:
    dtype = "float8_e8m0fnu"
    stored = np.arange(256, dtype=np.uint8).view(dtype)
    np.testing.assert_array_equal(cast_array(stored, "float32"), stored.astype(np.float32))
    x = np.float32([1, 1.4, 1.5, 1.9, np.inf])
    for mode, wanted in (("up", [1, 2, 2, 2]), ("down", [1, 1, 1, 1]), ("nearest", [1, 1, 2, 2])):
        attrs = CastAttrs(dtype, True, mode)
        types = [TensorType(x.shape, "float32")], [TensorType(x.shape, dtype)]
        (found,) = Cast().evaluate(attrs, [x], *types)
        np.testing.assert_array_equal(found.astype(np.float32), [*wanted, 2.0**127])


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("source", ["float32", "int32", "uint8", "int64"])
def test_c_under_sanitizers(source: str, part: int, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    builder = GraphBuilder()
    x = builder.param("x", TensorType((3, 7), source))
    results = []
    for dtype in (*NARROW, *(name for name in WIDE if name != source))[part::4]:
        y = builder.op("cast", [x], CastAttrs(dtype), name=f"to_{dtype}")
        results += [y, builder.op("cast", [y], CastAttrs("float32"), name=f"from_{dtype}")] if (
            dtype in NARROW or dtype == "float64") else [y]  # fmt: skip
    if source == "float32":
        results.append(builder.op("bit_cast", [x], CastAttrs("int32"), name="bits"))
    module = Module({"main": builder.finish(results)}, source="cast.onnx", format="onnx")
    compiled = compile_module(module, find_core("host"), Options())
    assert check_sanitized(compiled, tmp_path) >= 8


def test_refusals() -> None:
    quantized = TensorType((2,), "int8", Quant((0.5,), (0,)))
    with pytest.raises(TypeMismatch, match="must be dequantized first"):
        Cast().infer(CastAttrs("int32"), quantized)
    with pytest.raises(TypeMismatch, match="complex64, rounding up: unknown"):
        Cast().infer(CastAttrs("complex64"), TensorType((2,), "int8"))
    for dtype in ("int16", "bool"):
        with pytest.raises(TypeMismatch, match="the bits of"):
            BitCast().infer(CastAttrs(dtype), TensorType((2,), "float32"))

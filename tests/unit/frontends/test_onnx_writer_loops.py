"""Operators without a form of their own in ONNX, written by their loops: ONNX Runtime has our bits.

The operators come from the registry: a new one without a form, in no function below, fails.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import test_integer_root
import test_lookup_int16
import test_ngrams
import test_quotient
import test_roi_pool
import test_tflite_found
import test_tree_ensemble
from operator_models import MODELS
from single_node import save_node
from tflite_cases import Case, model_of

import edgec.ops
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.frontends.onnx_writer import onnx_bytes
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.operator import all_ops, get_op
from edgec.graph.types import Array, Quant, TensorType
from edgec.ops.cast import CastAttrs
from edgec.ops.deform_conv import DeformAttrs
from edgec.ops.gru import Gru, GruAttrs
from edgec.ops.integer_norm import IntegerNormAttrs
from edgec.ops.lift import LiftAttrs
from edgec.ops.lookup import LookupAttrs
from edgec.ops.op import op_of
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.reinterpret import ReinterpretAttrs
from edgec.ops.tree_ensemble import TreeEnsembleAttrs
from edgec.passes.sequence import run_passes

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

edgec.ops.load()
INT8_QUANT = Quant((0.05,), (7,))
INT8 = TensorType((3, 40), "int8", INT8_QUANT)
FLOAT = TensorType((3, 6), "float32")
Make = Callable[[Path], Function]
#: What cannot be written, each with its reason.
REASONS = {
    "bit_cast": "the bits of floats: ONNX has BitCast since 26 alone",
    "pair_coupling": "a descent of 100 rounds, in which one probability changes after the other",
    "open_constant": "a part of a constant whose size is open until the model is compiled",
}


def one(op: str, *types: TensorType, attrs: object = None, **constants: Array) -> Make:
    """A function of one node: of inputs, then of constants."""

    def make(folder: Path) -> Function:
        builder = GraphBuilder()
        operands = [builder.param(f"x{number}", type_) for number, type_ in enumerate(types)]
        operands += [builder.constant(name, data) for name, data in constants.items()]
        node = builder.node(op, operands, attrs or None, name="node")
        return builder.finish(list(node.outputs))

    return make


def of_cases(cases: list[Case]) -> Make:
    """TFLite operators side by side."""

    def make(folder: Path) -> Function:
        (folder / "m.tflite").write_bytes(model_of(cases))
        return import_model(folder / "m.tflite").main

    return make


def regions(folder: Path) -> Function:
    """MaxRoiPool of one image."""
    rows = np.concatenate([np.zeros((2, 1)), test_roi_pool.REGIONS[:2]], 1).astype(np.float32)
    inputs = {"x": test_roi_pool.X[:1, :1, :, :4], "regions": rows}
    path = test_roi_pool.save(folder / "m.onnx", "MaxRoiPool", inputs, pooled_shape=[2, 1],
                              spatial_scale=0.5)  # fmt: skip
    return import_model(path).main


def texts(folder: Path) -> Function:
    """TfIdfVectorizer of numbers."""
    x = np.zeros((3, 8), np.int64)
    path = save_node(folder / "m.onnx", "TfIdfVectorizer", x, {}, output_dtype="float32",
                     **test_ngrams.ATTRIBUTES)  # fmt: skip
    return import_model(path).main


def quantized_gru(folder: Path) -> Function:
    """Three steps of five units."""
    rng, builder = np.random.default_rng(0), GraphBuilder()
    x = builder.param("x", TensorType((3, 4), "int8", Quant((0.05,), (3,))))
    hidden = builder.param("hidden", TensorType((1, 5), "int16", Quant((1 / 32768,), (0,))))
    given = [rng.integers(-127, 128, shape).astype(np.int8) for shape in ((15, 4), (15, 5))]
    given += [rng.integers(-999, 999, 15).astype(np.int32) for _ in range(2)]
    constants = [builder.constant(f"c{number}", data) for number, data in enumerate(given)]
    attrs = GruAttrs((0.01,) * 15, (1e-4,) * 15, Quant((1 / 128,), (0,)))
    node = builder.node(Gru, [x, hidden, *constants], attrs, name="node")
    return builder.finish(list(node.outputs))


def of_model(name: str) -> Make:
    return lambda folder: import_model(MODELS[name](folder)).main


#: Models that together have most of these operators; the others are for `make test-full`.
QUICK = ("network_dynamic_range", "softmax_int16", "prelu_qdq", "lstm", "svdf", "max_pool",
         "resize_bilinear", "signal_window", "signal_rfft", "signal_irfft", "signal_filter_bank",
         "signal_noise")  # fmt: skip
PLACES = TensorType((1, 3, 4, 4), "float32"), TensorType((1, 8, 3, 3), "float32")
FUNCTIONS: dict[str, Make] = {
    **{name: of_model(name) for name in QUICK},
    "atan2": one("atan2", FLOAT, FLOAT),
    "cholesky": one("cholesky", TensorType((2, 2, 2), "float32")),
    "copy": one("copy", INT8),
    "deform_columns": one("deform_columns", *PLACES, TensorType((1, 4, 3, 3), "float32"),
                          attrs=DeformAttrs((2, 2), (1, 1), (1, 1), (0, 0))),
    "distances": one("squared_distances", FLOAT, points=np.ones((4, 6), np.float32)),
    "gru": quantized_gru,
    "integer_norm": one("integer_norm", INT8, attrs=IntegerNormAttrs(True, 1e-3, INT8_QUANT),
                        scale=np.linspace(-1, 2, 40, dtype=np.float32)),
    "integer_root": of_cases(test_integer_root.MICRO[-3:]),
    "lift": one("lift", INT8, attrs=LiftAttrs(8, 0.7)),
    "lookup": one("lookup", INT8, attrs=LookupAttrs((*range(127, -129, -1),), INT8_QUANT)),
    "lookup_int16": lambda folder: run_passes(
        test_lookup_int16.stored_function("exp", ("int16", 1e-4), ("int8", 0.3), -100), "onnx"),
    "ngrams": texts,
    "quotient": of_cases(test_quotient.MICRO[:2]),
    "reinterpret": one("reinterpret", INT8, attrs=ReinterpretAttrs(Quant((0.1,), (0,)))),
    "roi_max": regions,
    "solve": one("solve", TensorType((2, 3, 5), "float32")),
    "soft_boxes": of_cases(test_tflite_found.CASES[-1:]),
    "tree_ensemble": one("tree_ensemble", TensorType((5, 3), "float32"),
                         attrs=TreeEnsembleAttrs(1), feature=np.array([2, 3], np.int32),
                         limit=np.full(2, 0.5, np.float32), child=test_tree_ensemble.CHILD,
                         root=test_tree_ensemble.ROOT,
                         leaf=np.array([[1], [10], [100], [1000]], np.float32)),
    # Forms of their own that do not have these numbers.
    "remainder": one("floor_mod", FLOAT, FLOAT),
    "shift": one("shift_right", *[TensorType((3, 5), "int64")] * 2),
    "unsigned": one("shift_right", *[TensorType((3, 5), "uint64")] * 2),
    "swish": one("swish", FLOAT, attrs=get_op("swish").attrs_class()),
    "largest": one("reduce", TensorType((3, 5), "bool"), attrs=ReduceAttrs((1,), "any")),
}  # fmt: skip


def random_inputs(function: Function, seed: int) -> list[Array]:
    """Numbers of all sizes; probabilities and boxes where an operator takes no others."""
    rng, found = np.random.default_rng(seed), []
    for value in function.params:
        shape, dtype = value.type.shape, np.dtype(value.type.dtype)
        if dtype.kind == "b":
            found.append(rng.integers(0, 2, shape).astype(bool))
        elif dtype.kind == "f":
            found.append(rng.random(shape).astype(dtype))
        else:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            wide = rng.integers(max(low, -1 << 20), min(high, 1 << 20), shape, endpoint=True)
            found.append(wide.astype(dtype))
    return found


def by_runtime(content: bytes, inputs: list[Array]) -> list[Array]:
    """What ONNX Runtime answers."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [x.name for x in (*session.get_inputs(), *session.get_overridable_initializers())]
    return [np.asarray(x) for x in session.run(None, dict(zip(names, inputs, strict=True)))]


def assert_same(function: Function, content: bytes, seeds: int) -> None:
    """Integers have the same bits, floats are within the tolerance of frameworks."""
    numbers = {count.number for count in function.counts}
    for seed in range(seeds):
        inputs = random_inputs(function, seed)
        wanted = [x for n, x in enumerate(interpret(function, inputs)) if n not in numbers]
        for want, got in zip(wanted, by_runtime(content, inputs), strict=True):
            assert want.dtype == got.dtype
            part = tuple(map(slice, got.shape))  # what is in use where data decide so
            near = 2e-5 * (want.dtype.kind == "f")
            most = float(np.abs(np.where(np.isfinite(want), want, 0)).max(initial=0)) or 1.0
            np.testing.assert_allclose(got, want[part], rtol=0, atol=near * most)


def by_loops(function: Function) -> set[str]:
    """The operators of nodes without a form of their own."""
    return {node.op.name for node in function.nodes if not op_of(node).has_onnx}


def test_every_operator_is_written_or_has_a_reason(tmp_path: Path) -> None:
    written: set[str] = set()
    for make in FUNCTIONS.values():
        function = make(tmp_path)
        content = onnx_bytes(function, with_states=True)
        assert_same(function, content, 1)
        written |= by_loops(function)
    known = {op.name for op in all_ops() if not getattr(op, "has_onnx", False)}
    assert known - written == set(REASONS)


@pytest.mark.parametrize("name", ["bit_cast", "pair_coupling"])
def test_what_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    make = one("pair_coupling", FLOAT) if name != "bit_cast" else one(
        "bit_cast", FLOAT, attrs=CastAttrs("int32"))  # fmt: skip
    with pytest.raises(ImportFailed) as refused:
        onnx_bytes(make(tmp_path))
    assert refused.value.details[0].startswith(f"operator {name} node: ")


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in MODELS if name not in QUICK])
def test_models(name: str, tmp_path: Path) -> None:
    function = of_model(name)(tmp_path)
    assert_same(function, onnx_bytes(function, with_states=True), 3)

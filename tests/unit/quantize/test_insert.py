"""Small float graphs with quantize and dequantize nodes: what is quantized, and how well."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec import ops
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.frontends.onnx_writer import to_onnx
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.cast import CastAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import SliceAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.ops.tanh import TanhAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.passes.sequence import run_passes
from edgec.quantizer.calibrate import calibrate
from edgec.quantizer.choose_ranges import observed_ranges
from edgec.quantizer.explain import explain
from edgec.quantizer.insert import Quantized, insert_qdq
from edgec.quantizer.reconstruct import correct_biases
from edgec.quantizer.scheme import make_scheme

ops.load()


class Numbers:
    """Normal float32 numbers, the same in every run."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)


def network(multiplier: int) -> Function:
    """Transpose, convolution, ReLU, depthwise, two branches that are added, dense, logistic."""
    b, normal = GraphBuilder(), Numbers(multiplier)
    x = b.param("x", TensorType((1, 3, 8, 8), "float32"))
    y = b.op("transpose", [x], TransposeAttrs((0, 2, 3, 1)), name="last")
    y = b.op(
        "conv2d", [y, b.constant("w1", normal(4, 3, 3, 3)), b.constant("b1", normal(4))],
        Conv2dAttrs(padding=((1, 1), (1, 1))), name="conv",
    )  # fmt: skip
    y = b.op("clip", [y], ClipAttrs(0.0, np.inf), name="relu")
    deep = 4 * multiplier
    z = b.op(
        "depthwise_conv2d",
        [y, b.constant("w2", normal(3, 3, deep)), b.constant("b2", normal(deep))],
        DepthwiseConv2dAttrs(stride=(2, 2), padding=((1, 1), (1, 1))), name="depthwise",
    )  # fmt: skip
    z = b.op("add", [z, z], AddAttrs(), name="sum")
    z = b.op("reshape", [z], ReshapeAttrs((1, 64 * multiplier)), name="flat")
    small = np.float32(0.05) * normal(5, 64 * multiplier)
    z = b.op(
        "dense", [z, b.constant("w3", small), b.constant("b3", normal(5))], name="dense",
    )  # fmt: skip
    return b.finish([b.op("logistic", [z], LogisticAttrs(), name="answer")])


def quantized(
    function: Function, samples: list[list[np.ndarray]], *, corrected: bool = True
) -> Quantized:
    statistics = calibrate(function, samples)
    scheme = make_scheme(function, observed_ranges(function, statistics, "minmax"))
    if corrected:
        scheme = replace(scheme, weights=correct_biases(scheme.weights, statistics.moments))
    return insert_qdq(function, scheme)


def integer_form(function: Function) -> Function:
    return run_passes(function, "onnx")


@pytest.fixture(scope="module", params=[1, 2])
def made(request: pytest.FixtureRequest) -> tuple[Function, Quantized, list[list[np.ndarray]]]:
    function, normal = network(request.param), Numbers(7)
    samples = [[normal(1, 3, 8, 8)] for _ in range(20)]
    return function, quantized(function, samples), samples


def test_everything_but_the_last_operator_becomes_integers(
    made: tuple[Function, Quantized, list[list[np.ndarray]]],
) -> None:
    count = Counter(node.op.name for node in integer_form(made[1].function).nodes)
    assert count["quantize"] == 1 and count["dequantize"] == 1
    assert count["requantize"] == 3 and "clip" not in count


def test_it_is_close_and_explained(
    made: tuple[Function, Quantized, list[list[np.ndarray]]],
) -> None:
    function, result, samples = made
    statistics = calibrate(function, samples)
    scheme = make_scheme(function, observed_ranges(function, statistics, "minmax"))
    found = explain(
        function, integer_form(result.function), scheme, statistics.histograms, samples,
        labels=[0] * 20,
    )  # fmt: skip
    assert found.samples == 20 and found.output_sqnr_db > 20
    assert {"clip", "depthwise_conv2d", "add", "dense"} <= {row.operator for row in found.rows}
    assert sum(found.rows[0].histogram.counts) == 20 * 4 * 8 * 8
    assert all(row.sqnr_db > 20 and row.clipped < 0.001 for row in found.rows)
    assert found.float_accuracy is not None


def test_the_written_file_has_the_same_integers(
    made: tuple[Function, Quantized, list[list[np.ndarray]]], tmp_path: Path
) -> None:
    _, result, samples = made
    path = tmp_path / "quantized.onnx"
    path.write_bytes(to_onnx(result.function, producer_version="0").SerializeToString())
    back = integer_form(import_model(path).main)
    direct = integer_form(result.function)
    for sample in samples:
        (a,), (b,), (c,) = (interpret(f, sample) for f in (direct, back, result.function))
        assert np.array_equal(a, b)
        assert np.abs(a - c).max() < 0.02  # float QDQ arithmetic may round otherwise, by a step


def test_bias_correction_takes_out_the_mean_error() -> None:
    b, normal = GraphBuilder(), Numbers(3)
    x = b.param("x", TensorType((1, 16), "float32"))
    weights, bias = normal(8, 16), normal(8)
    y = b.op("dense", [x, b.constant("w", weights), b.constant("b", bias)], name="dense")
    function = b.finish([y])
    samples = [[np.abs(normal(1, 16)) * 3 + 5] for _ in range(64)]

    def mean_error(result: Quantized) -> float:
        errors = [
            interpret(result.function, s)[0] - interpret(function, s)[0] for s in samples
        ]  # fmt: skip
        return float(np.abs(np.mean(errors, axis=0)).mean())

    plain = quantized(function, samples, corrected=False)
    corrected = quantized(function, samples)
    assert mean_error(corrected) < 0.5 * mean_error(plain)


def test_what_onnx_cannot_say_is_named() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 4, 1), "int32"))
    function = b.finish([b.op("bit_cast", [x], CastAttrs("float32"), name="h")])
    with pytest.raises(ImportFailed, match="cannot be written") as caught:
        to_onnx(function, producer_version="0")
    assert caught.value.details == ("operator bit_cast h: the function f32_from_bits",)


def with_edges() -> tuple[Function, list[list[np.ndarray]]]:
    """A state that goes round outside: one row is read by a float operator, one by a sum."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "float32"))
    state = b.param("state", TensorType((1, 2, 4), "float32"))
    rows = [
        b.op("slice", [state], SliceAttrs((0, n, 0), (1, 1, 1), (1, 1, 4)), name=f"row{n}")
        for n in range(2)
    ]
    weights = b.constant("w", 100 * np.eye(4, dtype=np.float32))
    y = b.op("dense", [x, weights, b.constant("b", np.zeros(4, np.float32))], name="dense")
    kept = b.op("softmax", [rows[0]], SoftmaxAttrs(), name="kept")
    seen = b.op("reshape", [rows[1]], ReshapeAttrs((1, 4)), name="flat")
    small = b.op("tanh", [seen], TanhAttrs(), name="small")
    total = b.op("add", [y, seen], AddAttrs(), name="sum")
    both = b.op("concat", [total, small], ConcatAttrs(1), name="both")
    out = b.op("reshape", [both], ReshapeAttrs((2, 4)), name="out")
    function = b.finish([out, kept])
    rng = np.random.default_rng(0)
    samples = [
        [rng.normal(size=param.type.shape).astype(np.float32) for param in function.params]
        for _ in range(8)
    ]
    return function, samples


def test_what_moves_at_the_edges_stays_float() -> None:
    function, samples = with_edges()
    statistics = calibrate(function, samples)
    ranges = observed_ranges(function, statistics, "minmax")
    made = insert_qdq(function, make_scheme(function, ranges))
    assert {value.name for value in made.stored} == {"x", "dense", "flat", "sum"}
    (out, kept), (found, same) = interpret(function, samples[0]), interpret(
        made.function, samples[0]
    )  # fmt: skip
    assert np.array_equal(kept, same)
    # In the steps of the sum, a hundred times as large, the second row would hardly be anything.
    assert np.abs(out[0] - found[0]).max() < 3.0 and np.abs(out[1] - found[1]).max() < 0.03

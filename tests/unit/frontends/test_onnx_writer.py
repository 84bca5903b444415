"""Operators that have an ONNX form: the file that is written answers as the file that was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.frontends import import_model
from edgec.frontends.onnx_writer import onnx_bytes
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType

oracle = pytest.importorskip("edgec.oracle.frameworks")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")

FLOAT, INT64 = 1, 7


def places(b: OnnxBuilder, **attributes: int) -> str:
    """Computed ones, of rows of six."""
    return b.add("ArgMax", ["x"], axis=1, keepdims=1, **attributes)


def constant(b: OnnxBuilder, *values: int) -> str:
    return b.constant(np.asarray(values, np.int64), "c")


def order(b: OnnxBuilder, largest: int) -> str:
    b.add("TopK", ["x", constant(b, 4)], axis=0, largest=largest)
    b.nodes[-1].output.append(b.name("places"))
    return str(b.nodes[-1].output[1])


def floats(b: OnnxBuilder, value: str) -> str:
    return b.add("Cast", [value], to=FLOAT)


def image(b: OnnxBuilder, *extents: int) -> str:
    """x as [1, C, ...]."""
    return b.add("Reshape", ["x", constant(b, 1, *extents)])


def table(b: OnnxBuilder, *shape: int) -> str:
    """Small whole numbers, of which all sums are exact."""
    count = int(np.prod(shape))
    return b.constant((np.arange(count) % 5 - 2).reshape(shape).astype(np.float32), "t")


def part(b: OnnxBuilder, axis: int) -> str:
    """Three elements from a computed start that may be too large."""
    whole = b.add("Reshape", [b.add("ReduceMax", ["x"], keepdims=0), constant(b, 1)])
    start = b.add("Max", [b.add("Cast", [whole], to=INT64), constant(b, 0)])
    end = b.add("Add", [start, constant(b, 3)])
    return b.add("Slice", ["x", start, end, constant(b, axis)])


def mean_of_volumes(b: OnnxBuilder, deep: int, pads: list[int], **attributes: int) -> str:
    """AveragePool over three axes, the last window cut off."""
    return b.add(
        "AveragePool", [image(b, 1, 2, 3, 5)], kernel_shape=[deep, 2, 2], strides=[1, 1, 2],
        pads=pads, ceil_mode=1, **attributes,
    )  # fmt: skip


def resized(b: OnnxBuilder, **attributes: object) -> str:
    scales = b.constant(np.array([1, 1, 2, 1.5], np.float32), "scales")
    return b.add("Resize", [image(b, 1, 5, 6), "", scales], **attributes)


def grid(b: OnnxBuilder, mode: str, padding: str) -> str:
    places = b.constant(np.linspace(-1.5, 1.5, 40, dtype=np.float32).reshape(1, 4, 5, 2), "g")
    return b.add("GridSample", [image(b, 1, 5, 6), places], mode=mode, padding_mode=padding)


def updated(b: OnnxBuilder, kind: str, **attributes: object) -> str:
    update = b.add("Neg", [b.add("Gather", ["x", constant(b, 0, 1)], axis=0)])
    rows = np.array([[3], [1]]) if kind == "ScatterND" else np.array([[3] * 6, [1] * 6])
    return b.add(kind, ["x", b.constant(rows, "rows"), update], **attributes)


def regions(b: OnnxBuilder) -> str:
    boxes = b.constant(np.array([[0, 0, 4, 3], [1, 1, 5, 4]], np.float32), "boxes")
    return b.add("RoiAlign", [image(b, 1, 5, 6), boxes, constant(b, 0, 0)], output_height=2,
                 output_width=2, sampling_ratio=2, mode="avg")  # fmt: skip


CASES: dict[str, Callable[[OnnxBuilder], str]] = {
    "argmax": lambda b: floats(b, places(b, select_last_index=1)),
    "argmin": lambda b: floats(b, b.add("ArgMin", ["x"], axis=0, keepdims=0)),
    "top_k": lambda b: floats(b, order(b, 1)),
    "lowest": lambda b: floats(b, order(b, 0)),
    "tile": lambda b: b.add("Tile", ["x", constant(b, 2, 3)]),
    "gather": lambda b: b.add("Gather", ["x", places(b)], axis=1),
    "gather_elements": lambda b: b.add("GatherElements", ["x", places(b)], axis=1),
    "gather_nd": lambda b: b.add("GatherND", ["x", places(b)], batch_dims=1),
    "from_the_end": lambda b: b.add(
        "GatherElements", ["x", b.add("Sub", [places(b), constant(b, 6)])], axis=1
    ),
    "sums": lambda b: b.add("CumSum", ["x", constant(b, 1)], exclusive=1, reverse=1),
    "counts": lambda b: floats(
        b, b.add("Add", [b.add("Mul", [places(b), places(b)]), constant(b, 3)])
    ),
    "unlike": lambda b: floats(b, b.add("Not", [b.add("Equal", ["x", b.add("Abs", ["x"])])])),
    "square": lambda b: b.add("Pow", ["x", b.constant(np.float32(2), "two")]),
    "einsum": lambda b: b.add("Einsum", ["x", "x"], equation="ij,kj->ik"),
    "slice_at": lambda b: part(b, 1),
    "slice_at_first": lambda b: part(b, 0),
    "rnn": lambda b: b.add(
        "RNN",
        [
            b.add("Reshape", ["x", constant(b, 5, 1, 6)]),
            table(b, 1, 4, 6),
            table(b, 1, 4, 4),
            table(b, 1, 8),
        ],
        hidden_size=4,
    ),
    "scatter": lambda b: updated(b, "ScatterND"),
    "scatter_sums": lambda b: updated(b, "ScatterElements", axis=0, reduction="add"),
    "computed_conv": lambda b: b.add(
        "Conv",
        [image(b, 1, 5, 6), b.add("Reshape", ["x", constant(b, 5, 1, 3, 2)])],
        strides=[2, 1],
        dilations=[1, 2],
        pads=[1, 0, 2, 1],
    ),
    "conv_of_volumes": lambda b: b.add(
        "Conv", [image(b, 2, 3, 5, 1), table(b, 4, 1, 2, 3, 1)], group=2, pads=[1, 1, 0, 0, 0, 0]
    ),
    "transposed_volumes": lambda b: b.add(
        "ConvTranspose",
        [image(b, 2, 3, 5, 1), table(b, 2, 2, 2, 2, 1)],
        strides=[2, 3, 1],
        group=2,
        pads=[1, 0, 0, 0, 0, 0],
        output_padding=[0, 1, 0],
    ),
    "pool_with_gaps": lambda b: b.add(
        "MaxPool", [image(b, 1, 5, 6)], kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 0, 1, 1]
    ),
    "pool_of_volumes": lambda b: mean_of_volumes(b, 1, [0, 1, 1, 0, 1, 1]),
    "counted_padding": lambda b: mean_of_volumes(b, 2, [0, 1, 1, 0, 1, 0], count_include_pad=1),
    "region": regions,
    "det": lambda b: b.add("Det", [b.add("Reshape", ["x", constant(b, 3, 10, 1, 1)])]),
    "cubic": lambda b: resized(b, mode="cubic"),
    "linear": lambda b: resized(b, mode="linear", coordinate_transformation_mode="asymmetric"),
    "grid": lambda b: grid(b, "bilinear", "zeros"),
    "cubic_grid": lambda b: grid(b, "bicubic", "border"),
    "spectrum": lambda b: b.add("DFT", [image(b, 5, 6, 1)], axis=2, onesided=1),
    "inverse": lambda b: b.add("DFT", [image(b, 5, 3, 2)], axis=2, inverse=1),
}
#: Those whose sums other libraries take in another order.
NEAR = {"cubic", "linear", "grid", "cubic_grid", "spectrum", "inverse", "pool_of_volumes",
        "counted_padding", "region", "rnn"}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_written_file_answers_as_the_one_read(name: str, tmp_path: Path) -> None:
    b = OnnxBuilder(1, (5, 6))
    path = b.save(CASES[name](b), tmp_path / "m.onnx")
    again = tmp_path / "again.onnx"
    again.write_bytes(onnx_bytes(import_model(path).main))
    first, second = oracle.open_oracle(path), oracle.open_oracle(again)
    main = import_model(again).main
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-2, 3, (5, 6)).astype(np.float32)
        wanted, found = first.run([x]).outputs[0], second.run([x]).outputs[0]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * (name in NEAR))
        np.testing.assert_allclose(interpret(main, [x])[0], wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("part", [(2, 3, 4), (5, 3, 4), (1, 6, 4), (5, 6, 4)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_part_that_replaces_another_lies_inside(
    part: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    b = GraphBuilder()
    types = TensorType((5, 6, 4), "float32"), TensorType(part, "float32"), TensorType((2,), dtype)
    params = [b.param(name, type_) for name, type_ in zip("xps", types, strict=True)]
    function = b.finish([b.op("update_slice", params, name="y")])
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes(function))
    written = oracle.open_oracle(path)
    rng = np.random.default_rng(1)
    for starts in ((0, 0), (1, 2), (9, -3), (-1, 9)):
        x, p = (rng.normal(size=type_.shape).astype(np.float32) for type_ in types[:2])
        given = [x, p, np.array(starts, dtype)]
        (wanted,) = interpret(function, given)
        np.testing.assert_array_equal(written.run(given).outputs[0], wanted)

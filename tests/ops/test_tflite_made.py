"""TFLite operators that others make, against LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model

SHAPE = (2, 3, 4)


def one(
    kind: str, dtypes: list[str], out: tuple[tuple[int, ...], str], *constants: np.ndarray,
    shape: tuple[int, ...] = SHAPE, options: str = "",
) -> bytes:  # fmt: skip
    """A model of one operator; its constants follow its inputs."""
    model = TfliteBuilder()
    inputs = [model.tensor(f"x{n}", shape, dtype) for n, dtype in enumerate(dtypes)]
    fixed = [model.tensor(f"c{n}", c.shape, c.dtype.name, data=c) for n, c in enumerate(constants)]
    y = model.tensor("y", *out)
    model.operator(kind, [*inputs, *fixed], [y], options)
    return model.build(inputs, [y])


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
def test_reverses_as_litert(dtype: str, tmp_path: Path) -> None:
    data = one("REVERSE_V2", [dtype], (SHAPE, dtype), np.array([1], np.int32))
    assert_same_bits(data, tmp_path, reference="litert")


@pytest.mark.parametrize(("dtype", "count"), [("float32", 2), ("float32", 4), ("int32", 3)])
def test_sums_of_many_as_litert(dtype: str, count: int, tmp_path: Path) -> None:
    data = one("ADD_N", [dtype] * count, (SHAPE, dtype), options="AddNOptions")
    assert_same_bits(data, tmp_path, reference="litert")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("rows", [False, True])
def test_selects_as_litert(dtype: str, rows: bool, tmp_path: Path) -> None:
    model = TfliteBuilder()
    flags = model.tensor("flags", SHAPE[:1] if rows else SHAPE, "bool")
    x, y, z = (model.tensor(name, SHAPE, dtype) for name in "xyz")
    model.operator("SELECT", [flags, x, y], [z], "SelectOptions")
    data = model.build([flags, x, y], [z])
    assert_same_bits(data, tmp_path, reference="litert")


def test_norms_as_litert(tmp_path: Path) -> None:
    """But for the last bits: LiteRT's order of sums is its own."""
    from edgec.graph.interpret import interpret
    from edgec.oracle.frameworks import open_oracle

    shape = (2, 1, 1, 5)
    path = tmp_path / "m.tflite"
    data = one("L2_NORMALIZATION", ["float32"], (shape, "float32"), shape=shape,
               options="L2NormOptions")  # fmt: skip
    path.write_bytes(data)
    x = np.random.default_rng(1).normal(0, 2, shape).astype(np.float32)
    x[1] = 0
    (mine,) = interpret(import_model(path).main, [x])
    np.testing.assert_allclose(mine, open_oracle(path, "litert").run([x]).outputs[0], rtol=3e-7)


@pytest.mark.parametrize(
    ("kind", "constants", "wanted"),
    [
        ("FILL", [np.array([2, 3], np.int32), np.array(7, np.int32)], np.full((2, 3), 7)),
        ("RANGE", [np.array(v, np.int32) for v in (1, 9, 3)], np.array([1, 4, 7])),
        ("RANGE", [np.array(v, np.int32) for v in (5, 0, -2)], np.array([5, 3, 1])),
        ("BROADCAST_ARGS", [np.array(v, np.int32) for v in ([2, 1], [4, 1, 3])],
         np.array([4, 2, 3])),
    ],
)  # fmt: skip
def test_constants(
    kind: str, constants: list[np.ndarray], wanted: np.ndarray, tmp_path: Path
) -> None:
    """Added to an input, so that the model computes something."""
    model = TfliteBuilder()
    x, y = (model.tensor(name, wanted.shape, "int32") for name in "xy")
    fixed = [model.tensor(f"c{n}", c.shape, "int32", data=c) for n, c in enumerate(constants)]
    made = model.tensor("made", wanted.shape, "int32")
    model.operator(kind, fixed, [made])
    model.operator("ADD", [x, made], [y], "AddOptions")
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build([x], [y]))
    (node,) = import_model(path).main.nodes
    np.testing.assert_array_equal(node.inputs[1].data, wanted)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["RANK", "ZEROS_LIKE"])
def test_constants_of_a_type(kind: str, tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, SHAPE, "int32") for name in "xy")
    made = model.tensor("made", () if kind == "RANK" else SHAPE, "int32")
    model.operator(kind, [x], [made])
    model.operator("ADD", [x, made], [y], "AddOptions")
    (tmp_path / "m.tflite").write_bytes(model.build([x], [y]))
    (node,) = import_model(tmp_path / "m.tflite").main.nodes
    (constant,) = (v for v in node.inputs if hasattr(v, "data"))
    assert (constant.data == (3 if kind == "RANK" else 0)).all()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (f"STABLEHLO_{name}", dtype)
        for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")
        for dtype in ("float32", "int32")
    ],
)  # fmt: skip
def test_stablehlo(kind: str, dtype: str, tmp_path: Path) -> None:
    data = one(kind, [dtype, dtype], (SHAPE, dtype))
    assert_same_bits(data, tmp_path, reference="litert")


def test_a_sum_of_quantized_int16_is_refused(tmp_path: Path) -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, SHAPE, "int16", scale=0.5) for name in "xy")
    model.operator("ADD_N", [x, x], [y], "AddNOptions")
    (tmp_path / "m.tflite").write_bytes(model.build([x], [y]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert "only int8 of one scale are supported" in failure.value.details[0]

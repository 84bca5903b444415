"""A custom operator for tests: its C file, its declaration, and models of both formats with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tflite_builder import TfliteBuilder

SHAPE = (3, 8)
SOURCE = """
#include <stddef.h>

/* y = x * factor + offset of each channel, and the largest of x; the index of that, too. */
static float larger(float a, float b) { return a > b ? a : b; }

void scale_and_find(const float *x, const float *offset, float *y, int32_t *place,
                    int32_t rows, int32_t channels, float factor) {
    for (int32_t r = 0; r < rows; r++) {
        float most = x[r * channels];
        place[r] = 0;
        for (int32_t c = 0; c < channels; c++) {
            const float value = x[r * channels + c];
            y[r * channels + c] = value * factor + offset[c];
            if (value > most) {
                place[r] = c;
            }
            most = larger(value, most);
        }
    }
}
"""
DECLARATION = '''
"""What edgec needs to know of ScaleAndFind."""
from pathlib import Path

import numpy as np

import edgec


def results(inputs, attributes):
    x = inputs[0]
    return [(x.shape, x.dtype), (x.shape[:1], "int32")]


def numbers(inputs, attributes):
    rows, channels = inputs[0].shape
    return rows, channels, attributes["factor"]


def reference(x, offset, rows, channels, factor):
    return x * np.float32(factor) + offset, np.argmax(x, axis=1).astype(np.int32)


edgec.custom_op(
    onnx="com.example.ScaleAndFind", tflite="ScaleAndFind", symbol="scale_and_find",
    source=Path(__file__).with_name("scale.c"), results=results, numbers=numbers,
    reference=reference, instructions=600,
)
'''
FACTOR = 0.75


def write_declaration(folder: Path) -> Path:
    (folder / "scale.c").write_text(SOURCE)
    (folder / "ops.py").write_text(DECLARATION)
    return folder / "ops.py"


def offsets() -> np.ndarray:
    return np.linspace(-1, 1, SHAPE[1], dtype=np.float32)


def onnx_model(path: Path) -> Path:
    """A product, the operator, and a sum of what it makes with its own input."""
    weights = np.random.default_rng(2).normal(0, 0.4, (SHAPE[1],) * 2).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["rows"], "rows"),
        helper.make_node("ScaleAndFind", ["rows", "offset"], ["scaled", "place"], "scale",
                         domain="com.example", factor=FACTOR),
        helper.make_node("Add", ["scaled", "x"], ["y"], "sum"),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, SHAPE)],
        [value("y", TensorProto.FLOAT, SHAPE), value("place", TensorProto.INT32, SHAPE[:1])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(offsets(), "offset")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def tflite_model(path: Path) -> Path:
    """The operator alone, its factor in a FlexBuffer."""
    model = TfliteBuilder()
    x = model.tensor("x", SHAPE, "float32")
    offset = model.tensor("offset", SHAPE[1:], "float32", data=offsets())
    y, place = model.tensor("y", SHAPE, "float32"), model.tensor("place", SHAPE[:1], "int32")
    model.operator("CUSTOM:ScaleAndFind", [x, offset], [y, place], factor=FACTOR)
    path.write_bytes(model.build([x], [y, place]))
    return path


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x * np.float32(FACTOR) + offsets(), np.argmax(x, axis=1).astype(np.int32)

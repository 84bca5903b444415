"""Control flow, and sizes that data decide, as ONNX: ONNX Runtime and edgec answer as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from quantized_files import quantize_model, write_quantized
from test_onnx_control import CASES as CONTROL
from test_onnx_control import HEAD

from edgec.frontends import import_model
from edgec.frontends.onnx_writer import onnx_bytes
from edgec.graph.interpret import Interpretation

oracle = pytest.importorskip("edgec.oracle.frameworks")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")

SIZES = {
    "places": "m (float[3,4] x) => (int64[2,n] y) { y = NonZero(x) }",
    "places_of_numbers": """m (float[3,4] x) => (int64[2,n] y) {
        a = Cast<to = 7>(x)  y = NonZero(a) }""",
    "transposed_places": """m (float[3,4] x) => (int64[n,2] y) {
        a = NonZero(x)  y = Transpose<perm = [1, 0]>(a) }""",
    "kept": """m (float[12] x) => (float[n] y) {
        zero = Constant<value = float {0}>()
        a = Greater(x, zero)  b = Compress<axis = 0>(x, a)  y = Neg(b) }""",
    "distinct": """m (float[3,4] x) => (float[n] y, int64[n] first, int64[12] which, int64[n] often)
        { y, first, which, often = Unique(x) }""",
    "distinct_rows": """m (float[6,2] x) => (float[n,2] y)
        { y = Unique<axis = 0, sorted = 0>(x) }""",
    "distinct_numbers": """m (float[8] x) => (int8[n] y) {
        a = Cast<to = 3>(x)  y = Unique(a) }""",
    "ranked": """m (float[6] x) => (float[n] y, int64[n] at) {
        one = Constant<value = int64[1] {1}>()
        a = ReduceMax<keepdims = 1>(x)  b = Abs(a)  c = Cast<to = 7>(b)  d = Add(c, one)
        y, at = TopK(x, d) }""",
    "first": """m (float[2,5] x) => (float[2,n] y) {
        one = Constant<value = int64[1] {1}>()  zero = Constant<value = int64[1] {0}>()
        a = ReduceMin<keepdims = 0>(x)  b = Cast<to = 7>(a)  c = Reshape(b, one)
        y = Slice(x, zero, c, one) }""",
    "boxes": """m (float[2,6,4] b, float[2,3,6] s) => (int64[n,3] y) {
        most = Constant<value = int64[1] {2}>()
        overlap = Constant<value = float[1] {0.5}>()
        least = Constant<value = float[1] {0.1}>()
        y = NonMaxSuppression(b, s, most, overlap, least) }""",
    "centered_boxes": """m (float[1,6,4] b, float[1,2,6] s) => (int64[n,3] y, int64[n,1] box) {
        most = Constant<value = int64[1] {6}>()
        overlap = Constant<value = float[1] {0.2}>()
        y = NonMaxSuppression<center_point_box = 1>(b, s, most, overlap)
        two = Constant<value = int64[1] {2}>()
        box = Gather<axis = 1>(y, two) }""",
}  # fmt: skip
MODELS = {name: (text, [(None,) * text.partition("=>")[0].count("] ")] * 3)
          for name, text in SIZES.items()} | dict(CONTROL)  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_written_file_answers_as_the_one_read(name: str, tmp_path: Path) -> None:
    path, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    text, runs = MODELS[name]
    path.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    function = import_model(path).main
    again.write_bytes(onnx_bytes(function))
    first, second = oracle.open_oracle(path), oracle.open_oracle(again)
    main = import_model(again).main
    rng = np.random.default_rng(0)
    for run in runs:
        inputs = []
        for value, given in zip(function.inputs, run, strict=True):
            # Whole numbers, of which some are zero and some are equal; boxes of all sizes.
            drawn = rng.integers(-2, 4, value.type.shape) + (rng.random() if "boxes" in name else 0)
            array = np.asarray(drawn if given is None else given, value.type.dtype)
            inputs.append(array.reshape(value.type.shape))
        wanted, found = first.run(inputs).outputs, second.run(inputs).outputs
        for one, other, ours in zip(wanted, found, Interpretation(main).run(inputs), strict=True):
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)
            np.testing.assert_allclose(ours, one, rtol=0, atol=1e-5)


def test_a_quantized_model_keeps_sizes_that_data_decide(tmp_path: Path) -> None:
    """A choice of rows after a layer in int8, in the file that `edgec quantize` writes."""
    path, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    weights = ", ".join(str(n % 7 - 3) for n in range(16))
    text = f"""m (float[6,4] x) => (float[n,4] y) <float[4,4] w = {{{weights}}}> {{
        a = MatMul(x, w)  b = Relu(a)  c = ReduceMax<axes = [1], keepdims = 0>(b)
        four = Constant<value = float {{4}}>()
        d = Greater(c, four)  y = Compress<axis = 0>(b, d) }}"""
    path.write_bytes(onnx.parser.parse_model(HEAD + text).SerializeToString())
    rng = np.random.default_rng(0)
    samples = [[rng.normal(size=(6, 4)).astype(np.float32)] for _ in range(20)]
    write_quantized(quantize_model(path, samples), again)
    written, main = oracle.open_oracle(again), import_model(again).main
    sizes = set()
    for sample in samples:
        (wanted,), (found,) = written.run(sample).outputs, Interpretation(main).run(sample)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
        sizes.add(len(found))
    assert len(sizes) > 2

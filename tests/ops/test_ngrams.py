"""ngrams: counts by Python, ONNX Runtime's weights, C on any numbers, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from official_cases import check_official_c
from single_node import save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.ngrams import Ngrams, NgramsAttrs


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("gaps", [0, 2])
def test_counts(gaps: int, length: int) -> None:
    rng = np.random.default_rng(length)
    x, sequences = rng.integers(0, 2, (2, 9)), rng.integers(0, 2, (4, length))
    types = [TensorType(v.shape, "int64") for v in (x, sequences)]
    op, attrs = Ngrams(), NgramsAttrs(gaps)
    (found,) = op.evaluate(attrs, [x, sequences], types, op.infer(attrs, *types))
    wanted = np.zeros((2, 4), int)
    for step in range(1, 2 + (gaps if length > 1 else 0)):
        for row, line in enumerate(x):
            for start in range(len(line) - (length - 1) * step):
                part = line[start : start + (length - 1) * step + 1 : step]
                wanted[row] += (sequences == part).all(axis=1)
    np.testing.assert_array_equal(found, wanted)


ATTRIBUTES: dict[str, Any] = {
    "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "mode": "TFIDF",
    "ngram_counts": [0, 3], "ngram_indexes": [4, 0, 1, 3, 2],
    "pool_int64s": [1, 2, 3, 1, 2, 2, 3], "weights": [0.5, 2.0, 3.0, 0.25, 1.5],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_weights_are_those_of_onnxruntime(mode: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(0, 4, (3, 8))
    path = save_node(tmp_path / "m.onnx", "TfIdfVectorizer", x, {}, output_dtype="float32",
                     **{**ATTRIBUTES, "mode": mode})  # fmt: skip
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    (found,) = interpret(import_model(path).main, [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_c_under_sanitizers(tmp_path: Path) -> None:
    check_official_c("test_tfidfvectorizer_tf_batch_uniandbigrams_skip5", tmp_path)


def test_refusals(tmp_path: Path) -> None:
    x, one = TensorType((2, 9), "int64"), TensorType((9,), "int64")
    for attrs, given in [
        (NgramsAttrs(), (x, one)), (NgramsAttrs(-1), (x, x)),
        (NgramsAttrs(), (x, TensorType((2, 2), "int32"))),
    ]:  # fmt: skip
        with pytest.raises(TypeMismatch, match="ngrams of"):
            Ngrams().infer(attrs, *given)
    words = {key: value for key, value in ATTRIBUTES.items() if key != "pool_int64s"}
    path = save_node(tmp_path / "m.onnx", "TfIdfVectorizer", np.zeros((1, 4), np.int64), {},
                     output_dtype="float32", pool_strings=["a", "b"], **words)  # fmt: skip
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert "n-grams of strings are not supported" in str(refusal.value.details)

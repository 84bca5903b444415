"""ai.onnx.ml's operators on features, against ONNX Runtime and the standard's own cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_nodes import check_ml_c, check_ml_node, save_ml_node
from onnx.numpy_helper import from_array

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
X[1] = 0
GAPS = X.copy()
GAPS[0, 1] = np.nan
WHOLE = np.array([[1, 5, 9], [2, 700, -4]])
FLOAT, NAN = np.float32, float("nan")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_scaled_and_normalized(dtype: str, tmp_path: Path) -> None:
    x = (X * 4).astype(dtype)
    check_ml_node(tmp_path, "Scaler", [x], offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 1.0, 2.0, 3.0])
    check_ml_node(tmp_path, "Scaler", [x], offset=[1.0], scale=[0.5])
    for norm in ("MAX", "L1", "L2"):
        check_ml_node(tmp_path, "Normalizer", [x], norm=norm)


CASES: list[tuple[str, list[np.ndarray], int, dict[str, Any]]] = [
    ("Binarizer", [X], 1, {"threshold": 0.5}),
    ("Imputer", [GAPS], 1, {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": NAN}),
    ("Imputer", [GAPS], 1, {"imputed_value_floats": [9.0], "replaced_value_float": 0.0}),
    ("Imputer", [WHOLE], 1, {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 5}),
    ("FeatureVectorizer", [X, X[:, :2].copy()], 1, {"inputdimensions": [3, 4]}),
    ("ArrayFeatureExtractor", [X, np.array([2, 0])], 1, {}),
    ("ArrayFeatureExtractor", [X[0].copy(), np.array([[2, 0]])], 1, {}),
    ("OneHotEncoder", [WHOLE], 1, {"cats_int64s": [1, 5, 9], "zeros": 1}),
    ("LabelEncoder", [WHOLE], 2,
     {"keys_int64s": [1, 2, 5], "values_int64s": [10, 20, 50], "default_int64": -3}),
    ("LabelEncoder", [WHOLE], 2,
     {"keys_int64s": [1, 2, 700], "values_floats": [10.0, 20.0, 50.0], "default_float": -3.0}),
    *(
        ("LabelEncoder", [GAPS], version,
         {"keys_floats": [0.0, NAN], "values_int64s": [10, 20], "default_int64": -3})
        for version in (2, 4)
    ),
    ("LabelEncoder", [X.astype(np.float64)], 4,
     {"keys_tensor": from_array(np.array([0.0])), "values_tensor": from_array(np.array([5.0])),
      "default_tensor": from_array(np.array([7.0]))}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "version", "attributes"), CASES)
def test_answers(
    kind: str, inputs: list[np.ndarray], version: int, attributes: dict[str, Any], tmp_path: Path
) -> None:
    check_ml_node(tmp_path, kind, inputs, version=version, **attributes)


def test_maps_are_their_tensor(tmp_path: Path) -> None:
    path = save_ml_node(tmp_path, "ZipMap", [X], classlabels_int64s=[3, 5, 7, 9])
    np.testing.assert_array_equal(interpret(import_model(path).main, [X])[0], X)


def test_c_of_labels(tmp_path: Path) -> None:
    keys = {"keys_int64s": [1, 2, 700], "values_int64s": [10, 20, 50]}
    check_ml_c(check_ml_node(tmp_path, "LabelEncoder", [WHOLE], version=2, **keys), tmp_path)


@pytest.mark.parametrize(
    ("kind", "x", "attributes", "message"),
    [
        ("Scaler", X, {"offset": [1.0, 2.0], "scale": [1.0]}, "2 numbers in offset, 4 features"),
        ("Scaler", X, {"offset": ["a"], "scale": [1.0]}, "offset is not a list of numbers"),
        ("Normalizer", X, {"norm": "L3"}, "norm 'L3'"),
        ("Imputer", X, {"imputed_value_floats": [1.0, 2.0]}, "2 numbers in imputed_value_floats"),
        ("FeatureVectorizer", X, {"inputdimensions": [2, 2]}, "2 widths for 1 inputs"),
        ("OneHotEncoder", WHOLE, {"cats_strings": ["a"]}, "strings are not supported"),
        ("LabelEncoder", WHOLE, {"keys_strings": ["a"], "values_int64s": [1]}, "strings are no"),
        ("LabelEncoder", WHOLE, {"keys_int64s": [1, 2], "values_int64s": [1]}, "2 keys, 1 values"),
        ("LabelEncoder", X, {"keys_int64s": [1], "values_int64s": [1]}, "keys of int64"),
    ],
)
def test_refusals(
    kind: str, x: np.ndarray, attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = save_ml_node(tmp_path, kind, [x], version=2, **attributes)
    with pytest.raises(ImportFailed, match=message):
        import_model(path)


def test_a_domain_that_the_file_does_not_name(tmp_path: Path) -> None:
    path = save_ml_node(tmp_path, "LabelEncoder", [WHOLE], version=1, classes_strings=["a"])
    with pytest.raises(ImportFailed, match="not at opset 1"):
        import_model(path)

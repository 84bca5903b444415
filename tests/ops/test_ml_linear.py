"""ai.onnx.ml's linear models and support vector machines, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_nodes import check_ml_c, check_ml_node, save_ml_node

from edgec.errors import ImportFailed
from edgec.frontends import import_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 4)).astype(np.float32)
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def numbers(*shape: int) -> list[float]:
    return RNG.normal(size=int(np.prod(shape))).tolist()


def machine(kernel: str, per_class: list[int], **more: Any) -> dict[str, Any]:
    """Attributes of a classifier with these numbers of vectors for each class."""
    count, classes = sum(per_class), len(per_class)
    return {
        "kernel_type": kernel, "kernel_params": [0.3, 0.2, 3.0], "vectors_per_class": per_class,
        "support_vectors": numbers(count, 4), "coefficients": numbers(classes - 1, count),
        "rho": numbers(classes * (classes - 1) // 2), "classlabels_ints": [*range(3, 3 + classes)],
        **more,
    }  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear(transform: str, tmp_path: Path) -> None:
    for targets in (1, 3):
        weights = {"coefficients": numbers(targets, 4), "intercepts": numbers(targets)}
        check_ml_node(tmp_path, "LinearRegressor", [X * np.float32(0.1)], targets=targets,
                      post_transform=transform, version=1, **weights)  # fmt: skip
    for classes, labels in ((3, [4, 5, 6]), (2, [4, 5]), (1, [4, 5])):
        if (classes, transform) == (1, "PROBIT"):
            continue
        weights = {"coefficients": numbers(classes, 4), "intercepts": numbers(classes)}
        check_ml_node(tmp_path, "LinearClassifier", [X], 2, classlabels_ints=labels,
                      post_transform=transform, version=1, **weights)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel: str, tmp_path: Path) -> None:
    for one_class in (0, 1):
        check_ml_node(
            tmp_path, "SVMRegressor", [X], version=1, kernel_type=kernel, one_class=one_class,
            kernel_params=[0.3, 0.2, 3.0], n_supports=5, support_vectors=numbers(5, 4),
            coefficients=numbers(5), rho=[0.1],
        )  # fmt: skip
    check_ml_node(tmp_path, "SVMClassifier", [X], 2, 1, **machine(kernel, [2, 3, 2]))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_scores_of_machines(transform: str, tmp_path: Path) -> None:
    for per_class in ([2, 3], [2, 3, 2]):
        if len(per_class) == 2 and transform == "PROBIT":
            continue
        attributes = machine("RBF", per_class, post_transform=transform)
        check_ml_node(tmp_path, "SVMClassifier", [X], 2, 1, **attributes)
        pairs = len(attributes["rho"])
        slope = (-np.abs(RNG.normal(size=pairs))).tolist()
        check_ml_node(tmp_path, "SVMClassifier", [X], 2, 1, prob_a=slope, prob_b=numbers(pairs),
                      **attributes)  # fmt: skip


def test_c_of_a_machine(tmp_path: Path) -> None:
    attributes = machine("RBF", [2, 3, 2], prob_a=[-1.0] * 3, prob_b=numbers(3))
    check_ml_c(check_ml_node(tmp_path, "SVMClassifier", [X[:1]], 2, 1, **attributes), tmp_path)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0]}, "1 coefficients and 0 intercepts"),
        ("LinearClassifier", {"coefficients": [1.0] * 4, "classlabels_strings": ["a", "b"]},
         "strings are not supported"),
        ("LinearClassifier",
         {"coefficients": [1.0] * 4, "intercepts": [0.0], "classlabels_ints": [1, 2],
          "post_transform": "PROBIT"}, "PROBIT of one score"),
        ("LinearClassifier", {"post_transform": "CUBE"}, "post_transform 'CUBE' is unknown"),
        ("SVMClassifier", machine("RBF", [2, 3]) | {"rho": [1.0, 2.0]}, "2 rho"),
        ("SVMClassifier", machine("WAVE", [2, 3]), "kernel 'WAVE'"),
        ("SVMRegressor", {"n_supports": 3, "support_vectors": [1.0]}, "1 numbers in 3 support"),
    ],
)  # fmt: skip
def test_refusals(kind: str, attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    outputs = 1 if kind.endswith("Regressor") else 2
    path = save_ml_node(tmp_path, kind, [X], outputs, 1, **attributes)
    with pytest.raises(ImportFailed, match=message):
        import_model(path)

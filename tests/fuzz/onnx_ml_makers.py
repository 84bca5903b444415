"""Makers of the operators of classical models, of the domain ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_makers import MAKERS, Proposal, floats, makes
from random_models import Maker

#: The makers of this file and of the files that it imports.
__all__ = ["MAKERS"]

ML = "ai.onnx.ml."
#: The most elements in a row of features.
MOST_FEATURES = 64


def rows(maker: Maker) -> tuple[str, int]:
    """Floats of rank 2, and how many features a row has."""
    x = floats(maker, 2)
    features = maker.tensors[x].shape[1]
    if not 0 < features <= MOST_FEATURES:
        raise LookupError
    return x, features


def numbers(maker: Maker, count: int) -> list[float]:
    """Multiples of 1/128 in [-1, 1): float32 has them exactly."""
    return [float(n) / 128 for n in maker.rng.integers(-128, 128, count)]


@makes(f"{ML}Scaler", f"{ML}Imputer")
def _per_feature(maker: Maker, kind: str) -> Proposal:
    x, n = rows(maker)
    count = n if maker.rng.random() < 0.7 else 1
    if kind.endswith("Imputer"):
        replaced = float(maker.tensors[x].shape[0])
        fields = {"imputed_value_floats": numbers(maker, count), "replaced_value_float": replaced}
        return Proposal(kind, [x], fields)
    return Proposal(kind, [x], {"offset": numbers(maker, count), "scale": numbers(maker, count)})


@makes(f"{ML}Normalizer", f"{ML}Binarizer")
def _whole_rows(maker: Maker, kind: str) -> Proposal:
    x, _ = rows(maker)
    if kind.endswith("Binarizer"):
        return Proposal(kind, [x], {"threshold": numbers(maker, 1)[0]})
    return Proposal(kind, [x], {"norm": str(maker.rng.choice(["MAX", "L1", "L2"]))})


@makes(f"{ML}ArrayFeatureExtractor")
def _chosen(maker: Maker, kind: str) -> Proposal:
    x, n = rows(maker)
    at = maker.rng.integers(0, n, (1, int(maker.rng.integers(1, n + 1))))
    return Proposal(kind, [x, maker.constant(at.astype(np.int64))])


@makes(f"{ML}FeatureVectorizer")
def _joined(maker: Maker, kind: str) -> Proposal:
    x, n = rows(maker)
    count = maker.tensors[x].shape[0]
    other = maker.pick(lambda t: t.dtype == "float32" and len(t.shape) == 2 and t.shape[0] == count)
    sizes = [n, maker.tensors[other].shape[1]]
    return Proposal(kind, [x, other], {"inputdimensions": sizes})


@makes(f"{ML}LabelEncoder", f"{ML}OneHotEncoder")
def _codes(maker: Maker, kind: str) -> Proposal:
    x = maker.pick(lambda t: t.dtype == "int64")
    keys = sorted({int(n) for n in maker.rng.integers(-5, 6, 4)})
    if kind.endswith("OneHotEncoder"):
        return Proposal(kind, [x], {"cats_int64s": keys, "zeros": 1})
    values = numbers(maker, len(keys))
    fields = {"keys_int64s": keys, "values_floats": values, "default_float": 0.5}
    return Proposal(kind, [x], fields)


@makes(f"{ML}LinearRegressor", f"{ML}LinearClassifier")
def _linear(maker: Maker, kind: str) -> Proposal:
    x, n = rows(maker)
    targets = int(maker.rng.integers(2, 5))
    fields: dict[str, Any] = {
        "coefficients": numbers(maker, n * targets), "intercepts": numbers(maker, targets)
    }  # fmt: skip
    if kind.endswith("Regressor"):
        return Proposal(kind, [x], {**fields, "targets": targets})
    labels = [int(label) for label in maker.rng.permutation(9)[:targets]]
    after = str(maker.rng.choice(["NONE", "LOGISTIC", "SOFTMAX"]))
    return Proposal(kind, [x], {**fields, "classlabels_ints": labels, "post_transform": after}, 2)


@makes(f"{ML}SVMRegressor")
def _support_vectors(maker: Maker, kind: str) -> Proposal:
    x, n = rows(maker)
    vectors = int(maker.rng.integers(1, 5))
    fields = {
        "n_supports": vectors, "support_vectors": numbers(maker, n * vectors),
        "coefficients": numbers(maker, vectors), "rho": numbers(maker, 1),
        "kernel_type": str(maker.rng.choice(["RBF", "LINEAR"])), "kernel_params": [0.25, 0.0, 3.0],
    }  # fmt: skip
    return Proposal(kind, [x], fields)


@makes(f"{ML}TreeEnsembleRegressor", f"{ML}TreeEnsembleClassifier")
def _trees(maker: Maker, kind: str) -> Proposal:
    """Trees of one branch: at the features, a leaf for each side."""
    x, n = rows(maker)
    rng, count = maker.rng, int(maker.rng.integers(1, 5))
    trees = range(count)
    fields: dict[str, Any] = {
        "nodes_treeids": [tree for tree in trees for _ in range(3)],
        "nodes_nodeids": [0, 1, 2] * count,
        "nodes_modes": [str(rng.choice(["BRANCH_LEQ", "BRANCH_LT"])), "LEAF", "LEAF"] * count,
        "nodes_featureids": [v for _ in trees for v in (int(rng.integers(n)), 0, 0)],
        "nodes_values": [v for _ in trees for v in (*numbers(maker, 1), 0.0, 0.0)],
        "nodes_truenodeids": [1, 0, 0] * count,
        "nodes_falsenodeids": [2, 0, 0] * count,
    }
    name, most = ("target", 2) if kind.endswith("Regressor") else ("class", 3)
    # Every leaf has a score for each class, as in scikit-learn: otherwise ONNX Runtime chooses
    # among the classes of the reached leaves only, where the standard chooses among all.
    scores = [(tree, leaf, k) for tree in trees for leaf in (1, 2) for k in range(most)]
    fields |= {
        f"{name}_treeids": [tree for tree, _, _ in scores],
        f"{name}_nodeids": [leaf for _, leaf, _ in scores],
        f"{name}_ids": [k for _, _, k in scores],
        f"{name}_weights": numbers(maker, len(scores)),
    }
    if name == "target":
        return Proposal(kind, [x], {**fields, "n_targets": most})
    return Proposal(kind, [x], {**fields, "classlabels_int64s": [3, 1, 7]}, 2)


@makes(f"{ML}SVMClassifier")
def _support_classes(maker: Maker, kind: str) -> Proposal:
    """Of two or three classes with one or two vectors each; of each pair one score."""
    x, n = rows(maker)
    each = [int(count) for count in maker.rng.integers(1, 3, int(maker.rng.integers(2, 4)))]
    pairs = len(each) * (len(each) - 1) // 2
    fields = {
        "classlabels_ints": [5, 2, 7][: len(each)], "vectors_per_class": each,
        "support_vectors": numbers(maker, n * sum(each)),
        "coefficients": numbers(maker, (len(each) - 1) * sum(each)), "rho": numbers(maker, pairs),
        "kernel_type": str(maker.rng.choice(["RBF", "LINEAR"])), "kernel_params": [0.25, 0.0, 3.0],
    }  # fmt: skip
    return Proposal(kind, [x], fields, 2)

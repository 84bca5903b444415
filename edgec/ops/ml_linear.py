"""ai.onnx.ml's linear models and support vector machines, as products and kernels of other
operators."""

from __future__ import annotations

import itertools

import numpy as np

from edgec.errors import BadNode
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.ml_node import DOMAIN, MlNode
from edgec.ops.ml_scores import both_scores, chosen_label, label_above, transform_of, transformed
from edgec.ops.op import RawNode, from_onnx

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _linear(node: MlNode, x: Value, outputs: int) -> Value:
    """x [rows, features] times the node's coefficients, and the intercepts: [rows, outputs]."""
    weights, bias = node.numbers("coefficients"), node.numbers("intercepts")
    if weights.size != outputs * x.type.shape[1] or bias.size not in (0, outputs):
        raise BadNode(f"{weights.size} coefficients and {bias.size} intercepts for {outputs} rows")
    matrix = weights.reshape(outputs, -1).T.astype(x.type.dtype)
    return _product(node, x, matrix, bias)


def _product(node: MlNode, x: Value, matrix: Array, bias: Array) -> Value:
    """x times a matrix, plus a bias of one number for each column, or none."""
    dtype = x.type.dtype
    product = node.call("MatMul", x, np.ascontiguousarray(matrix, dtype))
    return node.call("Add", product, bias.astype(dtype)) if bias.size else product


@from_onnx(f"{DOMAIN}.LinearRegressor")
def import_linear_regressor(builder: GraphBuilder, raw: RawNode) -> Value:
    """A product and a sum for each target; the post transform between several targets."""
    node = MlNode(builder, raw)
    transform, x = transform_of(node), node.rows()
    targets = int(raw.attribute("targets", 1))
    scores = _linear(node, node.cast(x, "float32"), targets)
    is_done = targets > 1 or transform == "PROBIT"
    return transformed(node, scores, transform) if is_done else scores


@from_onnx(f"{DOMAIN}.LinearClassifier")
def import_linear_classifier(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """The label of each row, and the scores of all classes."""
    node = MlNode(builder, raw)
    node.refuse_strings("classlabels_strings")
    labels, transform = node.integers("classlabels_ints"), transform_of(node)
    x = node.cast(node.rows(), "float32")
    classes = max(node.numbers("intercepts").size, 1)
    scores = _linear(node, x, classes)
    if classes > 1:
        if len(labels) not in (0, classes):
            raise BadNode(f"{len(labels)} labels for {classes} classes")
        labels = labels if labels.size else np.arange(classes)
        return chosen_label(node, scores, labels), transformed(node, scores, transform)
    if len(labels) != 2:
        raise BadNode(f"one score for {len(labels)} classes")
    return label_above(node, scores, 0.0, labels), both_scores(node, scores, transform, True)


def _kernel(node: MlNode, x: Value, points: Array) -> Value:
    """The node's kernel of each row and each point: [rows, points]."""
    kind = node.text("kernel_type", "LINEAR")
    parameters = node.numbers("kernel_params")
    if kind not in _KERNELS or parameters.size not in (0, 3):
        raise BadNode(f"kernel {kind!r} with {parameters.size} parameters")
    gamma, offset, degree = (np.asarray(p, x.type.dtype) for p in np.resize(parameters, 3))
    if kind == "RBF":
        constant = node.builder.constant(f"{node.raw.name}.vectors", points)
        away = node.builder.op("squared_distances", [x, constant], name=node.raw.name)
        return node.call("Exp", node.call("Mul", away, -gamma))
    product = node.call("MatMul", x, np.ascontiguousarray(points.T))
    if kind == "LINEAR":
        return product
    scaled = node.call("Add", node.call("Mul", product, gamma), offset)
    return node.call("Pow", scaled, degree) if kind == "POLY" else node.call("Tanh", scaled)


def _vectors(node: MlNode, x: Value, count: int) -> Array:
    """The support vectors [count, features]."""
    found = node.numbers("support_vectors")
    if found.size != count * x.type.shape[1]:
        raise BadNode(f"{found.size} numbers in {count} support vectors")
    return found.reshape(count, -1).astype(x.type.dtype)


@from_onnx(f"{DOMAIN}.SVMRegressor")
def import_svm_regressor(builder: GraphBuilder, raw: RawNode) -> Value:
    """A sum of kernels; of one class, whether it is above zero, as 1 or -1."""
    node = MlNode(builder, raw)
    x, rho = node.cast(node.rows(), "float32"), node.numbers("rho")
    count = int(raw.attribute("n_supports", 0))
    kernels = _kernel(node, x, _vectors(node, x, count)) if count > 0 else x
    weights = node.numbers("coefficients")
    if weights.size != kernels.type.shape[1] or rho.size != 1:
        raise BadNode(f"{weights.size} coefficients, {rho.size} rho")
    scores = _product(node, kernels, weights[:, np.newaxis], rho)
    if not raw.attribute("one_class", 0):
        return scores
    above = node.call("Greater", scores, np.zeros((), np.float32))
    return node.call("Where", above, np.ones((), np.float32), np.asarray(-1, np.float32))


@from_onnx(f"{DOMAIN}.SVMClassifier")
def import_svm_classifier(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """The label of each row, and scores: of each pair of classes, or probabilities of classes."""
    node = MlNode(builder, raw)
    node.refuse_strings("classlabels_strings")
    labels, transform = node.integers("classlabels_ints"), transform_of(node)
    x, per_class = node.cast(node.rows(), "float32"), node.integers("vectors_per_class")
    if len(labels) < 2:
        raise BadNode(f"{len(labels)} labels of classes")
    if not per_class.sum():
        scores = _linear_scores(node, x, len(labels))
        return chosen_label(node, scores, labels), transformed(node, scores, transform)
    if len(per_class) != len(labels) or (per_class < 0).any():
        raise BadNode(f"vectors of {len(per_class)} classes, {len(labels)} labels")
    scores = _pair_scores(node, x, per_class)
    label = chosen_label(node, _votes(node, scores, len(labels)), labels)
    if node.numbers("prob_a").size:
        return label, transformed(node, _probabilities(node, scores, len(labels)), transform)
    if len(labels) == 2:
        return label, both_scores(node, scores, transform, transform.startswith("SOFTMAX"))
    return label, transformed(node, scores, transform)


def _linear_scores(node: MlNode, x: Value, classes: int) -> Value:
    """Compute scores without support vectors: a product for each class, and the one rho."""
    weights, rho = node.numbers("coefficients"), node.numbers("rho")
    if weights.size != classes * x.type.shape[1] or not rho.size:
        raise BadNode(f"{weights.size} coefficients for {classes} classes")
    return _product(node, x, weights.reshape(classes, -1).T, np.full(classes, rho[0]))


def _pairs(classes: int) -> list[tuple[int, int]]:
    """Pairs of classes, in the order of their scores."""
    return list(itertools.combinations(range(classes), 2))


def _pair_scores(node: MlNode, x: Value, per_class: Array) -> Value:
    """Return the score of each pair of classes from their vectors: above 0 for the first class."""
    count, pairs = int(per_class.sum()), _pairs(len(per_class))
    weights, rho = node.numbers("coefficients"), node.numbers("rho")
    if weights.size != count * (len(per_class) - 1) or rho.size != len(pairs):
        raise BadNode(f"{weights.size} coefficients of {count} vectors, {rho.size} rho")
    weights = weights.reshape(-1, count)
    ends = np.cumsum([0, *per_class])
    parts = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
    matrix = np.zeros((count, len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        matrix[parts[i], column] = weights[j - 1, parts[i]]
        matrix[parts[j], column] = weights[i, parts[j]]
    return _product(node, _kernel(node, x, _vectors(node, x, count)), matrix, rho)


def _votes(node: MlNode, scores: Value, classes: int) -> Value:
    """Number of pairs that each class wins."""
    signs, losses = np.zeros((len(_pairs(classes)), classes), np.float32), np.zeros(classes)
    for pair, (i, j) in enumerate(_pairs(classes)):
        signs[pair, [i, j]] = 1, -1
        losses[j] += 1
    won = node.cast(node.call("Greater", scores, np.zeros((), np.float32)), "float32")
    return _product(node, won, signs, losses)


def _probabilities(node: MlNode, scores: Value, classes: int) -> Value:
    """Probabilities of classes from probabilities of pairs, each the sigmoid of a score."""
    slope, shift = node.numbers("prob_a"), node.numbers("prob_b")
    if not slope.size == shift.size == len(_pairs(classes)):
        raise BadNode(f"{slope.size} prob_a and {shift.size} prob_b of {classes} classes")
    inner = node.call("Add", node.call("Mul", scores, -slope), -shift)
    pairs = node.call("Sigmoid", inner)
    return node.builder.op("pair_coupling", [pairs], name=node.raw.name)

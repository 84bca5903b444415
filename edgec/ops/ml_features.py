"""Prepare features for a classifier: the operators of ai.onnx.ml before and after one.

A sequence of maps, as ZipMap makes it, is the tensor of its numbers: row by row, in the order of
the class labels that the node names.
"""

from __future__ import annotations

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.ml_node import DOMAIN, MlNode
from edgec.ops.op import RawNode, from_onnx

#: Integer keys at least this dense are looked up in a table of all numbers between the ends.
_DENSE = 4
#: From this opset on a NaN finds the key NaN; before, it finds none.
_NAN_IS_A_KEY = 4


def _each(node: MlNode, key: str, features: int) -> Array:
    """One number for each feature: the list itself, or its only number repeated."""
    found = node.numbers(key)
    if found.size not in (1, features):
        raise BadNode(f"{found.size} numbers in {key}, {features} features")
    return found


@from_onnx(f"{DOMAIN}.Scaler")
def import_scaler(builder: GraphBuilder, raw: RawNode) -> Value:
    """(x - offset) * scale of each feature, in float32."""
    node = MlNode(builder, raw)
    x = node.cast(raw.operand(0), "float32")
    features = x.type.shape[-1]
    moved = node.call("Sub", x, _each(node, "offset", features))
    return node.call("Mul", moved, _each(node, "scale", features))


@from_onnx(f"{DOMAIN}.Normalizer")
def import_normalizer(builder: GraphBuilder, raw: RawNode) -> Value:
    """Rows divided by their largest element, or their L1 or L2 norm, where that is not 0."""
    node = MlNode(builder, raw)
    x = node.cast(raw.operand(0), "float32")
    kinds = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    norm = node.text("norm", "MAX")
    if norm not in kinds or len(x.type.shape) not in (1, 2):
        raise BadNode(f"norm {norm!r} of an input of rank {len(x.type.shape)}")
    size = node.call(kinds[norm], x, np.asarray([-1]), keepdims=1)
    is_zero = node.call("Equal", size, np.zeros((), np.float32))
    return node.call("Div", x, node.call("Where", is_zero, np.ones((), np.float32), size))


@from_onnx(f"{DOMAIN}.Binarizer")
def import_binarizer(builder: GraphBuilder, raw: RawNode) -> Value:
    """1 where x is above the threshold, else 0."""
    node = MlNode(builder, raw)
    x = raw.operand(0)
    dtype = x.type.dtype
    if x.type.is_float:
        limit = np.asarray(raw.attribute("threshold", 0.0), dtype)
        above = node.call("Greater", x, limit)
    else:
        limit = np.asarray(np.floor(raw.attribute("threshold", 0.0)), dtype)
        above = node.call("Greater", x, limit)
    return node.call("Where", above, np.ones((), dtype), np.zeros((), dtype))


@from_onnx(f"{DOMAIN}.Imputer")
def import_imputer(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Imputer: replace a missing value (a NaN or a chosen number) by a number for each
    feature.
    """
    node = MlNode(builder, raw)
    x = raw.operand(0)
    if x.type.is_float:
        values = _each(node, "imputed_value_floats", x.type.shape[-1])
        replaced = float(raw.attribute("replaced_value_float", 0.0))
    else:
        values = node.integers("imputed_value_int64s")
        replaced = int(raw.attribute("replaced_value_int64", 0))
    if values.size not in (1, x.type.shape[-1]):
        raise BadNode(f"{values.size} imputed values of {x.type.dtype}")
    if np.isnan(replaced):
        missing = node.call("IsNaN", x)
    else:
        missing = node.call("Equal", x, np.asarray(replaced, x.type.dtype))
    return node.call("Where", missing, values.astype(x.type.dtype), x)


@from_onnx(f"{DOMAIN}.FeatureVectorizer")
def import_feature_vectorizer(builder: GraphBuilder, raw: RawNode) -> Value:
    """Rows of several inputs one after the other, each cut or filled with zeros to its width."""
    node = MlNode(builder, raw)
    widths = node.integers("inputdimensions")
    if len(widths) != len(raw.inputs) or (widths < 1).any():
        raise BadNode(f"{len(widths)} widths for {len(raw.inputs)} inputs")
    parts = []
    for position, width in enumerate(widths.tolist()):
        x = node.cast(node.rows(position), "float32")
        wanting = width - x.type.shape[1]
        if wanting > 0:
            x = node.call("Pad", x, np.asarray([0, 0, 0, wanting]), np.zeros((), np.float32))
        elif wanting < 0:
            x = node.call("Slice", x, np.asarray([0]), np.asarray([width]), np.asarray([1]))
        parts.append(x)
    return parts[0] if len(parts) == 1 else node.call("Concat", *parts, axis=1)


@from_onnx(f"{DOMAIN}.ArrayFeatureExtractor")
def import_array_feature_extractor(builder: GraphBuilder, raw: RawNode) -> Value:
    """The elements at some indices of the last axis; a vector counts as one row."""
    node = MlNode(builder, raw)
    x, indices = raw.operands(2)
    if len(x.type.shape) == 1:
        x = node.shaped(x, 1, x.type.elements)
    return node.call("Gather", x, node.shaped(indices, indices.type.elements), axis=-1)


@from_onnx(f"{DOMAIN}.OneHotEncoder")
def import_one_hot_encoder(builder: GraphBuilder, raw: RawNode) -> Value:
    """1 at the index of the category that equals x, else 0; all 0 if no category does."""
    node = MlNode(builder, raw)
    node.refuse_strings("cats_strings")
    x = node.cast(raw.operand(0), "int64")
    categories = node.integers("cats_int64s")
    if not categories.size:
        raise BadNode("it has no categories")
    column = node.shaped(x, *x.type.shape, 1)
    return node.cast(node.call("Equal", column, categories), "float32")


@from_onnx(f"{DOMAIN}.ZipMap")
def import_zip_map(builder: GraphBuilder, raw: RawNode) -> Value:
    """The tensor that the maps are made of."""
    return raw.operand(0)


@from_onnx(f"{DOMAIN}.LabelEncoder", since=2)
def import_label_encoder(builder: GraphBuilder, raw: RawNode) -> Value:
    """The value of the key that equals x, or the default if no key does."""
    node = MlNode(builder, raw)
    keys, values, default = _mapping(node)
    x = raw.operand(0)
    if x.type.dtype != keys.dtype.name:
        raise BadNode(f"keys of {keys.dtype} for an input of {x.type.dtype}")
    entries = _dense_entries(node, x, keys) if keys.dtype.kind == "i" else None
    if entries is None:
        place, table = _sparse_place(node, x, keys), np.r_[default, values]
    else:
        place, order = entries
        table = np.where(order < 0, default, values[order])
    return node.call("Gather", table.astype(values.dtype), place, axis=0)


def _mapping(node: MlNode) -> tuple[Array, Array, Array]:
    """Keys [n], values [n] and the default [1], in their dtypes."""
    node.refuse_strings("keys_strings", "values_strings", "classes_strings")
    sides = []
    for side in ("keys", "values"):
        tensor = node.raw.attributes.get(f"{side}_tensor")
        found = [
            array
            for array in (
                np.asarray(() if tensor is None else tensor).reshape(-1),
                node.integers(f"{side}_int64s"),
                node.numbers(f"{side}_floats"),
            )
            if array.size
        ]
        if len(found) != 1:
            raise BadNode(f"{len(found)} lists of {side}, one is needed")
        sides.append(found[0])
    keys, values = sides
    if len(keys) != len(values):
        raise BadNode(f"{len(keys)} keys, {len(values)} values")
    default: object = node.raw.attributes.get("default_tensor")
    if default is None:
        is_int = values.dtype.kind == "i"
        key, absent = ("default_int64", -1) if is_int else ("default_float", -0.0)
        default = node.raw.attribute(key, absent)
    return keys, values, np.asarray(default, values.dtype).reshape(-1)[:1]


def _dense_entries(node: MlNode, x: Value, keys: Array) -> tuple[Value, Array] | None:
    """Return for dense keys an index into a table, and the key of each entry, -1 for none."""
    low, high = int(keys.min()), int(keys.max())
    if high - low > _DENSE * len(keys) + _DENSE or not -(2**31) <= low <= high < 2**31:
        return None
    order = np.full(high - low + 3, -1, np.int64)
    order[keys[::-1] - low + 1] = np.arange(len(keys))[::-1]
    ends = [np.asarray(end, keys.dtype) for end in (low - 1, high + 1)]
    inside = node.call("Min", node.call("Max", x, ends[0]), ends[1])
    return node.call("Sub", inside, ends[0]), order


def _sparse_place(node: MlNode, x: Value, keys: Array) -> Value:
    """The index of x among the keys plus one; 0 if x is not a key."""
    if x.type.elements * len(keys) > 1 << 20:
        raise ImportFailed(f"{len(keys)} keys for {x.type.elements} elements are too many")
    column = node.shaped(x, *x.type.shape, 1)
    same = node.call("Equal", column, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any() and node.raw.opset >= _NAN_IS_A_KEY:
        both = node.call("And", node.call("IsNaN", column), np.isnan(keys))
        same = node.call("Or", same, both)
    numbers = np.arange(1, len(keys) + 1)
    found = node.call("Where", same, numbers, np.zeros((), np.int64))
    return node.call("ReduceMax", found, np.asarray([-1]), keepdims=0)

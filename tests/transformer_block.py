"""A block of a transformer in floats, with every operator that attention needs."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.layer_norm import LayerNormAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.ops.transpose import TransposeAttrs

TOKENS, WIDTH = 6, 8


def block() -> Function:
    """Attention of one head and a layer with gelu, each added to what it was made of."""
    ops.load()
    rng = np.random.default_rng(7)
    b = GraphBuilder()

    def dense(x: Value, width: int, name: str) -> Value:
        weights = rng.normal(0, 0.4, (width, x.type.shape[-1])).astype(np.float32)
        flat = b.op("reshape", [x], ReshapeAttrs((TOKENS, x.type.shape[-1])), name=f"{name}.rows")
        constants = [b.constant(f"{name}.w", weights), b.constant(f"{name}.b", weights[:, 0])]
        made = b.op("dense", [flat, *constants], name=name)
        return b.op("reshape", [made], ReshapeAttrs((1, TOKENS, width)), name=f"{name}.tokens")

    def normed(x: Value, name: str) -> Value:
        scale = b.constant(f"{name}.scale", rng.normal(1, 0.1, WIDTH).astype(np.float32))
        bias = b.constant(f"{name}.bias", rng.normal(0, 0.1, WIDTH).astype(np.float32))
        return b.op("layer_norm", [x, scale, bias], LayerNormAttrs(1e-5), name=name)

    x = b.param("x", TensorType((1, TOKENS, WIDTH), "float32"))
    first = normed(x, "norm1")
    query, key, value = (dense(first, WIDTH, name) for name in ("query", "key", "value"))
    turned = b.op("transpose", [key], TransposeAttrs((0, 2, 1)), name="turned")
    scores = b.op("matmul", [query, turned], name="scores")
    attention = b.op("softmax", [scores], SoftmaxAttrs(), name="attention")
    mixed = b.op("matmul", [attention, value], name="mixed")
    x = b.op("add", [x, mixed], AddAttrs(), name="after_attention")
    wide = b.op("gelu", [dense(normed(x, "norm2"), 2 * WIDTH, "wide")], name="gelu")
    return b.finish([b.op("add", [x, dense(wide, WIDTH, "narrow")], AddAttrs(), name="out")])

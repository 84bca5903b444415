"""ngrams: how often each of some sequences of integers stands in rows, also with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, index, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.cast import CastAttrs, cast_to
from edgec.ops.onnx_emit import emitted
from edgec.ops.op import Op, RawNode, from_onnx

#: More positions than this are damage: each has a weight for every n-gram.
MOST_POSITIONS = 1 << 16


@dataclass(frozen=True)
class NgramsAttrs:
    """gaps: the largest number of elements skipped between two of a sequence; it is constant within
    one.
    """

    gaps: int = 0


@register
class Ngrams(Op[NgramsAttrs]):
    """x int64 [rows, elements], sequences int64 [count, length] -> int32 [rows, count].

    A sequence of one element has no gaps.
    """

    name = "ngrams"
    attrs_class = NgramsAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NgramsAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A count for each row and sequence."""
        x, sequences = inputs
        if [len(v.shape) for v in inputs] != [2, 2] or {v.dtype for v in inputs} != {"int64"}:
            raise TypeMismatch(f"ngrams of {x} and {sequences}")
        if not x.elements or not sequences.elements or attrs.gaps < 0:
            raise TypeMismatch(f"ngrams of {x} and {sequences} with {attrs.gaps} gaps")
        return (TensorType((x.shape[0], sequences.shape[0]), "int32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Each place of each row is compared with the sequence, with each gap."""
        x, sequences = operand_tensors(target, inputs)
        length, elements = sequences.shape[1], x.shape[1]
        gaps = node.attrs.gaps if length > 1 else 0

        def update(acc: Value, r: Any, g: Any, s: Any, i: Any) -> Value:
            stands = index(i + (length - 1) * (s + 1)) < elements
            for n in range(length):
                at = minimum(i + n * (s + 1), elements - 1)
                stands = stands & x[r, at].equals(sequences[g, n])
            return select(stands, acc + 1, acc)

        return target.reduce(
            "acc", node.output.type.shape, "int32", [("s", 0, gaps + 1), ("i", 0, elements)],
            init=lambda r, g: 0, update=update,
        )  # fmt: skip


def _pools(raw: RawNode) -> list[Array]:
    """The sequences of each length from `min_gram_length` on: int64 [count, length]."""
    pool = raw.attribute("pool_int64s")
    if pool is None:
        raise ImportFailed("n-grams of strings are not supported", hint="number the words outside")
    starts = [*raw.attribute("ngram_counts", ()), len(pool)]
    parts = pairwise(starts)
    return [
        np.array(pool[start:stop], np.int64).reshape(-1, length)
        for length, (start, stop) in enumerate(parts, 1)
    ]


@from_onnx("TfIdfVectorizer", since=9)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX TfIdfVectorizer of integers: counts, or weights, at the places of the n-grams."""
    (x,), pools = raw.operands(1), _pools(raw)
    least, most = (int(raw.attribute(f"{end}_gram_length", 1)) for end in ("min", "max"))
    attrs = NgramsAttrs(int(raw.attribute("max_skip_count", 0)))
    numbers: list[int] = []
    rows = emitted(builder, "Reshape", [x, _integers(builder, raw, [-1, x.type.shape[-1]])],
                   f"{raw.name}/rows")  # fmt: skip
    rows = cast_to(builder, rows, CastAttrs("int64"), f"{raw.name}/wide")
    own = _places(raw)
    count, first, parts = int(own.max(initial=-1)) + 1, 0, []
    for length, pool in enumerate(pools, 1):
        if least <= length <= most and len(pool):
            table = builder.constant(f"{raw.name}.{length}grams", pool)
            parts.append(builder.op(Ngrams, [rows, table], attrs, name=f"{raw.name}/{length}"))
            numbers += range(first, first + len(pool))
        first += len(pool)
    if not parts:
        raise ImportFailed("it has no n-grams of its lengths")
    found = emitted(builder, "Concat", parts, f"{raw.name}/counts", axis=1)
    found = cast_to(builder, found, CastAttrs("float32"), f"{raw.name}/floats")
    weights = _weights(raw, numbers)
    if raw.attribute("mode", "TF") == "IDF":
        one = builder.constant(f"{raw.name}.one", np.array(1, np.float32))
        found = emitted(builder, "Min", [found, one], f"{raw.name}/present")
    # A product with a matrix of weights puts each count where it belongs.
    matrix = np.zeros((len(weights), count), np.float32)
    matrix[np.arange(len(weights)), own[numbers]] = weights
    table = builder.constant(f"{raw.name}.weights", matrix)
    found = emitted(builder, "MatMul", [found, table], f"{raw.name}/weighted")
    shape = _integers(builder, raw, [*x.type.shape[:-1], count])
    return emitted(builder, "Reshape", [found, shape], raw.name)


def _places(raw: RawNode) -> Array:
    own = np.array(raw.attribute("ngram_indexes", ()), np.int64)
    if own.min(initial=0) < 0 or own.max(initial=0) >= MOST_POSITIONS:
        raise ImportFailed(f"places of n-grams from {own.min()} to {own.max()}")
    return own


def _integers(builder: GraphBuilder, raw: RawNode, values: Sequence[int]) -> Constant:
    return builder.constant(f"{raw.name}.shape", np.array(values, np.int64))


def _weights(raw: RawNode, numbers: Sequence[int]) -> Array:
    """The weights of n-grams, by their numbers in the pool; 1 where counts are wanted."""
    mode = raw.attribute("mode", "TF")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ImportFailed(f"mode {mode!r} is unknown")
    given = raw.attribute("weights")
    if mode == "TF" or given is None:
        return np.ones(len(numbers), np.float32)
    return np.array(given, np.float32)[numbers]

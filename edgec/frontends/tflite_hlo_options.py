"""Options of TFLite's STABLEHLO operators and of REDUCE_WINDOW, as plain attributes.

function                    "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL" or "ANY"
body_subgraph, decomposition_subgraph    the number of a subgraph
branches, branch_subgraph0 ...    how many subgraphs there are, and their numbers
low, high, interior         tuples: padding of each axis
others                      the schema's fields in lower case, tuples of integers
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flatbuffers.number_types import Int32Flags
from flatbuffers.table import Table

from edgec.errors import ImportFailed
from edgec.graph.types import Array

#: Plain attributes of the options' object.
Decoder = Callable[[Any], dict[str, Any]]
_FUNCTIONS = {1: "ADD", 2: "MUL", 3: "MINIMUM", 4: "MAXIMUM", 5: "ALL", 6: "ANY"}
#: More axes than a tensor can have; longer lists are damage.
_MOST_NUMBERS = 64


def _numbers(options: Any, field: str) -> tuple[int, ...]:
    count = getattr(options, f"{field}Length")()
    if count > _MOST_NUMBERS:
        raise ImportFailed(f"{field} has {count} numbers")
    return tuple(int(n) for n in getattr(options, f"{field}AsNumpy")()) if count else ()


def _lists(*fields: str) -> Decoder:
    """A decoder of lists; names are written as in Python."""

    def decode(options: Any) -> dict[str, Any]:
        return {
            re.sub(r"(?<!^)(?=[A-Z])", "_", field).lower(): _numbers(options, field)
            for field in fields
        }

    return decode


_pad_lists = _lists("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding")
_gather_lists = _lists("OffsetDims", "CollapsedSliceDims", "StartIndexMap", "SliceSizes")
_scatter_lists = _lists("UpdateWindowDims", "InsertedWindowDims", "ScatterDimsToOperandDims")
_window_lists = _lists(
    "WindowDimensions", "WindowStrides", "BaseDilations", "WindowDilations", "Padding"
)


def _gather(options: Any) -> dict[str, Any]:
    return {**_gather_lists(options), "index_vector_dim": int(options.IndexVectorDim())}


def _scatter(options: Any) -> dict[str, Any]:
    return {
        **_scatter_lists(options),
        "index_vector_dim": int(options.IndexVectorDim()),
        "body_subgraph": int(options.UpdateComputationSubgraphIndex()),
    }


def _window(options: Any) -> dict[str, Any]:
    return {**_window_lists(options), "body_subgraph": int(options.BodySubgraphIndex())}


def _reduce_window(options: Any) -> dict[str, Any]:
    number = options.ReduceFunction()
    if number not in _FUNCTIONS:
        raise ImportFailed(f"reduction number {number} is unknown")
    return {"function": _FUNCTIONS[number]}


def _composite(options: Any) -> dict[str, Any]:
    return {"decomposition_subgraph": int(options.DecompositionSubgraphIndex())}


class CaseOptions:
    """The schema's StablehloCaseOptions, as its generated class would be."""

    def Init(self, data: bytes, place: int) -> None:
        """Be the table at a place."""
        self._table = Table(data, place)

    def _indices(self) -> int:
        """Offset of the list, 0 without one."""
        return int(self._table.Offset(4))

    def BranchSubgraphIndicesLength(self) -> int:
        return int(self._table.VectorLen(self._indices())) if self._indices() else 0

    def BranchSubgraphIndicesAsNumpy(self) -> Array:
        """Return the subgraphs' numbers."""
        found: Array = self._table.GetVectorAsNumpy(Int32Flags, self._indices())
        return found


def _case(options: Any) -> dict[str, Any]:
    numbers = _numbers(options, "BranchSubgraphIndices")
    each = {f"branch_subgraph{place}": number for place, number in enumerate(numbers)}
    return {"branches": len(numbers), **each}


#: Operators that the `tflite` package lacks: by number, and by name of their options the number in
#: BuiltinOptions2 and the class. Source: schema.fbs of LiteRT 2.1.
NEWER_KINDS = {209: "STABLEHLO_CASE"}
NEWER_TABLES: dict[str, tuple[int, type]] = {"StablehloCaseOptions": (23, CaseOptions)}

#: Operator kind -> (name of its table in the schema, decoder).
HLO_DECODERS: dict[str, tuple[str, Decoder]] = {
    "STABLEHLO_PAD": ("StablehloPadOptions", _pad_lists),
    "STABLEHLO_GATHER": ("StablehloGatherOptions", _gather),
    "STABLEHLO_SCATTER": ("StablehloScatterOptions", _scatter),
    "STABLEHLO_REDUCE_WINDOW": ("StablehloReduceWindowOptions", _window),
    "STABLEHLO_COMPOSITE": ("StableHLOCompositeOptions", _composite),
    "STABLEHLO_CASE": ("StablehloCaseOptions", _case),
    "REDUCE_WINDOW": ("ReduceWindowOptions", _reduce_window),
}

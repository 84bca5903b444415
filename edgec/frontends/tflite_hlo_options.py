"""Options of TFLite's STABLEHLO operators and of REDUCE_WINDOW, as plain attributes.

function                    "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL" or "ANY"
body_subgraph, decomposition_subgraph    the number of a subgraph
low, high, interior         tuples: padding of each axis
others                      the schema's fields in lower case, tuples of integers
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from edgec.errors import ImportFailed

_FUNCTIONS = {1: "ADD", 2: "MUL", 3: "MINIMUM", 4: "MAXIMUM", 5: "ALL", 6: "ANY"}
#: More axes than a tensor can have; longer lists are damage.
_MOST_NUMBERS = 64


def _numbers(options: Any, field: str) -> tuple[int, ...]:
    count = getattr(options, f"{field}Length")()
    if count > _MOST_NUMBERS:
        raise ImportFailed(f"{field} has {count} numbers")
    return tuple(int(n) for n in getattr(options, f"{field}AsNumpy")()) if count else ()


def _lists(*fields: str) -> Callable[[Any], dict[str, Any]]:
    """A decoder of lists; names become those of Python."""

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


#: Operator kind -> (name of its table in the schema, decoder).
HLO_DECODERS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "STABLEHLO_PAD": ("StablehloPadOptions", _pad_lists),
    "STABLEHLO_GATHER": ("StablehloGatherOptions", _gather),
    "STABLEHLO_SCATTER": ("StablehloScatterOptions", _scatter),
    "STABLEHLO_REDUCE_WINDOW": ("StablehloReduceWindowOptions", _window),
    "STABLEHLO_COMPOSITE": ("StableHLOCompositeOptions", _composite),
    "REDUCE_WINDOW": ("ReduceWindowOptions", _reduce_window),
}

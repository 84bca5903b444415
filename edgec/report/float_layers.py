"""Layers of a quantized model that stay in floats although the model was trained for integers.

Between integers an exporter may leave operators that are not quantized themselves, most often a
normalization that was not folded into the weights before it: then the layer computes floats, as it
does in ONNX Runtime, at many times the instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import Storage
from edgec.report.figures import plural, short_title

#: Layers that are named.
MOST_NAMED = 3


def float_layers(imported: Function, function: Function) -> list[str]:
    """The layers, by name, that read stored integers and whose weights were stored as integers.

    imported: as the file has it. function: after the passes.
    """
    made, stored = function.producers(), imported.producers()
    trained = {
        node.name
        for node in imported.nodes
        if node.op.dot_products is not None and _is_dequantized(node.inputs[1], stored)
    }
    return [
        node.name
        for node in function.nodes
        if node.name in trained
        and node.output.type.is_float
        and _is_dequantized(node.inputs[0], made)
    ]


def _is_dequantized(value: Value, producers: Mapping[Value, Node]) -> bool:
    made = producers.get(value)
    while made is not None and made.op.rearranges:
        made = producers.get(made.inputs[0])
    return made is not None and made.op.storage is Storage.DEQUANTIZE


def float_layer_lines(names: Sequence[str]) -> list[str]:
    """A note on them for a terminal; empty without any."""
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    named = ", ".join(short_title(name) for name in names[:MOST_NAMED])
    return [
        f"note: {plural(len(names), 'layer')} between integers stay in floats ({named}{more}): fold"
        " normalizations into their weights before export (in PyTorch:"
        " torch.ao.quantization.convert); docs/quantization.md has other reasons"
    ]

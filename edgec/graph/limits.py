"""Sizes beyond which a model is refused before anything is computed.

A damaged or hostile file may claim extents that are small to write down and too large to run: the
reference interpreter computes a golden output at compile time. No model for a small machine comes
near these limits.
"""

from __future__ import annotations

from edgec.errors import ImportFailed
from edgec.graph.ir import Function, Node

#: Elements of one value. Integer arithmetic on so many takes 128 MiB for each operand.
MOST_ELEMENTS = 1 << 24
#: Multiply-accumulates of one node.
MOST_MACS = 1 << 34
#: Elements that the windows of a convolution read, each of which the reference copies.
MOST_READS = 1 << 27


def check_limits(function: Function) -> None:
    """Raise ImportFailed, with all of them listed, if nodes or inputs are beyond the limits."""
    problems = [
        f'input "{param.name}" has {param.type.elements:,} elements'
        for param in function.params
        if param.type.elements > MOST_ELEMENTS
    ]
    for node in function.nodes:
        problem = _problem(node)
        if problem:
            problems.append(f'{node.op.name}  node "{node.name}": {problem}')
    if problems:
        raise ImportFailed(
            f"the model is too large: {len(problems)} of its values and nodes are beyond limits",
            details=tuple(problems[:20]),
            hint="the file may be damaged, or its input shape is not meant for a small machine",
        )


def _problem(node: Node) -> str:
    for output in node.outputs:
        if output.type.elements > MOST_ELEMENTS:
            return f"{output.type.elements:,} elements; at most {MOST_ELEMENTS:,} are possible"
    macs = node.macs
    if macs > MOST_MACS:
        return f"{macs:,} multiply-accumulates; at most {MOST_MACS:,} are possible"
    products = node.op.dot_products
    if products is None or products.is_depthwise or not products.window:
        return ""
    reads = macs // node.output.type.shape[-1]
    if reads > MOST_READS:
        return f"its windows read {reads:,} elements; at most {MOST_READS:,} are possible"
    return ""

"""Compute at compile time what depends on constants alone.

After `fuse_qdq`, which looks for dequantized constant weights. What is a result of the function
stays a node.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.evaluate import evaluate_constant
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.passes.rewriter import Rewriter


def fold_constants(function: Function) -> Function:
    """The function without nodes whose inputs are all constants."""
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if not inputs or not all(isinstance(value, Constant) for value in inputs):
        return None
    if any(value in rewriter.old.results for value in node.outputs):
        return None
    return evaluate_constant(node, inputs)

"""Compute at compile time the values that depend only on constants.

After `fuse_qdq`, which looks for dequantized constant weights. A result of the function is made by
a node: a copy of the constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import edgec.ops.copy  # noqa: F401  registers what is named here
from edgec.graph.evaluate import ends, evaluate_constant
from edgec.graph.extents import symbols_of_nodes
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Movement
from edgec.ops.copy import Copy
from edgec.passes.rewriter import Rewriter


def fold_constants(function: Function) -> Function:
    copied: dict[Value, Constant] = {}

    def visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
        # A result that is read inside is known there, too.
        given, inputs = inputs, tuple(copied.get(value, value) for value in inputs)
        is_known = bool(inputs) and all(isinstance(value, Constant) for value in inputs)
        is_copy = node.op.movement is Movement.COPY
        if not is_known or is_copy or not ends(node) or symbols_of_nodes([node]):
            return None if inputs == given else rewriter.keep(node, inputs)
        found: list[Value] = []
        for value, constant in zip(node.outputs, evaluate_constant(node, inputs), strict=True):
            if value not in rewriter.old.results:
                found.append(constant)
                continue
            source = rewriter.builder.constant(
                f"{value.name}.value", constant.data, value.type.quant
            )
            found.append(_copied(rewriter, node, value, source))
            copied[found[-1]] = source
        return found

    return Rewriter(function).run(visit)


def _copied(rewriter: Rewriter, node: Node, value: Value, source: Constant) -> Value:
    return rewriter.builder.op(
        Copy, [source], name=f"{node.name}/constant", output_names=[value.name],
        origins=[value.origin], sources=node.sources,
    )  # fmt: skip

"""TFLite's SVDF of floats: rank-one filters over time; their memory is a state.

    memory[f] = (memory[f] without its oldest, dense(x)[f])
    y[u] = act(sum over the filters f of unit u of memory[f] . time[f] + bias[u])

Source: EvalFloatSVDF of TFLite's svdf.h.
"""

from __future__ import annotations

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.concat import ConcatAttrs
from edgec.ops.op import RawNode
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.slice import sliced
from edgec.ops.steps import activated, added, constant, product, scaled


def append_svdf(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SVDF of floats, for any batch."""
    x, time, memory = (
        raw.operand(0),
        constant(raw.optional(2), "the weights over time"),
        raw.operand(4),
    )
    parts, rank = Parts(builder, raw), int(raw.attribute("rank", 1))
    (filters, length), batch = time.type.shape, x.type.shape[0]
    if rank < 1 or filters % rank or memory.type.shape != (batch, filters * length):
        raise ImportFailed(f"{filters} filters of rank {rank} and a memory {memory.type}")
    column = product(parts, x, raw.optional(1), None, "features")
    column = parts.reshaped(column, (batch, filters, 1), "column")
    whole = parts.reshaped(memory, (batch, filters, length), "memory")
    if length > 1:
        ranges = [(0, 1, batch), (0, 1, filters), (1, 1, length - 1)]
        kept = sliced(builder, whole, ranges, f"{raw.name}/kept", (raw.name,))
        column = parts.op("concat", [kept, column], ConcatAttrs(2), "next")
    builder.become(memory, parts.reshaped(column, memory.type.shape, "next_memory"))
    seen = scaled(parts, column, time, "seen")
    units = parts.reshaped(seen, (batch, filters // rank, rank * length), "by_unit")
    total = parts.op("reduce", [units], ReduceAttrs((2,), "sum"), "total")
    total = parts.reshaped(total, (batch, filters // rank), "sums")
    bias = raw.optional(3)
    if bias is not None:
        total = added(parts, total, constant(bias, "the bias"), "biased")
    return parts.last(activated(parts, str(raw.attribute("fused_activation", "NONE")), total, "y"))

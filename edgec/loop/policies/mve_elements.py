"""Element-wise functions on MVE."""

from __future__ import annotations

import edgec.loop.microkernels  # noqa: F401  registers what is named here
from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Cast, Const, Expr, PrimFunc, Store
from edgec.loop.policies.common import output_loops
from edgec.loop.rewrite import walk
from edgec.loop.schedule import Schedule


def schedule_linear_sum(schedule: Schedule) -> bool:
    """Whether the function is a linear sum of two tensors of one shape, and now a call."""
    sizes = linear_sum_sizes(schedule.func)
    if sizes is None:
        return False
    trial = Schedule(schedule.func)
    loop, *inner = output_loops(schedule.func, "out", "out")
    try:
        for name in inner:
            loop = trial.fuse(loop, name)
        trial.simplify()
        trial.tensorize(loop, "ec_linear_sum_s8_mve", sizes)
    except ScheduleError:
        return False
    schedule.func, schedule.trace = trial.func, trial.trace
    return True


def linear_sum_sizes(func: PrimFunc) -> dict[str, int] | None:
    """The numbers of (a * first + constant + b * second) >> shift, limited; None for others."""
    stores = [s for s, _ in walk(func.body) if isinstance(s, Store)]
    out = next((p for p in func.params if p.name == "out"), None)
    if out is None or not out.shape or len(stores) != 1 or not isinstance(stores[0].value, Cast):
        return None
    expr: Expr = stores[0].value.value
    found: dict[str, int] = {"count": out.elements}
    for name, op in (("maximum", "min"), ("minimum", "max"), ("shift", "shr")):
        if not isinstance(expr, Binary) or expr.op != op or not isinstance(expr.right, Const):
            return None
        found[name] = int(expr.right.value)
        expr = expr.left
    if not isinstance(expr, Binary) or expr.op != "add" or not isinstance(expr.left, Binary):
        return None
    product, rest = expr.right, expr.left
    if rest.op != "add" or not isinstance(rest.right, Const):
        return None
    found["constant"] = int(rest.right.value)
    for name, factor in (("first", rest.left), ("second", product)):
        if not isinstance(factor, Binary) or factor.op != "mul":
            return None
        if not isinstance(factor.right, Const):
            return None
        found[name] = int(factor.right.value)
    return found

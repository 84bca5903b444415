"""Every function of a model as a GPU runs it, with a look at every access to memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from edgec.codegen.one_launch import plan_of
from edgec.codegen.program import Program, Step
from edgec.loop.bound import BOUND, kernel_parts, launch_of
from edgec.loop.interpret import interpret
from edgec.loop.ir import Buffer, For, PrimFunc, Seq, Stmt, Sync
from edgec.loop.microkernel import kernels_of
from edgec.loop.overlap import written_buffers
from edgec.loop.rewrite import Rewriter
from edgec.loop.verify import verify_func
from edgec.pipeline import compile_model
from edgec.targets.core import find_core
from edgec.targets.cuda.kernels.mma import MMA

GPU = find_core("cuda-sm_75")


def given(func: PrimFunc) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    found = {}
    for buffer in func.params:
        if buffer.scope != "scratch":
            low, high = (-4, 4) if buffer.scope == "constant" else (-100, 100)
            found[buffer.name] = rng.integers(low, high, buffer.shape).astype(buffer.dtype)
    return found


def races(path: Path) -> int:
    """Run every function of a model as a GPU does, each access checked; how many are bound.

    Each gives what the same loops give in their own order; not those whose sums pass from loop to
    loop in registers, which others compare.
    """
    count = 0
    for variant in compile_model(path, GPU).chosen:
        func = variant.function
        verify_func(func)
        arrays = {**given(func), **variant.constants}
        found = interpret(func, arrays)  # ContractError for a race
        is_split = MMA in kernels_of(func)
        expected = found if is_split else interpret(serial(func), arrays)
        assert [a.tobytes() for a in found.values()] == [a.tobytes() for a in expected.values()]
        count += launch_of(func) is not None
    return count


def require_apart(program: Program) -> int:
    """Kernels of one launch touch no byte that another one of it writes; how many have company."""
    starts, together, count = iter(plan_of(program).waits), list[tuple[range, bool]](), 0
    for step in program.general_steps:
        for part in kernel_parts(step.function):
            if next(starts):
                together = []
            count += bool(together)
            addresses, written = addresses_of(program, step), written_buffers(part)
            own = [
                (addresses[param], param.scope == "scratch" or param in written)
                for param in part.params
                if param in addresses
            ]
            for span, is_written in own:
                for other, was_written in together:
                    meets = span.start < other.stop and other.start < span.stop
                    assert not (meets and (is_written or was_written)), step.function.name
            together += own
    return count


def addresses_of(program: Program, step: Step) -> dict[Buffer, range]:
    """The byte range of each parameter of a step; states lie after the arena."""
    found = {}
    for param, name in zip(step.function.params, step.args, strict=True):
        if name not in program.constants:
            start = program.offsets[name] + program.arena_bytes * (name in program.state_buffers)
            found[param] = range(start, start + program.buffers[name])
    return found


class _Serial(Rewriter):
    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Sync):
            return Seq(())
        found = super().stmt(stmt)
        is_bound = isinstance(found, For) and found.kind in BOUND
        return replace(found, kind="serial") if is_bound else found


def serial(func: PrimFunc) -> PrimFunc:
    """The function with all of its loops in their order, and no barrier."""
    return replace(func, body=_Serial().stmt(func.body))

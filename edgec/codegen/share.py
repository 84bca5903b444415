"""Emit structurally equal PrimFuncs once.

Two functions are equal if they are the same tree after parameters, locals and loop variables are
renamed in order of appearance. Offsets and weights appear only at the call, so layers of the same
shape share code; functions that differ in a constant inside stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from edgec.codegen.c_types import INT_RANGE
from edgec.codegen.program import Program, Step
from edgec.codegen.ranges import Range, range_class
from edgec.loop.ir import Axis, Block, Buffer, BufferRef, Call, For, PrimFunc, Stmt
from edgec.loop.rewrite import Rewriter, statements
from edgec.numerics.term import Term, Var, as_term

#: Of a program for a GPU: the GPU's steps, the processor's, or (None) all.
Side = Literal["gpu", "processor"] | None


def _is_on(step: Step, on: Side) -> bool:
    return on is None or step.on_processor == (on == "processor")


@dataclass(frozen=True)
class SharedFunction:
    """A function to emit, the known ranges of its constants, and the steps that call it."""

    function: PrimFunc
    known: Mapping[str, Range]
    steps: tuple[int, ...]


def share(program: Program, on: Side = None) -> tuple[SharedFunction, ...]:
    """The distinct functions of a program, in order of first use.

    on: of the steps of one side alone, of a program for a GPU.
    """
    found: dict[object, tuple[PrimFunc, dict[str, Range], list[int]]] = {}
    for index, step in enumerate(program.steps):
        if not _is_on(step, on):
            continue
        known = constant_ranges(step, program.constants)
        classes = tuple(known.get(p.name) for p in step.function.params)
        key = (canonical(step.function), classes)
        if key in found:
            found[key][2].append(index)
        else:
            found[key] = (step.function, known, [index])
    return tuple(SharedFunction(f, k, tuple(steps)) for f, k, steps in found.values())


@dataclass(frozen=True)
class SharedCallee:
    """A function that steps call, its constants' known ranges, and its names in the program."""

    function: PrimFunc
    known: Mapping[str, Range]
    callees: tuple[str, ...]


def share_callees(program: Program, on: Side = None) -> tuple[SharedCallee, ...]:
    """The distinct functions that the steps' functions call, in order of first use; as `share`."""
    found: dict[object, tuple[PrimFunc, dict[str, Range], list[str]]] = {}
    for step in program.steps:
        if not _is_on(step, on):
            continue
        ranges = constant_ranges(step, program.constants)
        for stmt in statements(step.function.body):
            if not isinstance(stmt, Call) or stmt.callee not in program.callees:
                continue
            function = program.callees[stmt.callee]
            known = {}
            for param, argument in zip(function.params, stmt.args, strict=False):
                if isinstance(argument, BufferRef) and argument.buffer.name in ranges:
                    known[param.name] = ranges[argument.buffer.name]
            key = canonical(function), tuple(known.get(p.name) for p in function.params)
            entry = found.setdefault(key, (function, known, []))
            if stmt.callee not in entry[2]:
                entry[2].append(stmt.callee)
    return tuple(SharedCallee(f, k, tuple(names)) for f, k, names in found.values())


def constant_ranges(step: Step, constants: Mapping[str, np.ndarray]) -> dict[str, Range]:
    """Return the approximate range of each integer constant of the step, by parameter name."""
    known = {}
    for param, arg in zip(step.function.params, step.args, strict=True):
        if param.scope == "constant" and arg in constants:
            array = constants[arg]
            if array.size and param.dtype in INT_RANGE:
                known[param.name] = range_class(param.dtype, int(array.min()), int(array.max()))
    return known


def canonical(func: PrimFunc) -> PrimFunc:
    """The function with every name replaced by its order of appearance, for comparing."""
    return _Canonical(func).result


class _Canonical(Rewriter):
    """Rename buffers and variables; variables where they are bound, buffers as declared."""

    def __init__(self, func: PrimFunc) -> None:
        self._buffers: dict[Buffer, Buffer] = {}
        self._vars: list[tuple[Var, Term]] = []
        self._count = 0
        indices = tuple(self._bind(var) for var in func.indices)
        params = self._renamed(func.params)
        allocs = self._renamed(func.allocs)
        self.result = PrimFunc("f", params, allocs, self.stmt(func.body), indices)

    def _renamed(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        for buffer in buffers:
            name = f"b{len(self._buffers)}"
            extents = None if buffer.extents is None else self.terms(buffer.extents)
            self._buffers[buffer] = replace(buffer, name=name, extents=extents)
        return tuple(self._buffers[buffer] for buffer in buffers)

    def _bind(self, var: Var) -> Var:
        new = Var(f"v{self._count}", var.start, var.stop)
        self._count += 1
        self._vars.append((var, as_term(new)))
        return new

    def buffer(self, buffer: Buffer) -> Buffer:
        return self._buffers.get(buffer, buffer)

    def term(self, term: Term) -> Term:
        # Later bindings of the same variable are the inner ones.
        return term.substitute(dict(self._vars)) if term.parts else term

    def loop(self, loop: For) -> Stmt:
        start, stop = self.term(loop.start), self.term(loop.stop)
        var = self._bind(loop.var)
        body = self.stmt(loop.body)
        self._vars.pop()
        return For(var, start, stop, loop.kind, body)

    def block(self, block: Block) -> Stmt:
        bindings = [self.term(axis.binding) for axis in block.axes]
        axes = tuple(
            Axis(self._bind(axis.var), axis.kind, binding)
            for axis, binding in zip(block.axes, bindings, strict=True)
        )
        init = None if block.init is None else self.stmt(block.init)
        body = self.stmt(block.body)
        del self._vars[len(self._vars) - len(axes) :]
        return Block("block", axes, init, body)

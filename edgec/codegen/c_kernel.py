"""PrimFunc -> kernels of a GPU, in CUDA C++ that is C but for a few macros (`runtime_c/cuda/`).

    block_x for i in 0..4 {                     EC_GLOBAL void f(const int8_t *x, int8_t *y) {
      thread_x for j in 0..32 {                     const int32_t i = EC_BLOCK_X;
        y[i, j] = x[i, j] + 1           ->          const int32_t j = EC_THREAD_X;
    } }                                             y[i * 32 + j] = ...
    sync grid                                   }
    ...                                         EC_GLOBAL void f_then_2(...) ...

A barrier of the grid ends a kernel: the next one of the stream sees all that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from edgec.codegen.c_function import FunctionPrinter
from edgec.codegen.c_term import SUM, term_text
from edgec.codegen.c_text import INDENT, CFunction
from edgec.codegen.c_types import C_TYPE
from edgec.codegen.ranges import Range
from edgec.errors import ContractError
from edgec.loop.bound import (
    BLOCKS,
    BOUND,
    ONE_THREAD,
    THREADS,
    Launch,
    does_wait,
    group_bytes,
    in_warps,
    kernel_parts,
    launch_of,
    shared_places,
)
from edgec.loop.ir import TRACES, BoundKind, Buffer, Call, For, PrimFunc, Scope, Seq, Stmt, Sync
from edgec.loop.rewrite import ReplaceBuffer, Rewriter, statements
from edgec.targets.cuda.crew import Crew

#: Macros of `runtime_c/cuda/ec_cuda_kernel.h`.
_INDEX: dict[BoundKind, str] = {kind: f"EC_{kind.upper()}" for kind in BOUND}
_BARRIER = {"block": "EC_BLOCK_BARRIER();", "warp": "EC_WARP_BARRIER();"}


@dataclass(frozen=True)
class Kernel:
    """The kernel of one launch: its text, its name, its blocks and threads.

    params: the parameters of the function that it takes, by position. waits: whether threads of
    a block wait for each other.
    """

    name: str
    text: str
    launch: Launch
    params: tuple[int, ...]
    waits: bool


def emit_kernels(
    func: PrimFunc, name: str, callees: Mapping[str, str], known: Mapping[str, Range]
) -> tuple[Kernel, ...]:
    """The kernels of a function, `<name>`, `<name>_then_2` and so on, to be launched in this order.

    Raises ContractError for a barrier of the grid inside of a statement.
    """
    return tuple(
        _emit(part, name if not number else f"{name}_then_{number + 1}", func, callees, known)
        for number, part in enumerate(kernel_parts(func))
    )


def emit_parts(
    func: PrimFunc, name: str, callees: Mapping[str, str], known: Mapping[str, Range],
    crew: Crew,
) -> tuple[Kernel, ...]:  # fmt: skip
    """The parts as functions that all threads of one launch call; each does a share of the work.

        for (int32_t step = EC_GRID_THREAD; step < 4 * 32; step += EC_GRID_THREADS) {
            const int32_t thread_x = step % 32;
            const int32_t block_x = step / 32;
            ...
        }

    Where threads of a block wait for each other, groups of threads take one block after the other;
    such a part has one more parameter, the memory that threads share.
    """
    return tuple(
        _emit(part, f"{name}_{number}", func, callees, known, crew)
        for number, part in enumerate(kernel_parts(func), 1)
    )


def emit_beside(
    name: str, parts: Sequence[tuple[PrimFunc, Mapping[str, Range]]], callees: Mapping[str, str]
) -> Kernel:
    """Return one kernel for several parts of functions: the blocks of one, then the next one's.

        if (EC_BLOCK_X < 32) {
            const int32_t block_x = EC_BLOCK_X;
            ...
        } else {
            const int32_t block_x = EC_BLOCK_X - 32;
            ...
        }

    It takes the parameters of all parts in order. If their numbers of threads differ, blocks have
    the largest, in one dimension; surplus threads of the other parts do nothing.
    """
    launches = [launch_of(part) or ONE_THREAD for part, _ in parts]
    most = max(launch.threads for launch in launches)
    alike = len({launch.extents[3:] for launch in launches}) == 1
    total, params, lines = 0, list[str](), list[str]()
    for number, ((part, known), launch) in enumerate(zip(parts, launches, strict=True), 1):
        names = {param: f"{param.name}_of_{number}" for param in part.params}
        own = {names[p]: known[p.name] for p in part.params if p.name in known}
        printer = _BlockPrinter(_renamed(part, names), name, callees, own, launch)
        function = printer.emit_from(total, None if alike else most)
        total += launch.blocks
        is_last = number == len(parts)
        opening = "} else {" if is_last else f"if (EC_BLOCK_X < {total}) {{"
        opening = opening if number in (1, len(parts)) else f"}} else {opening}"
        params += function.params
        lines += [INDENT + opening, *(INDENT + line for line in function.lines)]
    text = CFunction(name, tuple(params), (*lines, INDENT + "}"))
    x, y, z = launches[0].extents[3:] if alike else (most, 1, 1)
    extents = (total, 1, 1, x, y, z)
    waits = any(does_wait(part) for part, _ in parts)
    return Kernel(name, _global(text), Launch(extents), (), waits)


def _renamed(func: PrimFunc, names: Mapping[Buffer, str]) -> PrimFunc:
    """A function with other names of its parameters."""
    changes = {buffer: replace(buffer, name=name) for buffer, name in names.items()}
    params = tuple(changes[param] for param in func.params)
    return replace(func, params=params, body=ReplaceBuffer(changes).stmt(func.body))


def _emit(
    part: PrimFunc, name: str, whole: PrimFunc, callees: Mapping[str, str],
    known: Mapping[str, Range], crew: Crew | None = None,
) -> Kernel:  # fmt: skip
    launch, waits = launch_of(part) or ONE_THREAD, does_wait(part)
    if crew is None:
        text = _global(_KernelPrinter(part, name, callees, known, launch).emit())
    elif waits:
        text = _GroupPrinter(part, name, callees, known, in_warps(launch), crew).emit().text
    else:
        text = _StepPrinter(part, name, callees, known, launch, crew).emit().text
    params = tuple(whole.params.index(param) for param in part.params)
    return Kernel(name, text, launch, params, waits)


def _global(function: CFunction) -> str:
    return function.text.replace("static void ", "EC_GLOBAL void ", 1)


def without_traces(func: PrimFunc) -> PrimFunc:
    """The function without the calls that show its rows: nobody watches inside of a kernel."""
    return replace(func, body=_Silent().stmt(func.body))


class _Silent(Rewriter):
    def stmt(self, stmt: Stmt) -> Stmt:
        """Any statement but these calls."""
        if isinstance(stmt, Call) and stmt.callee in TRACES:
            return Seq(())
        return super().stmt(stmt)


class _KernelPrinter(FunctionPrinter):
    own_scopes: tuple[Scope, ...] = ("register", "shared")

    def __init__(
        self, func: PrimFunc, name: str, callees: Mapping[str, str], known: Mapping[str, Range],
        launch: Launch,
    ) -> None:  # fmt: skip
        super().__init__(func, name, callees, known)
        self.launch = launch
        self.index = _INDEX

    def emit(self) -> CFunction:
        """The kernel, its shared memory declared first."""
        function = super().emit()
        shared = [
            f"{INDENT}EC_SHARED_ARRAY({C_TYPE[b.dtype]}, {self.buffer_names[b]}, {b.elements});"
            for b in self.func.allocs
            if b.scope == "shared"
        ]
        return replace(function, lines=(*shared, *function.lines))

    def loop(self, loop: For, depth: int) -> list[str]:
        """A loop, or the step of it that this thread runs."""
        if loop.kind not in BOUND:
            return super().loop(loop, depth)
        (kind,) = (kind for kind in BOUND if kind == loop.kind)
        before, shadowed = set(self.used), self.vars.get(loop.var)
        name = self.fresh(loop.var.name)
        start, stop = (term_text(term, self.var_name) for term in (loop.start, loop.stop))
        offset = "" if loop.start.constant == 0 else f" + {start.at(SUM)}"
        self.vars[loop.var] = name
        inside = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        is_whole = loop.extent == self.launch.of(kind)
        opening = "{" if is_whole else f"if ({self.index[kind]}{offset} < {stop.at(SUM)}) {{"
        lines = [
            INDENT * depth + opening,
            f"{INDENT * (depth + 1)}const int32_t {name} = {self.index[kind]}{offset};",
            *self.stmts(inside, depth + 1),
            f"{INDENT * depth}}}",
        ]
        self.used = before
        del self.vars[loop.var]
        if shadowed is not None:
            self.vars[loop.var] = shadowed
        return lines

    def barrier(self, sync: Sync) -> str:
        if sync.scope == "grid":
            raise ContractError(f"{self.func.name}: a barrier of the grid inside of a statement")
        return _BARRIER[sync.scope]

    def _indices(self, rest: str, kinds: tuple[BoundKind, ...]) -> Iterator[str]:
        """The indices of some kinds that a number stands for, the first ones running fastest."""
        left = prod(map(self.launch.of, kinds))
        for kind in kinds:
            extent = self.launch.of(kind)
            left //= extent
            if extent > 1:
                text = rest if left == 1 else f"{rest} % {extent}"
                yield f"{INDENT}const int32_t {self.index[kind]} = {text};"
                rest = f"{rest} / {extent}"
            elif self._is_bound(kind):
                yield f"{INDENT}const int32_t {self.index[kind]} = 0;"

    def _is_bound(self, kind: str) -> bool:
        return any(isinstance(s, For) and s.kind == kind for s in statements(self.func.body))


class _BlockPrinter(_KernelPrinter):
    """A kernel whose blocks are some of a launch."""

    def emit_from(self, first: int, threads: int | None) -> CFunction:
        """The function, with this block of the launch as its first.

        threads: of its blocks in one dimension, if they differ from the function's.
        """
        own = BLOCKS if threads is None else BOUND
        self.index = {**_INDEX, **{kind: self.fresh(kind) for kind in own}}
        function = self.emit()
        start = f"(EC_BLOCK_X - {first})" if first else "EC_BLOCK_X"
        lines = [*self._indices(start, BLOCKS)]
        if threads is not None:
            lines += self._indices("EC_THREAD_X", THREADS)
        lines += function.lines
        if threads is not None and self.launch.threads < threads:
            opening = f"{INDENT}if (EC_THREAD_X < {self.launch.threads}) {{"
            lines = [opening, *(INDENT + line for line in lines), INDENT + "}"]
        return replace(function, lines=tuple(lines))


class _StepPrinter(_KernelPrinter):
    """All steps of the bound loops as one loop, which all threads share."""

    def __init__(
        self, func: PrimFunc, name: str, callees: Mapping[str, str], known: Mapping[str, Range],
        launch: Launch, crew: Crew,
    ) -> None:  # fmt: skip
        super().__init__(func, name, callees, known, launch)
        self.crew = crew
        self.step = self.fresh("step")
        self.index = {kind: self.fresh(kind) for kind in BOUND}

    def emit(self) -> CFunction:
        """The function: the loop around one thread's code."""
        function = FunctionPrinter.emit(self)
        first, at_once = self.crew.steps
        inside = [*self._indices(self.step, (*BOUND[3:], *BOUND[:3])), *function.lines]
        total = self.launch.blocks * self.launch.threads
        return replace(function, lines=self._each(first, total, at_once, inside))

    def _each(self, first: str, stop: int, at_once: str, inside: list[str]) -> tuple[str, ...]:
        rounds = f"int32_t {self.step} = {first}; {self.step} < {stop}; {self.step} += {at_once}"
        return (f"{INDENT}for ({rounds}) {{", *(INDENT + line for line in inside), INDENT + "}")


class _GroupPrinter(_StepPrinter):
    """Groups of threads; each runs one block after the other."""

    def emit(self) -> CFunction:
        """The function, with the memory that it shares as its last parameter."""
        shared, count = self.fresh("shared"), self.crew.groups(self.func)
        function = FunctionPrinter.emit(self)
        first, at_once = self.crew.blocks_of(self.group, count)
        place = [
            f"{INDENT}{C_TYPE[b.dtype]} *const {self.buffer_names[b]} = ({C_TYPE[b.dtype]} *)"
            f"({shared} + {self.group} * {group_bytes(self.func)} + {offset});"
            for b, offset in shared_places(self.func)
        ]
        threads = self._indices(f"EC_THREAD_X % {self.launch.threads}", BOUND[3:])
        inside = [*self._indices(self.step, BOUND[:3]), *function.lines]
        inside += [INDENT + self.barrier(Sync("block"))] if place else []
        lines = [*place, *threads, *self._each(first, self.launch.blocks, at_once, inside)]
        opening = f"{INDENT}if ({self.group} < {count}) {{"
        unused = [] if place else [f"{INDENT}(void){shared};"]
        params = (*function.params, f"uint8_t *{shared}")
        body = (*unused, opening, *(INDENT + line for line in lines), INDENT + "}")
        return replace(function, params=params, lines=body)

    @property
    def group(self) -> str:
        return f"EC_THREAD_X / {self.launch.threads}"

    def barrier(self, sync: Sync) -> str:
        if sync.scope != "block":
            return super().barrier(sync)
        return f"EC_GROUP_BARRIER({self.group}, {self.launch.threads});"

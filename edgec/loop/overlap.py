"""Number of bytes of an input that a function's output may overlap.

A function may write over an input that nobody else needs, as long as it has read every byte
before. Whether it has is a question about the loop nest that will run, and is answered from its
access functions alone:

    for i in 0..8:                  step i reads bytes [2i, 2i + 3) of x, then writes byte i of out
        out[i] = x[2i] + x[2i+1] + x[2i+2]

    distance = max of (bytes of out written so far) - (lowest byte of x read from now on)
             = max over i of i - 2i = 0:     out may start where x starts, or lower

Every part of the nest is summed up by three numbers: the lowest byte of the input that it reads,
the end of what it writes of the output, and the distance inside. Two consecutive parts are combined
into one, and so are all iterations of a loop, for all iterations of the outer loops at once in
arrays. A part that only reads or only writes needs no order: its loops become intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from edgec.errors import ContractError
from edgec.loop.access import flat_address, reads, writes
from edgec.loop.bound import ONE_THREAD, kernel_parts, launch_of
from edgec.loop.dtype import bits
from edgec.loop.ir import (
    Branch,
    Buffer,
    BufferRef,
    Call,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Sync,
    While,
    remembered,
)
from edgec.loop.microkernel import Microkernel, get_microkernel, meaning_of, written_by
from edgec.loop.rewrite import statements, subexpressions
from edgec.loop.simplify import lower_blocks
from edgec.loop.unify import closed_at
from edgec.numerics.term import Atom, FloorDiv, FloorMod, Min, Product, Term, TermLike, Var

IntArray = npt.NDArray[np.int64]
# Smallest and largest value of something, for every iteration of the loops that are enumerated.
Interval = tuple[IntArray, IntArray]

NEVER = np.int64(1) << 60  # a byte beyond every buffer
# Iterations looked at in one array, and in one function: beyond, loops are taken as a whole.
BATCH = 1 << 18
MOST_ITERATIONS = 1 << 24
# Steps of a microkernel that are looked at one by one.
MOST_STEPS = 1 << 19
#: Inputs that are looked at; each costs a walk through a nest as long as there are inputs.
MOST_INPUTS = 64
#: Open sizes for which a function is checked one by one.
MOST_SIZES = 300
_CHARACTERS = frozenset({"int8", "uint8"})


@remembered
def overlap_distances(func: PrimFunc) -> dict[Buffer, int]:
    """The distance of every input that the function's only output may overlap."""
    written = written_buffers(func)
    arena = [param for param in func.params if param.scope == "arena"]
    outputs = [param for param in arena if param in written]
    if len(outputs) != 1 or len(arena) > MOST_INPUTS:
        return {}
    found = {x: overlap_distance(func, x, outputs[0]) for x in arena if x not in written}
    return {x: distance for x, distance in found.items() if distance is not None}


@remembered
def written_buffers(func: PrimFunc) -> set[Buffer]:
    """The buffers that the function writes; of a microkernel's arguments, only the written ones."""
    written: set[Buffer] = set()
    for stmt in statements(func.body):
        if isinstance(stmt, Store):
            written.add(stmt.buffer)
        elif isinstance(stmt, Call):
            written |= written_by(stmt)
    return written


@lru_cache(maxsize=4096)
def overlap_distance(func: PrimFunc, input: Buffer, output: Buffer) -> int | None:
    """Bytes by which the output must start below the input, for both to share memory.

    With `offset[output] + distance <= offset[input]`, every element of `input` is read before
    `output` is written over it; 0 is exactly in place, a negative distance lets the output start
    above the input. The minimum is minus the input's bytes: no restriction. None if sharing saves
    nothing, or if C's aliasing rules would let a compiler swap the accesses. Both buffers are
    parameters of the function; nothing is assumed about their data.
    """
    characters = _CHARACTERS & {input.dtype, output.dtype}
    if input.dtype != output.dtype and not characters:
        return None
    if any(isinstance(stmt, (Branch, While)) for stmt in statements(func.body)):
        return None  # data decide which elements are read after the write
    return _largest_distance(func, input, output)


def _largest_distance(func: PrimFunc, input: Buffer, output: Buffer) -> int | None:
    is_open = input.extents is not None or output.extents is not None
    places = func.params.index(input), func.params.index(output)
    distance, most = -_nbytes(input), _nbytes(output)
    versions = _closed(func) if is_open else (func,)  # elements lie elsewhere at each size
    for version in versions:
        if distance < most:
            distance = max(distance, _distance(version, *(version.params[n] for n in places)))
    return distance if versions and distance < most else None


def _distance(func: PrimFunc, input: Buffer, output: Buffer) -> int:
    given = {v: (np.array([v.start]), np.array([v.stop - 1])) for v in func.indices}
    walk, steps = _Walk(input, output), _Steps(given, 1)
    if launch_of(func) is None:
        return int(walk.summary(lower_blocks(func.body), steps).distance[0])
    whole = _nothing(1)
    for together in _at_once(func):
        whole = whole.then(walk.summary(lower_blocks(together), steps).mixed())
    return int(whole.distance[0])


def _at_once(func: PrimFunc) -> Iterator[Stmt]:
    """The statements of a GPU's function between barriers that all of its threads wait at.

    Barriers of a block order all threads only in a kernel of one block.
    """
    for part in kernel_parts(func):
        stmts = part.body.stmts if isinstance(part.body, Seq) else (part.body,)
        is_one_block = (launch_of(part) or ONE_THREAD).blocks == 1
        together: list[Stmt] = []
        for stmt in stmts:
            if is_one_block and isinstance(stmt, Sync) and stmt.scope == "block":
                yield Seq(tuple(together))
                together = []
            together.append(stmt)
        yield Seq(tuple(together))


@remembered
def _closed(func: PrimFunc) -> tuple[PrimFunc, ...]:
    """A function of open sizes at each of them, the largest first; none if there are too many."""
    ranges = [range(var.stop - 1, var.start - 1, -1) for var in func.indices]
    if prod(map(len, ranges)) > MOST_SIZES:
        return ()
    versions = (closed_at(func, dict(zip(func.indices, at, strict=True)))
                for at in product(*ranges))  # fmt: skip
    return tuple(replace(each, body=lower_blocks(each.body)) for each in versions)


@dataclass(frozen=True)
class _Steps:
    """A batch of executions of one statement: variables by value or interval, and their count.

    Where `in_order` is False an entry stands for many executions in any order.
    """

    values: Mapping[Var, Interval]
    count: int
    in_order: bool = True

    def part(self, start: int, stop: int) -> _Steps:
        """Some of the executions."""
        values = {v: (low[start:stop], high[start:stop]) for v, (low, high) in self.values.items()}
        return _Steps(values, min(stop, self.count) - start, self.in_order)


@dataclass(frozen=True)
class _Summary:
    """Reads and writes of each execution in a batch.

    read: the lowest byte of the input that is read, NEVER if none is. write: the end of the bytes
    of the output that are written, -NEVER if none are. distance: the largest `write` of something
    less the `read` of something later.
    """

    read: IntArray
    write: IntArray
    distance: IntArray

    def then(self, later: _Summary) -> _Summary:
        """This, and then the other."""
        return _Summary(
            np.minimum(self.read, later.read),
            np.maximum(self.write, later.write),
            np.maximum.reduce([self.distance, later.distance, self.write - later.read]),
        )

    def mixed(self) -> _Summary:
        """The same accesses in any order."""
        return _Summary(self.read, self.write, self.write - self.read)

    def where(self, condition: npt.NDArray[np.bool_]) -> _Summary:
        """Only where the condition holds; nothing elsewhere."""
        return _Summary(
            np.where(condition, self.read, NEVER),
            np.where(condition, self.write, -NEVER),
            np.where(condition, self.distance, -NEVER),
        )


def _nothing(count: int) -> _Summary:
    never = np.full(count, -NEVER)
    return _Summary(-never, never, never)


@dataclass(frozen=True)
class _Order:
    """A microkernel's outermost loop, the steps [groups, at once], whether reads are first.

    A group that is short of steps does its last one again, as often as it is. inner: the loop
    inside that each group goes through in order, with reads first.
    """

    loop: For
    groups: IntArray
    reads_first: bool
    inner: For | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Groups, steps of the loop inside, and steps at once."""
        inside = 1 if self.inner is None else self.inner.extent or 0
        return self.groups.shape[0], inside, self.groups.shape[1]

    def steps(self, outer: _Steps) -> _Steps:
        """Every step of every group, for each execution of the call."""
        groups, inside, at_once = self.shape
        each = groups * inside * at_once
        values = {
            var: (np.repeat(low, each), np.repeat(high, each))
            for var, (low, high) in outer.values.items()
        }
        steps = np.repeat(self.groups[:, None], inside, axis=1).reshape(-1)
        at = (_interval(self.loop.start, outer)[0][:, None] + steps).reshape(-1)
        values[self.loop.var] = at, at
        if self.inner is not None:
            inner = np.tile(np.repeat(np.arange(inside), at_once), outer.count * groups)
            inner += self.inner.start.offset
            values[self.inner.var] = inner, inner
        return _Steps(values, len(at), in_order=False)


class _Walk:
    def __init__(self, input: Buffer, output: Buffer) -> None:
        self.input = input
        self.output = output
        self.iterations = 0
        self.touched: dict[int, tuple[bool, bool]] = {}
        self.variables: dict[int, frozenset[Var]] = {}
        self.keep: list[Stmt] = []  # identities stay valid while these live

    def summary(self, stmt: Stmt, steps: _Steps) -> _Summary:
        """Sum up every execution of the statement."""
        if isinstance(stmt, Seq):
            total = _nothing(steps.count)
            for child in stmt.stmts:
                if any(self.touches(child)):
                    total = total.then(self.summary(child, steps))
            return total
        if not any(self.touches(stmt)):
            return _nothing(steps.count)
        if isinstance(stmt, For):
            return self.loop(stmt, steps)
        if isinstance(stmt, If):
            return self.condition(stmt, steps)
        if isinstance(stmt, Store):
            return self.store(stmt, steps)
        assert isinstance(stmt, Call), "blocks are lowered"
        return self.call(stmt, steps)

    def touches(self, stmt: Stmt) -> tuple[bool, bool]:
        """Whether the input may be read and the output written inside."""
        if id(stmt) not in self.touched:
            self.keep.append(stmt)
            self.touched[id(stmt)] = self.input in reads(stmt), self.output in writes(stmt)
        return self.touched[id(stmt)]

    # loops ------------------------------------------------------------------------------------

    def loop(self, loop: For, steps: _Steps) -> _Summary:
        start, stop = _interval(loop.start, steps), _interval(loop.stop, steps)
        most = int((stop[1] - start[0]).max())
        if most <= 0:
            return _nothing(steps.count)
        has_order = loop.kind in ("serial", "unrolled", "vectorized") and steps.in_order
        both = all(self.touches(loop.body))
        if both and has_order and self.iterations + most * steps.count <= MOST_ITERATIONS:
            # Of bounds that are only roughly known, every iteration that there may be.
            return self.enumerated(loop, steps, start[0], stop[1], most)
        inner = {**steps.values, loop.var: (start[0], stop[1] - 1)}
        body = self.summary(loop.body, _Steps(inner, steps.count, steps.in_order and not both))
        if both:
            body = body.mixed()
        return body.where(start[0] < stop[1])

    def enumerated(
        self, loop: For, steps: _Steps, start: IntArray, stop: IntArray, most: int
    ) -> _Summary:
        """One iteration after the other; all loops outside are enumerated too."""
        if most * steps.count > BATCH and steps.count > 1:
            size = max(1, BATCH // most)
            parts = [
                self.enumerated(loop, steps.part(i, i + size), start[i : i + size],
                                stop[i : i + size], most)
                for i in range(0, steps.count, size)
            ]  # fmt: skip
            return _Summary(
                np.concatenate([p.read for p in parts]),
                np.concatenate([p.write for p in parts]),
                np.concatenate([p.distance for p in parts]),
            )
        total = _nothing(steps.count)
        for first in range(0, most, BATCH):
            size = min(BATCH, most - first)
            self.iterations += size * steps.count
            at = (start[:, None] + first + np.arange(size)).reshape(-1)
            values = {
                var: (np.repeat(low, size), np.repeat(high, size))
                for var, (low, high) in steps.values.items()
            }
            body = self.summary(loop.body, _Steps({**values, loop.var: (at, at)}, len(at)))
            body = body.where(at < np.repeat(stop, size))
            total = total.then(_in_sequence(body, steps.count, size))
        return total

    # statements -------------------------------------------------------------------------------

    def condition(self, stmt: If, steps: _Steps) -> _Summary:
        left, right = _interval(stmt.left, steps), _interval(stmt.right, steps)
        body = self.summary(stmt.body, steps).where(left[0] < right[1])
        if stmt.otherwise is None:
            return body
        other = self.summary(stmt.otherwise, steps).where(left[1] >= right[0])
        return _Summary(
            np.minimum(body.read, other.read),
            np.maximum(body.write, other.write),
            np.maximum(body.distance, other.distance),
        )

    def store(self, store: Store, steps: _Steps) -> _Summary:
        """All reads, then the write."""
        found = _nothing(steps.count)
        read, write = self.lowest_read(store.value, steps), found.write
        if store.buffer == self.output:
            write = _end(store.buffer, flat_address(store.buffer, store.indices), 1, steps)
        return _Summary(read, write, found.distance)

    def lowest_read(self, expr: Expr, steps: _Steps) -> IntArray:
        """The lowest byte of the input that the value needs."""
        lowest = np.full(steps.count, NEVER)
        offsets: dict[tuple[tuple[Atom, int], ...], int] = {}  # of addresses that differ in it only
        for part in subexpressions(expr):
            if isinstance(part, Load) and part.buffer == self.input:
                flat = flat_address(part.buffer, part.indices)
                offsets[flat.parts] = min(offsets.get(flat.parts, flat.offset), flat.offset)
            elif isinstance(part, Gather) and part.buffer == self.input:
                lowest = np.zeros_like(lowest)
        for parts, offset in offsets.items():
            lowest = np.minimum(lowest, _start(self.input, Term(parts, offset), steps))
        return lowest

    def call(self, call: Call, steps: _Steps) -> _Summary:
        """A microkernel accesses as its contract states; any other callee may do anything."""
        read, write = np.full(steps.count, NEVER), np.full(steps.count, -NEVER)
        pointers = [argument for argument in call.args if isinstance(argument, BufferRef)]
        for argument in call.args:
            if not isinstance(argument, BufferRef):
                read = np.minimum(read, self.lowest_read(argument, steps))
        if all(pointer.use for pointer in pointers):
            return self.boxes(pointers, read, write, steps)
        found = _callee(call)
        if found is None:
            for pointer in pointers:
                if pointer.buffer == self.input:
                    read = np.zeros_like(read)
                if pointer.buffer == self.output:
                    write = np.full_like(write, _nbytes(self.output))
            return _Summary(read, write, write - read)
        kernel, meaning = found
        body = lower_blocks(meaning.body)
        if kernel.in_order is not None and isinstance(body, For):
            for order in _orders(kernel, call, body):
                if prod(order.shape) * steps.count <= MOST_STEPS:
                    return self.ordered_call(kernel.pointers(meaning), pointers, order, steps)
        for param, pointer in zip(kernel.pointers(meaning), pointers, strict=True):
            if pointer.buffer not in (self.input, self.output):
                continue
            base = _start(pointer.buffer, flat_address(pointer.buffer, pointer.indices), steps)
            inside = _Walk(param, param).summary(body, replace(steps, in_order=False))
            if pointer.buffer == self.input:
                read = np.minimum(read, base + inside.read)
            else:
                base = _end(pointer.buffer, flat_address(pointer.buffer, pointer.indices), 0, steps)
                write = np.maximum(write, base + inside.write)
        whole = _Summary(read, write, np.full(steps.count, -NEVER))
        is_whole = kernel.reads_first and kernel.in_order is None
        return whole if is_whole else whole.mixed()

    def boxes(
        self, pointers: list[BufferRef], read: IntArray, write: IntArray, steps: _Steps
    ) -> _Summary:
        """Each pointer's box, in any order."""
        for pointer in pointers:
            first = flat_address(pointer.buffer, pointer.indices)
            corner = tuple(i + n - 1 for i, n in zip(pointer.indices, pointer.box, strict=True))
            last = flat_address(pointer.buffer, corner)
            if pointer.buffer == self.input and pointer.use != "writes":
                read = np.minimum(read, _start(pointer.buffer, first, steps))
            if pointer.buffer == self.output and pointer.use != "reads":
                write = np.maximum(write, _end(pointer.buffer, last, 1, steps))
        return _Summary(read, write, write - read)

    def ordered_call(
        self, params: tuple[Buffer, ...], pointers: list[BufferRef], order: _Order, steps: _Steps
    ) -> _Summary:
        """A microkernel that goes through its outermost loop, some steps at a time."""
        groups, inside, at_once = order.shape
        inner = order.steps(steps)
        body = order.loop.body if order.inner is None else order.inner.body
        read, write = np.full(inner.count, NEVER), np.full(inner.count, -NEVER)
        for param, pointer in zip(params, pointers, strict=True):
            if pointer.buffer not in (self.input, self.output):
                continue
            flat = flat_address(pointer.buffer, pointer.indices)
            found = _Walk(param, param).summary(body, inner)
            if pointer.buffer == self.input:
                base = np.repeat(_start(pointer.buffer, flat, steps), prod(order.shape))
                read = np.minimum(read, base + found.read)
            else:
                base = np.repeat(_end(pointer.buffer, flat, 0, steps), prod(order.shape))
                write = np.maximum(write, base + found.write)
        again = order.groups == np.roll(order.groups, 1, axis=1)
        again[:, 0] = False
        read = np.where(again[:, None], NEVER, read.reshape(-1, *order.shape))
        write = np.where(again[:, None], -NEVER, write.reshape(-1, *order.shape))
        group = _nothing(read.size // at_once)
        group = replace(
            group, read=read.min(axis=3).reshape(-1), write=write.max(axis=3).reshape(-1)
        )
        if not order.reads_first:
            return _in_sequence(group.mixed(), steps.count, groups * inside)
        # Nothing closer than the meaning itself, which takes one step at a time.
        single = replace(
            _nothing(read.size),
            read=read.swapaxes(2, 3).reshape(-1), write=write.swapaxes(2, 3).reshape(-1),
        )  # fmt: skip
        by_steps = _in_sequence(single, steps.count, prod(order.shape))
        by_groups = _in_sequence(group, steps.count, groups * inside)
        return replace(by_groups, distance=np.maximum(by_groups.distance, by_steps.distance))


def _in_sequence(body: _Summary, count: int, size: int) -> _Summary:
    """Combine `count` executions in runs of `size`."""
    read, write = body.read.reshape(count, size), body.write.reshape(count, size)
    distance = body.distance.reshape(count, size).max(axis=1)
    if size > 1:
        before = np.maximum.accumulate(write[:, :-1], axis=1)
        distance = np.maximum(distance, (before - read[:, 1:]).max(axis=1))
    return _Summary(read.min(axis=1), write.max(axis=1), distance)


def _orders(kernel: Microkernel, call: Call, body: For) -> Iterator[_Order]:
    """Return the kernel's orders, the strictest first; none if its meaning has other loops."""
    assert kernel.in_order is not None
    (loop, at_once), extent, inner = kernel.in_order, body.extent, body.body
    if body.var.name != loop or extent is None:
        return
    groups = _groups(kernel, call, extent, at_once)
    if isinstance(inner, For) and inner.var.name == kernel.inner and inner.extent is not None:
        yield _Order(body, groups, True, inner)
    yield _Order(body, groups, kernel.reads_first)


def _groups(kernel: Microkernel, call: Call, extent: int, at_once: int) -> IntArray:
    """The steps of a kernel's outermost loop that it takes together: a row for each group."""
    starts = np.arange(0, extent, at_once)
    if kernel.starts is not None:
        sizes = dict(zip(kernel.sizes, _numbers(call), strict=False))  # indices follow
        starts = np.array(kernel.starts(**sizes))
    stops = np.append(starts[1:], extent)
    groups: IntArray = np.minimum(starts[:, None] + np.arange(at_once), stops[:, None] - 1)
    return groups


def _callee(call: Call) -> tuple[Microkernel, PrimFunc] | None:
    """The microkernel and its meaning here; None if nothing is known of the callee."""
    try:
        kernel = get_microkernel(call.callee)
    except ContractError:
        return None
    numbers = _numbers(call)
    pointers = sum(isinstance(argument, BufferRef) for argument in call.args)
    if not len(call.args) - pointers == len(numbers) == len(kernel.sizes) + len(kernel.indices):
        return None
    return kernel, meaning_of(kernel, numbers)


def _numbers(call: Call) -> tuple[TermLike, ...]:
    """The numbers and indices that a kernel is given."""
    found: list[TermLike] = []
    for argument in call.args:
        if isinstance(argument, Const):
            found.append(int(argument.value))
        elif isinstance(argument, IndexValue):
            constant = argument.term.constant
            found.append(argument.term if constant is None else constant)
    return tuple(found)


# addresses ------------------------------------------------------------------------------------


def _nbytes(buffer: Buffer) -> int:
    return buffer.elements * (bits(buffer.dtype) // 8)


def _start(buffer: Buffer, flat: Term, steps: _Steps) -> IntArray:
    """The lowest byte of an access; conditions that intervals do not see may keep it inside."""
    return np.clip(_interval(flat, steps)[0] * (bits(buffer.dtype) // 8), 0, _nbytes(buffer))


def _end(buffer: Buffer, flat: Term, elements: int, steps: _Steps) -> IntArray:
    stop = _interval(flat, steps)[1] + elements
    return np.clip(stop * (bits(buffer.dtype) // 8), 0, _nbytes(buffer))


def _interval(term: Term, steps: _Steps) -> Interval:
    """Smallest and largest value for every step."""
    low = high = np.full(steps.count, term.offset, dtype=np.int64)
    for atom, coefficient in term.parts:
        least, most = _atom_interval(atom, steps)
        if coefficient < 0:
            least, most = most, least
        low, high = low + least * coefficient, high + most * coefficient
    return low, high


def _atom_interval(atom: Atom, steps: _Steps) -> Interval:
    if isinstance(atom, Var):
        return steps.values[atom]
    if isinstance(atom, FloorDiv):
        low, high = _interval(atom.dividend, steps)
        return low // atom.divisor, high // atom.divisor
    if isinstance(atom, FloorMod):
        low, high = _interval(atom.dividend, steps)
        is_whole = low // atom.divisor == high // atom.divisor
        return (
            np.where(is_whole, low % atom.divisor, 0),
            np.where(is_whole, high % atom.divisor, atom.divisor - 1),
        )
    left, right = _interval(atom.left, steps), _interval(atom.right, steps)
    if isinstance(atom, Product):
        return left[0] * right[0], left[1] * right[1]
    choose = np.minimum if isinstance(atom, Min) else np.maximum
    return choose(left[0], right[0]), choose(left[1], right[1])

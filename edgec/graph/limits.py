"""The limits of one compile: larger models are refused before anything is computed.

A damaged or hostile file may claim extents that are small to write down and too large to run: the
reference interpreter computes a golden output at compile time. No model for a small machine comes
near these limits; `--compile-budget` raises all of them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields

from edgec.errors import TooLarge
from edgec.graph.ir import Constant, Function, Node
from edgec.numerics.work import HINT, limited_work

#: Dimensions of a value: NumPy, which the reference computes with, has 64; some are for windows.
MOST_AXES = 32


@dataclass(frozen=True)
class Budget:
    """The limits of a compile, each of all nodes together unless it says otherwise.

    constant_bytes: of constants, including constants computed while the file is read. elements: of
    one value; integer arithmetic on this many takes 128 MiB for each operand. all_elements: of all
    values. macs: multiply-accumulates of one node. all_macs: of all nodes. reads: elements that the
    windows of one convolution read; the reference copies each. steps: computations that follow one
    another in the reference, about 100 us each. pairs: of values that live together, which the
    memory plan keeps apart. calls: that the reference makes, about 25 us each; large arrays count
    as several. kept_bytes: for these calls.
    """

    constant_bytes: int = 1 << 29
    elements: int = 1 << 24
    all_elements: int = 1 << 28
    macs: int = 1 << 34
    all_macs: int = 1 << 36
    reads: int = 1 << 27
    steps: int = 1 << 17
    pairs: int = 1 << 18
    calls: int = 1 << 20
    kept_bytes: int = 1 << 30

    def times(self, factor: float) -> Budget:
        """All limits this many times as large."""
        return Budget(*(int(getattr(self, field.name) * factor) for field in fields(self)))

    def work(self) -> AbstractContextManager[None]:
        """Count the work inside as one reading of a file, unless an outer one counts already."""
        return limited_work(self.calls, self.kept_bytes)


DEFAULT_BUDGET = Budget()


class Spending:
    """The work of reading a file so far: bytes of constants, and nodes that were computed."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = self._macs = self._steps = 0

    def take(self, count: int, name: str) -> None:
        """Count the bytes of a constant. Raises TooLarge."""
        self._bytes += count
        self._check(name, self._bytes, self._budget.constant_bytes, "bytes of constants")

    def evaluate(self, node: Node) -> None:
        """Count a node before it is computed. Raises TooLarge."""
        self.take(sum(value.type.nbytes for value in node.outputs), node.name)
        self.work(node.macs, node.steps, node.name)

    def work(self, macs: int, steps: int, name: str) -> None:
        """Count multiply-accumulates, and steps one after the other. Raises TooLarge."""
        self._macs += macs
        self._steps += steps
        self._check(name, self._macs, self._budget.all_macs, "multiply-accumulates")
        self._check(name, self._steps, self._budget.steps, "steps one after the other")

    def _check(self, name: str, count: int, most: int, what: str) -> None:
        if count > most:
            raise TooLarge(
                f"the model is too large: {count:,} {what} up to {name!r}; at most {most:,} are"
                " possible",
                hint=HINT,
            )


def check_limits(function: Function, budget: Budget = DEFAULT_BUDGET) -> None:
    """Raise TooLarge, with all of them listed, if nodes or inputs are beyond the limits."""
    for value in (*function.params, *(v for node in function.nodes for v in node.outputs)):
        if len(value.type.shape) > MOST_AXES:
            raise TooLarge(
                f"{value.name!r} has {len(value.type.shape)} dimensions; at most {MOST_AXES} are"
                " possible",
                hint="the file may be damaged: no operator needs more",
            )
    problems = [
        f'input "{param.name}" has {param.type.elements:,} elements'
        for param in function.params
        if param.type.elements > budget.elements
    ]
    for node in function.nodes:
        problem = _problem(node, budget)
        if problem:
            problems.append(f'{node.op.name}  node "{node.name}": {problem}')
    problems = problems or _sums(function, budget)
    if problems:
        raise TooLarge(
            f"the model is too large: {len(problems)} of its values and nodes are beyond limits",
            details=tuple(problems[:20]),
            hint=HINT,
        )


def _problem(node: Node, budget: Budget) -> str:
    for output in node.outputs:
        if output.type.elements > budget.elements:
            return f"{output.type.elements:,} elements; at most {budget.elements:,} are possible"
    macs = node.macs
    if macs > budget.macs:
        return f"{macs:,} multiply-accumulates; at most {budget.macs:,} are possible"
    products = node.op.dot_products
    if products is None or products.is_depthwise or not products.window:
        return ""
    reads = macs // node.output.type.shape[-1]
    if reads > budget.reads:
        return f"its windows read {reads:,} elements; at most {budget.reads:,} are possible"
    return ""


def _sums(function: Function, budget: Budget) -> list[str]:
    """The limits that all nodes together exceed."""
    nodes = function.nodes
    constants = {v for node in nodes for v in node.inputs if isinstance(v, Constant)}
    sums = (
        ("bytes of constants", sum(v.type.nbytes for v in constants), budget.constant_bytes),
        ("elements in all values", sum(v.type.elements for node in nodes for v in node.outputs),
         budget.all_elements),
        ("multiply-accumulates in all nodes", sum(node.macs for node in nodes), budget.all_macs),
        ("steps one after the other", sum(node.steps for node in nodes), budget.steps),
        ("pairs of values that live together", _pairs(function), budget.pairs),
    )  # fmt: skip
    return [
        f"{count:,} {what}; at most {most:,} are possible"
        for what, count, most in sums
        if count > most
    ]


def _pairs(function: Function) -> int:
    """The number of pairs of values that live together, in the given order."""
    nodes = function.nodes
    last = {value: at for at, node in enumerate(nodes) for value in node.inputs}
    last |= dict.fromkeys(function.results, len(nodes))
    made = (function.params, *(node.outputs for node in nodes))
    ends = Counter(last[value] for values in made for value in values if value in last)
    pairs = live = 0
    for at, values in enumerate(made, -1):
        pairs += live * len(values) + len(values) * (len(values) - 1) // 2
        live += sum(value in last for value in values) - ends[at]
    return pairs + sum(_pairs(body) for node in nodes for body in node.bodies)

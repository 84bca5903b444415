"""Which operators of a float function have an integer form, and whose values share parameters.

1. Products with constant weights, add, mul, PReLU by constants and average pooling: integers of
   their own parameters. A float's sum or product with a constant stays in float: in integers it
   would be rounded before, in and after the operator, instead of once.
2. A clip after such an operator is part of it: only the clip's result is quantized.
3. Operators that move or choose elements keep their inputs' parameters: views, transposes, max
   pooling, concat, pad, slice, gather, tile, resizing; also a gather of a constant's rows by
   computed indices, if its readers are integers. A choice between operands allows only zeros as a
   constant operand: other constants may be far out of the computed range. After floats these
   operators stay in float. Since the model's inputs and outputs are floats, so do slices of inputs,
   concats without integer readers, and operators that move inputs only for floats: their parts have
   separate parameters (states of another range, boxes and scores) or stay float.
4. A long short-term memory over a sequence: its hidden state is stored like its output sequence
   (`edgec.quantizer.recurrent`).
5. Values are int8, selected values int16. If one of several values that share parameters is int16,
   all are; a mean of int16 shares its input's parameters. A sum or product with an int16 operand or
   result is an int16 operator.
6. Element-wise nodes of one quantized value need no integer form: the passes turn them into a
   table. All other nodes stay in float, between a dequantize and the next quantize.
7. Products of two computed matrices have separate parameters for both operands and the result. So
   have operators of one operand (softmax, normalizations); their constants stay float. A softmax
   that only an output reads stays in float: its accuracy is worth its few instructions.
8. Operators that only compare elements (comparisons, indices of the largest) read integers that
   exist anyway; nothing is quantized for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import IntegerForm, Movement
from edgec.passes.tabulate import is_elementwise
from edgec.quantizer.recurrent import has_recurrent_form

#: Why moves of elements stay in float beside float inputs and outputs.
EDGE = "it moves floats at the model's edge"
#: Why an element-wise function has no integer form although it reads integers.
IDLE = "its result is read in float"


def shares_parameters(node: Node) -> bool:
    """Whether a node's result has the parameters of its inputs."""
    return node.integer_form is IntegerForm.SHARED


def _is_of_one(node: Node) -> bool:
    """Whether a node reads only its first operand as integers."""
    if node.integer_form is IntegerForm.SHARED:
        return not node.op.reads_alike
    return node.integer_form in (IntegerForm.PRODUCTS, IntegerForm.ONE_OPERAND)


def stored_input_indices(node: Node) -> tuple[int, ...]:
    """Which inputs a node with an integer form reads as integers, constants or not."""
    has_several = (IntegerForm.OPERANDS, IntegerForm.MATRICES, IntegerForm.ORDER)
    if not node.op.reads_alike and node.integer_form not in has_several:
        return (0,)
    return tuple(n for n in range(len(node.inputs)) if n not in node.op.steering)


def _takes_clip(node: Node) -> bool:
    """Whether the integers that a node makes can be clamped on the way."""
    makes_sums = node.integer_form in (IntegerForm.PRODUCTS, IntegerForm.MATRICES)
    is_bounded = node.op.clamps or makes_sums
    return is_bounded and not shares_parameters(node)


def has_infinity(node: Node) -> bool:
    """Whether a constant of a node is infinite somewhere, or no number: a mask."""
    constants = (value.data for value in node.inputs if isinstance(value, Constant))
    return any(data.dtype.kind == "f" and not np.isfinite(data).all() for data in constants)


def _has_numbers(node: Node) -> bool:
    """Whether a float constant of a node is not 0 everywhere."""
    constants = (value.data for value in node.inputs if isinstance(value, Constant))
    return any(data.dtype.kind == "f" and bool(data.any()) for data in constants)


def _strange_operands(node: Node) -> str | None:
    """Why a node's operands and results have no integer form; None if they have."""
    if not node.operands and not picks_of_constant(node):
        return "all its inputs are constants"
    if has_infinity(node):
        return "it reads a constant that is not a number"
    made = () if _makes_indices(node) else node.outputs
    others = {value.type.dtype for value in (*node.operands, *made)} - {"float32"}
    return f"it reads or makes {' and '.join(sorted(others))}" if others else None


def picks_of_constant(node: Node) -> bool:
    """Whether a node moves elements of a constant, by indices that are computed: an embedding."""
    is_pick = shares_parameters(node) and not node.op.reads_alike
    return is_pick and not node.operands and bool(node.activations)


def _makes_indices(node: Node) -> bool:
    """Whether it is the order of elements that decides on a node's results."""
    return node.integer_form is IntegerForm.ORDER


def is_mean(node: Node) -> bool:
    """Whether a node's integer form is a mean, which may have its input's parameters."""
    return node.integer_form is IntegerForm.MEAN


class IntegerNodes:
    """Decides for every node and value of one float function."""

    def __init__(
        self, function: Function, kept: Collection[Node] = (), wide: Collection[Value] = ()
    ) -> None:
        """kept: nodes that stay in float. wide: values of int16."""
        self.function = function
        self.kept = frozenset(kept)
        self.producers = function.producers()
        self.consumers = function.consumers()
        self._read = {*self.consumers, *function.results}
        self._sources: dict[Value, Value] = {}
        self._integer: set[Node] = set()
        self._refusals: dict[Node, str] = {}
        self._above: dict[Value, Value] = {}
        for node in function.nodes:
            self._trace(node)
            refusal = self._refusal(node)
            if refusal is None:
                self._integer.add(node)
            else:
                self._refusals[node] = refusal
        self._leave_edges()
        for node in function.nodes:
            if self._is_moving(node):
                self._join(node)
            elif node in self._integer and _makes_indices(node) and node.outputs[0].type.is_float:
                self._join_values(node.inputs[0], node.outputs[0])
        self._wide = {self.leader(value) for value in wide}
        self._join_means()

    def is_integer(self, node: Node) -> bool:
        """Whether a node becomes an operator on integers."""
        return node in self._integer

    def refusal(self, node: Node) -> str | None:
        """Why a node has no integer form; None for one that has, or is part of the one before."""
        return None if self.is_fused_clip(node) else self._refusals.get(node)

    def ends_in_clip(self, node: Node) -> bool:
        """Whether a clip that becomes part of the node is the only reader of its output."""
        if node not in self._integer or not _takes_clip(node):
            return False
        readers = self.consumers.get(node.output, [])
        is_read_once = len(readers) == 1 and node.output not in self.function.results
        return is_read_once and readers[0].op.is_limit

    def is_fused_clip(self, node: Node) -> bool:
        """Whether a node is a clip that becomes part of the operator before it."""
        above = self.producers.get(node.inputs[0]) if node.op.is_limit else None
        return above is not None and self.ends_in_clip(above)

    def in_integers(self, value: Value) -> bool:
        """Whether a value is an input, or can be had in integers without computing floats."""
        if isinstance(value, Constant):
            return False
        above = self.producers.get(value)
        if above is None:
            return value.type.dtype == "float32"
        if self.is_integer(above) or self.is_fused_clip(above):
            return True
        source = self._sources[value]
        return source is not value and self.producers.get(source) in self._integer

    def leader(self, value: Value) -> Value:
        """One value for all that share parameters with this one; itself, if none does."""
        while value in self._above:
            value = self._above[value]
        return value

    def is_wide(self, value: Value) -> bool:
        """Whether a value is stored in int16, if it is stored."""
        return self.leader(value) in self._wide

    def stored_output(self, node: Node) -> Value | None:
        """The float value that a node's integers stand for; None if it makes none."""
        if self.ends_in_clip(node):
            return self.consumers[node.output][0].output
        return node.outputs[0] if node.outputs[0].type.is_float else None

    def stored_inputs(self, node: Node) -> tuple[Value, ...]:
        """The values that a node with an integer form reads as integers, without constants."""
        found = (node.inputs[n] for n in stored_input_indices(node))
        return tuple(value for value in found if not isinstance(value, Constant))

    def stored_values(self) -> list[Value]:
        """All values that are stored in integers, in order."""
        found: dict[Value, None] = {}
        for node in self.function.nodes:
            if node in self._integer:
                made = self.stored_output(node)
                found.update(dict.fromkeys(self.stored_inputs(node)))
                found.update({} if made is None else {made: None})
        return list(found)

    def source(self, value: Value) -> Value:
        """The one value that this one is an elementwise function of, else itself."""
        return self._sources.get(value, value)

    def _trace(self, node: Node) -> None:
        """Find the one value that each output is an elementwise function of, else itself."""
        for output in node.outputs:
            self._sources[output] = output
        if not is_elementwise(node):
            return
        found = {
            self._sources.get(value, value)
            for value in node.inputs
            if not isinstance(value, Constant)
        }
        if len(found) == 1:
            self._sources[node.output] = found.pop()

    def _refusal(self, node: Node) -> str | None:
        """Why a node has no integer form, None if it has one."""
        if node in self.kept:
            return "the options keep it in float"
        if has_recurrent_form(node, self._read):
            return None
        strange = _strange_operands(node)
        if strange is not None:
            return strange
        if node.integer_form is IntegerForm.RECURRENT:
            return (
                "integers need a batch of 1, constant first states and only the sequence as output"
            )
        is_of_elements = node.integer_form is None and node.op.is_elementwise
        if is_of_elements:
            return self._without_table(node)
        return None if picks_of_constant(node) else self._misfit(node, node.operands)

    def _without_table(self, node: Node) -> str:
        """Why an element-wise function cannot be a table; if it can, the value that it reads."""
        source = self.source(node.output)
        if source is node.output:
            return f"{node.op.name} has no integer form for several computed inputs"
        if not self.in_integers(source):
            return "its inputs are in float"
        return IDLE

    def _misfit(self, node: Node, data: Sequence[Value]) -> str | None:
        """Why a node that makes one float value of these has no form on integers, None if it has
        one."""
        form = node.integer_form
        if form is None or (len(node.outputs) != 1 and not _makes_indices(node)):
            return f"{node.op.name} has no integer form"
        if node.op.is_elementwise and self.source(node.output) is not node.output:
            return self._without_table(node)
        if _is_of_one(node) and data != node.inputs[:1]:
            return "its parameters are computed"
        return self._misfit_of_values(node, data)

    def _misfit_of_values(self, node: Node, data: Sequence[Value]) -> str | None:
        if node.integer_form is IntegerForm.OPERANDS:
            return self._misfit_of_operands(node, data)
        is_free = node.integer_form in (IntegerForm.PRODUCTS, IntegerForm.MATRICES)
        enough = all if _makes_indices(node) else any
        if not is_free and not enough(map(self.in_integers, data)):
            return "its inputs are in float"
        is_far = node.op.reads_alike and bool(node.op.steering) and _has_numbers(node)
        return (
            "it selects a constant that may lie far outside the range of other values"
            if is_far
            else None
        )

    def _misfit_of_operands(self, node: Node, data: Sequence[Value]) -> str | None:
        if data != node.inputs[:1] and node.op.computes is None:
            return "its parameters are computed"
        if len(data) > 1 or any(map(self.in_integers, data)):
            return None
        return "its inputs are in float, and the next operator rounds once"

    def _leave_edges(self) -> None:
        """Remove the integer form of nodes that move floats at the function's edges, and of
        softmaxes that only outputs read.
        """
        for node in reversed(self.function.nodes):
            if node in self._integer and node.op.normalizes and not self.is_needed(node.output):
                self._take_back(node, "its result is an output, and the last bits of it matter")
            if not self._is_moving(node):
                continue
            is_split = node.op.movement is Movement.PART and self._moves_input(node)
            is_idle = node.op.movement is Movement.JOIN or self._moves_input(node)
            is_idle = is_idle or picks_of_constant(node)
            if is_split or (is_idle and not self.is_needed(node.output)):
                self._take_back(node, EDGE)
        for node in self.function.nodes:
            known = [self.in_integers(value) for value in node.operands]
            if node in self._integer and _makes_indices(node):
                if all(map(self._is_moved_input, node.operands)):
                    self._take_back(node, EDGE)
                elif not all(known):
                    self._take_back(node, "its inputs are in float")
            elif self._is_moving(node) and not (any(known) or picks_of_constant(node)):
                self._take_back(node, "its inputs are in float")

    def _take_back(self, node: Node, why: str) -> None:
        self._integer.remove(node)
        self._refusals[node] = why

    def _is_moving(self, node: Node) -> bool:
        return node in self._integer and shares_parameters(node)

    def _moves_input(self, node: Node) -> bool:
        """Whether a moving operator is on inputs, moved or not, and nothing else."""
        given = node.operands
        return shares_parameters(node) and bool(given) and all(map(self._is_moved_input, given))

    def _is_moved_input(self, value: Value) -> bool:
        above = self.producers.get(value)
        return above is None or self._moves_input(above)

    def is_needed(self, value: Value) -> bool:
        """Whether an operator computes integers of a value, moved or through a table or not."""
        return any(
            self.is_needed(node.output)
            if self._is_moving(node) or (node not in self._integer and is_elementwise(node))
            else node in self._integer and not _makes_indices(node)
            for node in self.consumers.get(value, ())
        )

    def _join(self, node: Node) -> None:
        for index in stored_input_indices(node):
            self._join_values(node.inputs[index], node.output)

    def _join_values(self, one: Value, other: Value) -> None:
        first, second = self.leader(one), self.leader(other)
        if first is not second:
            self._above[second] = first

    def _join_means(self) -> None:
        """Means with an int16 side share parameters, until none is left that does not."""
        means = [n for n in self.function.nodes if n in self._integer and is_mean(n)]
        changed = True
        while changed:
            changed = False
            for node in means:
                made = self.stored_output(node)
                assert made is not None
                sides = node.inputs[0], made
                leaders = {self.leader(value) for value in sides}
                if len(leaders) == 2 and leaders & self._wide:
                    self._join_values(*sides)
                    self._wide.add(self.leader(sides[0]))
                    changed = True

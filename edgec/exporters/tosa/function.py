"""A function of the graph IR as a module of MLIR with one function `main` in the TOSA dialect.

Integers equal the interpreter's in every bit, floats within the tolerances of their operators.
States are further inputs and outputs of `main`, after the others, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec import __version__
from edgec.errors import EdgecError
from edgec.exporters.tosa.elements import Either
from edgec.exporters.tosa.nests import write_nests
from edgec.exporters.tosa.operators import write_operator
from edgec.exporters.tosa.text import CannotSay, Tensor, TosaText, tensor_type
from edgec.graph.ir import Constant, Function, Node, Value
from edgec.loop.lowering import Lowering
from edgec.ops.op import op_of


def tosa_text(function: Function, source: str = "") -> str:
    """The text of a module.

    source: the name of the model, for the first line. Raises EdgecError with every operator, by
    its node's name, that TOSA cannot say.
    """
    writer = _Writer()
    refused: dict[str, None] = {}
    for value in function.params:
        if value.type.extents is not None:
            refused[f"input {value.name}: its sizes are open"] = None
        writer.take(value, refused)
    for node in function.nodes:
        writer.write(node, refused)
    if refused:
        raise EdgecError(
            f"{source or function.name} cannot be written as TOSA",
            details=tuple(refused),
            hint="edgec build compiles it; quantize it in int8, or fix its sizes, for TOSA",
        )
    results = [writer.operand(value) for value in function.results]
    types = ", ".join(result.type for result in results)
    given = ", ".join(f"%x{n}: {writer.values[v].type}" for n, v in enumerate(function.params))
    names = ", ".join(result.name for result in results)
    lines = [
        f"// {_printable(source)}: TOSA 1.0, written by edgec {__version__}",
        *(f"// %x{n} is {_printable(value.name)}" for n, value in enumerate(function.params)),
        "module {",
        f"  func.func @main({given}) -> ({types}) {{",
        *(f"    {line}" for line in writer.out.lines),
        f"    return {names} : {types}",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


class _Writer:
    """The text so far, and the name of each value in it."""

    def __init__(self) -> None:
        self.out = TosaText()
        self.values: dict[Value, Tensor] = {}

    def take(self, value: Value, refused: dict[str, None]) -> None:
        """A parameter."""
        try:
            tensor_type(value.type.shape, value.type.dtype)
        except CannotSay as problem:
            refused[f"input {value.name}: {problem.message}"] = None
        self.values[value] = Tensor(f"%x{len(self.values)}", value.type.shape, value.type.dtype)

    def operand(self, value: Value) -> Tensor:
        """The name of a value; a constant is written where it is first read."""
        if isinstance(value, Constant) and value not in self.values:
            tensor_type(value.type.shape, value.type.dtype)
            self.values[value] = self.out.constant(value.data)
        return self.values[value]

    def write(self, node: Node, refused: dict[str, None]) -> None:
        """The operations of a node; one that cannot be said is noted, and its results assumed."""
        self.out.comment(f"{node.name}: {node.op.name}")
        try:
            results = self._results(node)
        except CannotSay as problem:
            refused[f"{node.op.name} {node.name}: {problem.message}"] = None
            results = [Tensor("%?", v.type.shape, v.type.dtype) for v in node.outputs]
        self.values.update(zip(node.outputs, results, strict=True))

    def _results(self, node: Node) -> Sequence[Tensor]:
        if node.bodies:
            raise CannotSay("control flow")
        for value in (*node.inputs, *node.outputs):
            tensor_type(value.type.shape, value.type.dtype)
        if len(node.outputs) == 1:
            made = write_operator(self.out, node, [self.operand(each) for each in node.inputs])
            if made is not None:
                return [made]
        return self._nests(node)

    def _nests(self, node: Node) -> list[Tensor]:
        """Write the operator's loops as operations on index grids."""
        target = Lowering(node.op.name)
        operands = [
            value
            if isinstance(value, Constant)
            else target.input(f"x{number}", value.type.shape, value.type.dtype)
            for number, value in enumerate(node.inputs)
        ]
        names = [f"y{number}" for number, _ in enumerate(node.outputs)]
        target.targets = tuple(
            target.output(name, value.type.shape, value.type.dtype)
            for name, value in zip(names, node.outputs, strict=True)
        )
        target.target = target.targets[0]
        op_of(node).lower(node, target, operands)
        buffers: dict[str, Either] = dict(target.tables)
        for number, value in enumerate(node.inputs):
            if not isinstance(value, Constant):
                buffers[f"x{number}"] = self.operand(value)
        keeps_bits = not any(value.type.is_float for value in node.outputs)
        write_nests(self.out, target.definition, buffers, keeps_bits=keeps_bits)
        made = [buffers[name] for name in names]
        return [each if isinstance(each, Tensor) else self.out.constant(each) for each in made]

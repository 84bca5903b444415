"""A row of a table of element-wise operators, and the operator class made from it.

A row defines one result from one element of each operand. The type relation, loops, interpreter,
importers and tests (`tests/ops/test_elementwise.py`) are derived from it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, Operator, get_op, register
from edgec.graph.traits import Arithmetic, IntegerForm, Interval, StoredAs
from edgec.graph.traits import Operand as Known
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.dtype import is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Operand
from edgec.ops.activation import append_activation
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.intervals import by_corners
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Importer, Op, RawNode, from_onnx, from_tflite, loaded_op

FLOAT = ("float32",)
FLOATS = ("float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")


def is_plain_integer(type_: TensorType) -> bool:
    """Integers that stand for themselves."""
    return type_.dtype in INTEGERS and type_.quant is None


@dataclass(frozen=True)
class Row:
    """One element-wise operator.

    function: the result of loop values, one for each operand, and of the parameters by name.
    dtypes: allowed dtypes of the operands, which must be equal except for those in `fixed`. result:
    the result's dtype, "" for the operands' dtype. stored: quantized operands are allowed if all
    have one quantization; the result has it too. integer_form, of_stored: of floats, how the
    quantizer treats it, and the operator on stored integers. computes: see `Operator`. onnx, since,
    tflite: how the formats name it. when: the condition; of several rows of one name and dtype, the
    first that holds is taken. variadic: the formats allow any number of operands. parameters: names
    of ONNX's attributes, which are numbers, and their defaults, each an int or a float as the
    standard's. bounded: the tolerance is absolute, also near zero. written: further attributes of
    the ONNX node. write: exports the node where these do not suffice.
    """

    name: str
    meaning: str
    function: Callable[..., Operand]
    dtypes: tuple[str, ...] = FLOAT
    onnx: str = ""
    tflite: str = ""
    since: int = 1
    tolerance: float = 0.0
    result: str = ""
    stored: bool = False
    integer_form: IntegerForm | None = None
    of_stored: str = ""
    computes: Arithmetic | None = None
    variadic: bool = False
    bounded: bool = False
    fixed: Mapping[int, str] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)
    when: Callable[[RawNode], bool] = lambda raw: True
    written: Mapping[str, str | int] = field(default_factory=dict)
    write: Callable[[OnnxGraph, Node], None] | None = None

    @property
    def operands(self) -> int:
        """Number of operands."""
        return len(inspect.signature(self.function).parameters) - len(self.parameters)


@dataclass(frozen=True)
class RowAttrs:
    """The parameters of a row's operator; each row with parameters has a subclass of its own."""

    row: ClassVar[str]

    def __reduce__(self) -> tuple[Callable[..., RowAttrs], tuple[object, ...]]:
        """Pickled by the row's name."""
        values = (getattr(self, parameter.name) for parameter in dataclasses.fields(self))
        return _attributes_of, (self.row, *values)


def _attributes_of(name: str, *values: float) -> RowAttrs:
    made: RowAttrs = loaded_op(name).attrs_class(*values)
    return made


class RowOp(Op[Any]):
    """The operator of a row; each row has a subclass of its own."""

    row: Row

    @property
    def reads_alike(self) -> bool:
        """Both operands share one quantization if the row chooses one of them."""
        return self.integer_form is IntegerForm.SHARED

    def integer_op(self, dtype: str) -> Operator[Any]:
        """The operator on stored integers that the row names, or this one."""
        return get_op(self.row.of_stored or self)

    def attrs_for_integers(self, attrs: Any, inputs: Types, result: StoredAs) -> Any:
        """The attributes of the operator on stored integers; it keeps its own bounds, if any."""
        if self.integer_form is not IntegerForm.OPERANDS:
            return attrs
        made = self.integer_op(result.dtype).attrs_class
        return made(result.quant, result.minimum, result.maximum)

    def scale(self, attrs: Any, *scales: float) -> float:
        """The largest result, or one where nothing keeps the digits of small results."""
        return 1.0 if self.row.bounded else super().scale(attrs, *scales)

    def infer(self, attrs: Any, *inputs: TensorType) -> tuple[TensorType, ...]:
        row = self.row
        if len(inputs) != row.operands:
            raise TypeMismatch(f"{self.name} has {row.operands} operands, not {len(inputs)}")
        fixed = {n: x for n, x in enumerate(inputs) if n in row.fixed}
        free = [x for n, x in enumerate(inputs) if n not in row.fixed]
        first = free[0]
        for position, x in fixed.items():
            if x.dtype != row.fixed[position]:
                raise TypeMismatch(f"{self.name}: operand {position} must be {row.fixed[position]}")
        if first.dtype not in row.dtypes and not (row.stored and first.quant is not None):
            raise TypeMismatch(f"{self.name} needs {' or '.join(row.dtypes)}, not {first}")
        if any((x.dtype, x.quant) != (first.dtype, first.quant) for x in free):
            raise TypeMismatch(
                f"{self.name} of {' and '.join(map(str, free))}: their types must be equal"
            )
        if first.quant is not None and not (row.stored and first.quant.per_tensor):
            what = "quantization per tensor" if row.stored else "operands without quantization"
            raise TypeMismatch(f"{self.name} needs {what}, not {first}")
        shape = broadcast_shape(self.name, inputs)
        return (TensorType(shape, row.result) if row.result else first.with_shape(shape),)

    def interval(
        self, attrs: Any, operands: Sequence[Known], output: TensorType
    ) -> Interval | None:
        """Rows on stored integers alone are monotonic in both operands."""
        is_known = self.row.stored and not self.row.fixed
        return by_corners(self, attrs, operands, output) if is_known else None

    @property
    def has_onnx(self) -> bool:
        """Whether the row says how it is written."""
        return bool(self.row.onnx or self.row.write)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ONNX's operator with the row's parameters, or the row's own `write`."""
        if self.row.write is not None:
            self.row.write(out, node)
            return
        inputs, output, _ = out.tensors_of(node)
        parameters = {name: getattr(node.attrs, name) for name in self.row.parameters}
        out.emit(self.row.onnx, inputs, output, **parameters, **self.row.written)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        tensors = operand_tensors(target, inputs)
        parameters = {name: getattr(node.attrs, name) for name in self.row.parameters}

        def element(*at: Any) -> Operand:
            if len(tensors) == 1:
                return self.row.function(tensors[0][at], **parameters)
            operands = (x[broadcast_index(x.shape, at)] for x in tensors)
            return self.row.function(*operands, **parameters)

        output = node.output.type
        return target.compute("element", output.shape, output.dtype, element)


#: Rows by format and the format's name, in the order of their tables.
_BY_KIND: dict[tuple[str, str], list[Row]] = {}


#: How TFLite's operators of rows are imported where their operands are quantized.
OF_STORED: dict[str, Callable[[GraphBuilder, RawNode], Value]] = {}


def add_rows(rows: Sequence[Row]) -> None:
    """Register an operator for each row, and how the formats name it."""
    for row in rows:
        camel = "".join(part.capitalize() for part in row.name.split("_"))
        attrs: type = NoAttrs
        if row.parameters:
            fields = [(name, type(default), default) for name, default in row.parameters.items()]
            attrs = dataclasses.make_dataclass(
                f"{camel}Attrs", fields, frozen=True, bases=(RowAttrs,), namespace={"row": row.name}
            )
        fusion = Fusion.ELEMENTWISE if row.operands == 1 else Fusion.BROADCAST
        members = {
            "__doc__": row.meaning, "name": row.name, "row": row, "attrs_class": attrs,
            "fusion": fusion, "tolerance": row.tolerance, "onnx_since": row.since,
            "integer_form": row.integer_form, "computes": row.computes,
            "steering": tuple(row.fixed),
        }  # fmt: skip
        register(type(camel, (RowOp,), members))
        for format_name, kind in (("onnx", row.onnx), ("tflite", row.tflite)):
            known = _BY_KIND.setdefault((format_name, kind), [])
            known.append(row)
            if kind and len(known) == 1:
                named = from_onnx(kind, row.since) if format_name == "onnx" else from_tflite(kind)
                named(_importer(known))


def _importer(rows: Sequence[Row]) -> Importer:
    """Takes the first of the rows that has the node's dtype and form."""

    def run(builder: GraphBuilder, raw: RawNode) -> Value:
        free = next(n for n in range(len(raw.inputs) + 1) if n not in rows[0].fixed)
        x = raw.operand(free).type
        if x.quant is not None and raw.kind in OF_STORED:
            return OF_STORED[raw.kind](builder, raw)
        return import_row(builder, raw, _chosen(rows, raw, x).name)

    return run


def _chosen(rows: Sequence[Row], raw: RawNode, x: TensorType) -> Row:
    known = [row for row in rows if x.dtype in row.dtypes or (row.stored and x.is_quantized)]
    if not known:
        dtypes = dict.fromkeys(dtype for row in rows for dtype in row.dtypes)
        raise ImportFailed(f"{x.dtype} input: only {', '.join(dtypes)} is supported yet")
    chosen = next((row for row in known if row.when(raw)), None)
    if chosen is None:
        raise ImportFailed(f"this form of it is not supported for {x.dtype}")
    return chosen


def import_row(builder: GraphBuilder, raw: RawNode, name: str) -> Value:
    """A node of ONNX or TFLite as the operator of this row, with its fused activation."""
    row = _row(name)
    operands = raw.operands()
    attrs = _attributes(name, raw)
    if row.variadic and len(operands) != row.operands:
        return _chain(builder, raw, name, operands)
    if len(operands) != row.operands:
        raise ImportFailed(f"{len(operands)} inputs, {row.operands} are needed")
    if is_float(row.result or operands[-1].type.dtype):
        return append_activation(builder, raw, name, operands, attrs)
    if raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed(f"a fused activation of {operands[-1].type.dtype} is not supported")
    return builder.op(name, operands, attrs, name=raw.name)


def _row(name: str) -> Row:
    return next(row for rows in _BY_KIND.values() for row in rows if row.name == name)


def _attributes(name: str, raw: RawNode) -> Any:
    row = _row(name)
    values = {key: type(value)(raw.attribute(key, value)) for key, value in row.parameters.items()}
    return get_op(name).attrs_class(**values)


def _chain(builder: GraphBuilder, raw: RawNode, op: str, operands: Sequence[Value]) -> Value:
    """Folds the operands from the left; a single operand unchanged."""
    total = operands[0]
    for number, operand in enumerate(operands[1:], 1):
        name = raw.name if number == len(operands) - 1 else f"{raw.name}/{number - 1}"
        total = builder.op(op, [total, operand], name=name, sources=(raw.name,))
    return total

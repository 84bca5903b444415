"""ONNX to graph IR."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import edgec.ops
from edgec.errors import BadNode, EdgecError, ImportFailed, TooLarge
from edgec.frontends.imported import folded, imported, mentions, named, require_open
from edgec.frontends.onnx_constants import computed, dense
from edgec.frontends.onnx_file import read_onnx
from edgec.frontends.onnx_functions import function_body, function_key
from edgec.frontends.onnx_inputs import example_shape, stored_inputs
from edgec.frontends.onnx_versions import STANDARD, opset_of, require_known, with_known_opset
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Module, Value
from edgec.graph.limits import DEFAULT_BUDGET, Budget, Spending
from edgec.graph.provenance import Origin
from edgec.graph.types import DTYPES, Array, Quant, TensorType
from edgec.numerics.fixed_point import Rounding
from edgec.ops.bodies import Body, given_value
from edgec.ops.op import (
    MALFORMED_NODE,
    Importer,
    NotConstant,
    RawNode,
    find_importer,
    importer_kinds,
)

#: Larger tensors than this cannot be meant for a small machine; a corrupt file may claim them.
MAX_TENSOR_BYTES = 1 << 30

#: The rounding of each `match`.
_ROUNDING: dict[str, Rounding] = {"onnx": "onnx", "tflm": "tflm"}
#: The work of a node in a body, plus one for each body around it: functions that call others may
#: stand for billions of nodes.
_STEPS_OF_NODE = 8
#: Bodies in bodies: PyTorch writes one for each level of modules.
_MOST_INSIDE = 64
#: The alternative attributes of a Constant, and their dtypes; a tensor has its own.
_CONSTANTS = {"value": None, "sparse_value": None, "value_float": "float32",
              "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}  # fmt: skip
#: Not computed at import even where all inputs are constants: `fuse_qdq` looks for it.
KEPT = ("QuantizeLinear", "DequantizeLinear")


def import_onnx(
    path: Path,
    *,
    match: str | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, float | Array] | None = None,
    budget: Budget = DEFAULT_BUDGET,
) -> Module:
    """Read an ONNX file into a module whose `main` has the file's inputs and outputs.

    match: overrides the `rounding` of every requantize (default `onnx`). shapes: of inputs with
    symbolic extents, by name; by default only the first extent may be symbolic (it is 1). values:
    of inputs that are always this number or array, by name: constants, which decide branches and
    shapes. Raises ImportFailed for a file that is not ONNX, is damaged, has other symbolic extents,
    or uses operators that no importer knows (all are listed).
    """
    if match not in (None, *_ROUNDING):
        raise ImportFailed(
            f"--match {match} is not for ONNX files", hint=f"use {' or '.join(_ROUNDING)}"
        )
    model = with_known_opset(read_onnx(path), path)
    edgec.ops.load()
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opsets[""] = opset_of(model)
    rounding = _ROUNDING[match or "onnx"]
    importer = _GraphImporter(path, opsets, rounding, shapes or {}, values or {}, budget)
    importer.functions = {function_key(each): each for each in model.functions}
    function = importer.run(model.graph)
    return Module({"main": function}, source=path.name, format="onnx")


def dimension_names(path: Path) -> dict[tuple[str, int], str]:
    """The file's names of open dimensions of its inputs, by input and axis."""
    return {
        (entry.name, axis): dimension.dim_param
        for entry in read_onnx(path).graph.input
        for axis, dimension in enumerate(entry.type.tensor_type.shape.dim)
        if dimension.dim_param
    }


class _GraphImporter:
    """Imports one graph node by node, collecting what is unsupported."""

    def __init__(
        self,
        path: Path,
        opsets: Mapping[str, int],
        rounding: Rounding,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, float | Array],
        budget: Budget,
    ) -> None:
        self.path = path
        self.spending = Spending(budget)
        self.made = Spending(budget)  # constants that importers derive from the file's
        self.shapes = shapes
        self.fixed = values
        self.opset = opsets[""]
        self.opsets = opsets
        self.rounding = rounding
        self.builder = GraphBuilder()
        self.values: dict[str, Value] = {}
        self.wanted: set[str] = set()
        self.problems: list[str] = []
        self.outer: _GraphImporter | None = None
        self.captured: dict[Value, Value] = {}
        self.declared: dict[str, Any] = {}
        self.lacking: dict[str, str] = {}  # by output that a node does not make, which and why
        self.functions: dict[tuple[str, ...], Any] = {}
        self.inside: tuple[str, ...] = ()  # the operators whose bodies are being imported

    def run(self, graph: Any) -> Any:
        self.initializers(graph)
        stored = stored_inputs(graph, self.values)
        self.inputs([entry for entry in graph.input if entry.name not in self.values], stored)
        self.nodes(graph)
        if self.problems:
            count = len(self.problems)
            failure = ImportFailed(
                f"{count} operator{'s' if count > 1 else ''} of {self.path.name}"
                f" {'are' if count > 1 else 'is'} not supported",
                details=tuple(self.problems),
                hint=f"--input-value {min(self.wanted)}=… makes an input a constant"
                if self.wanted
                else "`edgec ops` lists the supported operators; --custom-ops adds your own",
            )
            failure.inputs = tuple(sorted(self.wanted))
            raise failure
        results = []
        for entry in graph.output:
            if entry.name not in self.values:
                raise ImportFailed(
                    f"{self.path.name}: output {entry.name!r} is never computed"
                    + self.lacking.get(entry.name, "")
                )
            results.append(self.values[entry.name])
        return self.builder.finish(results)

    def inputs(self, entries: list[Any], stored: Mapping[str, Quant]) -> None:
        strange = {*self.shapes, *self.fixed} - {entry.name for entry in entries}
        if strange:
            raise ImportFailed(
                f"{self.path.name} has no input {min(strange)!r}",
                details=tuple(f"input {entry.name}" for entry in entries),
            )
        for entry in entries:
            type_ = self.input_type(entry)
            if entry.name in stored and not type_.is_float:
                type_ = replace(type_, quant=stored[entry.name])
            origin = Origin(entry.name, type_.shape)
            self.values[entry.name] = (
                self.builder.constant(entry.name, self.fixed_input(entry.name, type_),
                                      origin=origin)
                if entry.name in self.fixed
                else self.builder.param(entry.name, type_, origin)
            )  # fmt: skip

    def fixed_input(self, name: str, type_: TensorType) -> Array:
        """The one number that an input always is, in its shape and dtype; or its elements."""
        number = self.fixed[name]
        if isinstance(number, np.ndarray):
            if (number.shape, number.dtype.name) != (type_.shape, type_.dtype):
                raise ImportFailed(
                    f"{self.path.name}: input {name!r} is {type_}, the given array is not"
                )
            return number
        with np.errstate(over="ignore", invalid="ignore"):
            data = np.full(type_.shape, number).astype(type_.dtype)
        if data.size and not np.isclose(float(data.flat[0]), number, rtol=1e-6, atol=0):
            raise ImportFailed(
                f"{self.path.name}: input {name!r} is {type_.dtype}, which {number:g} is not"
            )
        return data

    def initializers(self, graph: Any) -> None:
        found = [(tensor.name, self.array(tensor)) for tensor in graph.initializer]
        found += [(each.values.name, self.sparse(each)) for each in graph.sparse_initializer]
        for name, data in found:
            origin = Origin(name, tuple(data.shape))
            self.values[name] = self.builder.constant(name, data, origin=origin)

    def nodes(self, graph: Any, prefix: str = "") -> None:
        self.declared.update((entry.name, entry) for entry in (*graph.value_info, *graph.output))
        for number, node in enumerate(graph.node):
            self.node(node, node.name or f"{prefix}{node.op_type}#{number}")

    def find(self, name: str) -> Value | None:
        """The value of a name; an outer value that a body reads becomes a parameter."""
        if name not in self.values and self.outer is not None:
            value = self.outer.find(name)
            if isinstance(value, Constant):
                self.values[name] = self.builder.constant(
                    value.name, value.data, value.type.quant, value.origin
                )
            elif value is not None:
                if value not in self.captured:
                    self.captured[value] = self.builder.param(value.name, value.type, value.origin)
                self.values[name] = self.captured[value]
        return self.values.get(name)

    def node(self, node: Any, name: str) -> None:
        is_standard = node.domain in STANDARD
        kind = node.op_type if is_standard else f"{node.domain}.{node.op_type}"
        opset = self.opset if is_standard else self.opsets.get(node.domain, 0)
        if kind == "Constant":
            self.constant_node(node, name)
            return
        if self.lacks_input(node, name):
            return
        importer = find_importer("onnx", kind, opset)
        graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
        raw = RawNode(
            kind=kind,
            name=name,
            attributes={a.name: self.attribute(a) for a in node.attribute if a.name not in graphs}
            if importer
            else {},
            inputs=tuple(self.values[i] if i else None for i in node.input),
            outputs=tuple(node.output),
            output_types=tuple(map(self.declared_type, node.output)),
            opset=opset,
            rounding=self.rounding,
            read_body=lambda body, given: self.read_body(name, graphs, body, given),
            inline=lambda body, values: self.inline(name, graphs, body, values),
        )
        first = len(self.builder.nodes)
        try:
            made = self.imported(node, raw, importer)
        except TooLarge:
            raise
        except EdgecError as error:
            self.failed(f"{kind}  node {name!r}", error)
            return
        except MALFORMED_NODE as error:
            self.problems.append(f"{kind}  node {name!r}: it is malformed ({error})")
            return
        for output in node.output[len(made) :]:
            self.lacking[output] = f": node {name!r} makes {len(made)} values"
        self.name_values(node.output, made, first)

    def name_values(self, names: Sequence[str], made: Sequence[Value], first: int) -> None:
        """Name the results of the nodes from `first` on as in the file."""
        uses = mentions(self.builder, first)
        for name, value in zip(names, made, strict=False):
            self.values[name] = named(self.builder, value, name, uses)

    def lacks_input(self, node: Any, name: str) -> bool:
        """Whether a node reads an unsupported one's result; ImportFailed if nothing computes it."""
        missing = [i for i in node.input if i and self.find(i) is None]
        if missing and not self.problems:
            raise ImportFailed(
                f"{self.path.name}: node {name!r} reads {missing[0]!r}, which nothing before"
                f" it computes{self.lacking.get(missing[0], '')}",
                hint="the graph is cyclic or damaged",
            )
        return bool(missing)

    def failed(self, what: str, error: EdgecError) -> None:
        """Record an unsupported node, and the inputs that would decide it."""
        if isinstance(error, NotConstant) and error.value is not None and not self.outer:
            self.wanted.update(self.deciding(error.value))
        self.problems.append(f"{what}: {error.message}")

    def deciding(self, value: Value) -> set[str]:
        """The names of the model's inputs that a value is computed from."""
        found, seen = {value}, set[str]()
        for node in reversed(self.builder.nodes):
            if found.intersection(node.outputs):
                found.update(node.inputs)
        for param in found.intersection(self.builder.params):
            seen.add(param.origin.tensor if param.origin else param.name)
        return seen

    def imported(self, node: Any, raw: RawNode, importer: Importer | None) -> tuple[Value, ...]:
        """The outputs of a node: by its importer, of constants, or by its body in the standard."""
        is_known = raw.kind not in KEPT and all(
            operand is None or isinstance(operand, Constant) for operand in raw.inputs
        )
        failure: Exception = ImportFailed(_not_supported(raw.kind, raw.opset))
        first = len(self.builder.nodes)
        if importer is not None:
            try:
                return self.by_importer(importer, raw)
            except (TooLarge, BadNode):
                raise
            except EdgecError as error:
                failure = error
                del self.builder.nodes[first:]
        has_body = any(a.HasField("g") for a in node.attribute)
        if is_known and not has_body and node.domain in STANDARD:
            arrays = [o.data if isinstance(o, Constant) else None for o in raw.inputs]
            try:
                results = computed(node, self.opset, arrays, self.spending)
            except TooLarge:
                raise
            except ImportFailed as refusal:
                raise (refusal if importer is None else failure) from None
            self.spending.take(sum(result.nbytes for result in results), raw.name)
            return tuple(
                self.builder.constant(output, result, origin=Origin(output, result.shape))
                for output, result in zip(filter(None, node.output), results, strict=True)
            )
        is_inside = raw.kind in self.inside
        inner = f"{raw.kind} itself" if is_inside else self.by_body(node, raw)
        if inner is None:
            return ()
        if importer is None and inner:
            raise ImportFailed(f"{raw.kind} is not supported: it is made of {inner}")
        raise failure

    def by_importer(self, importer: Importer, raw: RawNode) -> tuple[Value, ...]:
        """The values that an operator's importer returns, folded if constant."""
        if "." not in raw.kind:  # of another domain it has its name
            require_known(raw.kind, self.opset)
        first = len(self.builder.nodes)
        made = imported(self.builder, raw, importer)
        if any(v.type.nbytes > MAX_TENSOR_BYTES for n in self.builder.nodes[first:]
               for v in n.outputs):  # fmt: skip
            raise ImportFailed("it makes more than 1 GiB")
        given = set(raw.inputs)
        for node in self.builder.nodes[first:]:
            new = (v for v in node.inputs if isinstance(v, Constant) and v not in given)
            self.made.take(sum(value.type.nbytes for value in new), raw.name)
        require_open(self.builder, raw.inputs, made)
        return made if raw.kind in KEPT else folded(self.builder, made, first, self.spending)

    def by_body(self, node: Any, raw: RawNode) -> str | None:
        """Import an operator by its body, if there is no other way."""
        types = [None if operand is None else operand.type for operand in raw.inputs]
        attributes = {a.name: self.attribute(a) for a in node.attribute if not a.HasField("g")}
        found = function_body(node, raw.kind, self.opset, types, raw.name, attributes,
                              self.functions)  # fmt: skip
        if found is None:
            return ""
        before, outer, first = self.problems, self.opset, len(self.builder.nodes)
        self.opset, nodes = found
        self._spend_on_body(len(nodes), raw.name)
        self.problems, self.inside = [], (*self.inside, raw.kind)
        try:
            for inner in nodes:
                self.node(inner, inner.name)
            failed = self.problems[0] if self.problems else None
        finally:
            self.problems, self.opset, self.inside = before, outer, self.inside[:-1]
        if failed is not None:
            del self.builder.nodes[first:]
            for output in node.output:
                self.values.pop(output, None)
        return failed

    def _spend_on_body(self, nodes: int, name: str) -> None:
        """Count the nodes of a body. Raises TooLarge, also where it lies in too many others."""
        depth = len(self.inside)
        if depth == _MOST_INSIDE:
            raise TooLarge(
                f"the model is too large: more than {depth} functions call each other at {name!r}",
                hint="the file may be damaged; inline some of its functions",
            )
        self.spending.work(0, (_STEPS_OF_NODE + depth) * nodes, name)

    def read_body(
        self, node: str, graphs: Mapping[str, Any], name: str, given: Sequence[TensorType | Array]
    ) -> Body:
        """A body of a node, in a builder of its own."""
        inner = copy(self)
        inner.outer, inner.builder = self, self.builder.inner(name)
        inner.values, inner.captured, inner.problems, inner.declared = {}, {}, [], {}
        results = inner.graph(
            node, graphs, name, [partial(given_value, inner.builder, given=each) for each in given]
        )
        if inner.problems:
            raise ImportFailed(f"in its {name}: {'; '.join(inner.problems)}")
        return Body(inner.builder, list(results), inner.captured)

    def inline(
        self, node: str, graphs: Mapping[str, Any], name: str, values: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Import the nodes of a body instead of its node."""
        outside, problems = dict(self.values), self.problems
        self.problems = []
        try:
            results = self.graph(node, graphs, name, [partial(_known, value) for value in values])
            if self.problems:
                raise ImportFailed(f"in its {name}: {'; '.join(self.problems)}")
        finally:
            self.values, self.problems = outside, problems
        return results

    def graph(
        self,
        node: str,
        graphs: Mapping[str, Any],
        name: str,
        params: Sequence[Callable[[str], Value]],
    ) -> tuple[Value, ...]:
        """A node's graph as a body; `params` has the value of each of its inputs."""
        graph = graphs.get(name)
        if graph is None or len(graph.input) != len(params):
            raise ImportFailed(f"its {name} is not one graph with {len(params)} inputs")
        self.initializers(graph)
        for entry, param in zip(graph.input, params, strict=True):
            self.values[entry.name] = param(entry.name)
        self.nodes(graph, f"{node}/")
        results = [(entry.name, self.find(entry.name)) for entry in graph.output]
        for missing, value in results:
            if not self.problems and value is None:
                raise ImportFailed(f"its output {missing!r} is never computed")
        return tuple(value for _, value in results if value is not None)

    def declared_type(self, name: str) -> TensorType | None:
        """The type of a value, if the file declares it with fixed extents."""
        entry = self.declared.get(name)
        if entry is None or not entry.type.tensor_type.HasField("shape"):
            return None
        is_fixed = all(d.dim_value > 0 for d in entry.type.tensor_type.shape.dim)
        return self.input_type(entry) if is_fixed else None

    def constant_node(self, node: Any, name: str) -> None:
        what = f"Constant  node {name!r}"
        names = [attribute.name for attribute in node.attribute]
        if len(names) != 1 or names[0] not in _CONSTANTS:
            self.problems.append(f"{what}: attribute {' and '.join(names) or 'value is absent'}")
            return
        try:
            value = self.attribute(node.attribute[0])
            data = np.asarray(value, _CONSTANTS[names[0]])
            if data.dtype.name not in DTYPES:
                raise ImportFailed(f"its value is {value!r}")
        except TooLarge:
            raise
        except (EdgecError, ValueError, TypeError) as error:
            self.problems.append(f"{what}: {getattr(error, 'message', error)}")
            return
        origin = Origin(node.output[0], tuple(data.shape))
        self.values[node.output[0]] = self.builder.constant(node.output[0], data, origin=origin)

    def array(self, tensor: Any) -> Array:
        from onnx import numpy_helper

        count = 1
        for extent in tensor.dims:
            count *= max(int(extent), 0)
        if any(extent < 0 for extent in tensor.dims) or count * 8 > MAX_TENSOR_BYTES * 8:
            raise ImportFailed(f"{self.path.name}: tensor {tensor.name!r} claims {count} elements")
        try:
            data = np.array(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as error:
            raise ImportFailed(
                f"{self.path.name}: tensor {tensor.name!r} is damaged: {error}"
            ) from None
        self.spending.take(data.nbytes, tensor.name)
        if data.dtype.name in ("int4", "uint4"):
            data = data.astype("uint8" if data.dtype.name == "uint4" else "int8")
        if data.dtype.name not in DTYPES:
            raise ImportFailed(
                f"{self.path.name}: tensor {tensor.name!r} has dtype {data.dtype.name}"
            )
        return data

    def sparse(self, tensor: Any) -> Array:
        """A SparseTensorProto, dense."""
        values, indices = self.array(tensor.values), self.array(tensor.indices)
        self.spending.take(math.prod(tensor.dims) * values.itemsize, tensor.values.name)
        try:
            return dense(tuple(tensor.dims), values, indices)
        except ValueError as error:
            raise ImportFailed(
                f"{self.path.name}: sparse tensor {tensor.values.name!r} is damaged: {error}"
            ) from None

    def attribute(self, attribute: Any) -> Any:
        from onnx import AttributeProto, helper

        if attribute.type == AttributeProto.TENSOR:
            return self.array(attribute.t)
        if attribute.type == AttributeProto.SPARSE_TENSOR:
            return self.sparse(attribute.sparse_tensor)
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise ImportFailed(f"{self.path.name}: attribute {attribute.name} is a graph")
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (int, float)):
            return value
        if not isinstance(value, Iterable):
            raise ImportFailed(
                f"{self.path.name}: attribute {attribute.name!r} has no value that edgec can read"
            )
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)

    def dtype_of(self, entry: Any) -> str:
        """The dtype of an input."""
        from onnx import helper

        try:
            number = entry.type.tensor_type.elem_type
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number)).name
        except (KeyError, TypeError):
            dtype = "?"
        if dtype not in DTYPES:
            raise ImportFailed(
                f"{self.path.name}: input {entry.name!r} is of type {_name_of(entry.type)};"
                " inputs are tensors of numbers"
            )
        return dtype

    def input_type(self, entry: Any) -> TensorType:
        tensor, dtype = entry.type.tensor_type, self.dtype_of(entry)
        shape = []
        given = self.shapes.get(entry.name)
        if given is not None and not tensor.HasField("shape"):
            return TensorType(tuple(given), dtype)
        if given is not None and len(given) != len(tensor.shape.dim):
            raise ImportFailed(
                f"{self.path.name}: input {entry.name!r} has {len(tensor.shape.dim)} dimensions,"
                f" {len(given)} were given"
            )
        for position, dimension in enumerate(tensor.shape.dim):
            fixed = dimension.dim_value if dimension.HasField("dim_value") else 0
            if given is not None and given[position] != fixed > 0:
                raise ImportFailed(
                    f"{self.path.name}: dimension {position} of input {entry.name!r} is {fixed},"
                    f" {given[position]} was given"
                )
            if given is not None:
                shape.append(given[position])
            elif dimension.HasField("dim_value") and dimension.dim_value > 0:
                shape.append(int(dimension.dim_value))
            elif position == 0:
                shape.append(1)  # a symbolic batch: one sample at a time on a small machine
            else:
                raise ImportFailed(
                    f"{self.path.name}: input {entry.name!r} has the symbolic dimension"
                    f" {dimension.dim_param or position!r}",
                    hint=f"such as --input-shape {entry.name}={example_shape(tensor)}",
                )
        return TensorType(tuple(shape), dtype)


def _known(value: Value, name: str) -> Value:
    return value


def _not_supported(kind: str, opset: int) -> str:
    known = kind in importer_kinds("onnx")
    return f"not at opset {opset}" if known else f"{kind} is not supported"


def _name_of(type_proto: Any) -> str:
    """The dtype of a tensor, such as "string", or another kind of value, such as "sequence"."""
    from onnx import TensorProto

    kind = str(type_proto.WhichOneof("value")).removesuffix("_type")
    names = {number: name.lower() for name, number in TensorProto.DataType.items()}
    return kind if kind != "tensor" else names.get(type_proto.tensor_type.elem_type, "unknown")

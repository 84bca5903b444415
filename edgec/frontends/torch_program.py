"""One exported program, as Core ATen, to a function: its contract, its inputs, node by node.

The contract: inputs and results are real tensors of known dtypes and sizes, only buffers are
written to, and every operator has an importer. All violations are reported together, by module and
line of the user's source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.errors import BadNode, EdgecError, ImportFailed, TooLarge
from edgec.frontends.aten import Call, find_aten
from edgec.frontends.aten_complex import PARTS, Complex, find_complex, holds_complex
from edgec.frontends.imported import NARROW, mentions, named
from edgec.frontends.torch_bodies import visit
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import DTYPES, Array, TensorType
from edgec.ops.op import MALFORMED_NODE

#: The kind of a node whose result is a tuple of several tensors.
_GETITEM = "getitem"


class ProgramImporter:
    """Imports one program node by node, collecting what is unsupported."""

    def __init__(self, program: Any, source: str) -> None:
        self.program = program
        self.source = source
        self.builder = GraphBuilder()
        self.values: dict[str, Any] = {}  # by the name of the FX node
        self.problems: list[str] = []
        self.broken: list[ImportFailed] = []  # values that are not operators
        self.states: dict[str, Value] = {}  # by the buffer's name
        self.names: set[str] = set()
        self.counts: dict[str, Value | None] = {}  # by torch's symbol of a size that data decide

    def run(self) -> Any:
        """The function, or ImportFailed with all problems."""
        self.inputs()
        results: tuple[Any, ...] = ()
        for node in self.program.graph.nodes:
            visit(self, node, self.program.graph_module)
            if node.op == "output":
                results = node.args[0]
        outputs = self.outputs(results)
        self.require_no_problem()
        if not outputs:
            raise ImportFailed(f"{self.source}: the module returns no tensor")
        return self.builder.finish(outputs)

    def require_no_problem(self) -> None:
        """Raise ImportFailed with all that was found."""
        count, source = len(self.problems), self.source
        if not self.broken and count:
            raise ImportFailed(
                f"{count} operator{'s' if count > 1 else ''} of {source}"
                f" {'are' if count > 1 else 'is'} not supported",
                details=tuple(self.problems),
                hint="`edgec ops` lists the supported operators",
            )
        if len(self.broken) == 1 and not count:
            raise self.broken[0]
        if self.broken:
            reasons = [": ".join(filter(None, (e.message, e.hint))) for e in self.broken]
            raise ImportFailed(
                f"edgec cannot compile {count + len(reasons)} parts of {source}",
                details=(*reasons, *self.problems),
            )

    def outputs(self, results: Iterable[Any]) -> list[Value]:
        """The results, with the states' new values; results that are not tensors are dropped."""
        outputs: list[Value] = []
        for spec, result in zip(self.program.graph_signature.output_specs, results, strict=True):
            kind, value = spec.kind.name, self.mapped(result)
            if kind not in ("BUFFER_MUTATION", "USER_OUTPUT", "TOKEN"):
                self.breaks(
                    f"the module writes to its input or parameter {spec.target!r}",
                    "write to a copy, x.clone(), or make a new tensor, x = x + 1",
                )
            elif isinstance(value, Complex):
                self.breaks(
                    f"the result {result.name!r} has complex numbers",
                    "torch.view_as_real(y) has their parts along its last axis",
                )
            elif self.is_missing(value) or kind == "TOKEN":
                continue
            elif kind == "BUFFER_MUTATION":
                self.builder.become(self.states[spec.target], value)
            elif isinstance(value, Value):
                outputs.append(value)
        return outputs

    def breaks(self, what: str, hint: str = "") -> Any:
        """Record a violation of the contract; return a placeholder for its value."""
        self.broken.append(ImportFailed(f"{self.source}: {what}", hint=hint))
        return _MISSING

    def inputs(self) -> None:
        """Parameters become constants, changed buffers states, the rest the model's inputs."""
        signature = self.program.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        stored = {**self.program.state_dict, **self.program.constants}
        for spec, node in zip(signature.input_specs, nodes, strict=True):
            if spec.kind.name == "TOKEN" or is_number(spec):
                continue
            try:
                if spec.kind.name == "USER_INPUT":
                    self.values[node.name] = self.input(node)
                    self.is_empty(node)
                elif hasattr(stored.get(spec.target), "dtype"):
                    self.values[node.name] = self.stored(
                        node, stored[spec.target], spec.target, is_changed=spec.target in changed
                    )
                else:
                    kind = spec.kind.name.lower()
                    self.values[node.name] = self.breaks(f"{spec.target!r} is not a tensor: {kind}")
            except ImportFailed as error:
                self.broken.append(error)
                self.values[node.name] = _MISSING

    def input(self, node: Any) -> Value:
        """An input of the model."""
        value, what = node.meta.get("val"), f"input {node.name!r}"
        if not hasattr(value, "shape"):
            raise ImportFailed(f"{self.source}: {what} is not a tensor")
        if _is_complex(value):
            raise ImportFailed(
                f"{self.source}: {what} has complex numbers",
                hint="pass torch.view_as_real(x), and call torch.view_as_complex in the module",
            )
        type_ = TensorType(self.static(value.shape, what), self.dtype(value))
        return self.builder.param(node.name, type_, Origin(node.name, type_.shape))

    def stored(self, node: Any, tensor: Any, name: str, *, is_changed: bool) -> Any:
        """A parameter, buffer or constant."""
        if tensor.is_sparse or tensor.is_quantized:
            raise ImportFailed(f"{self.source}: {name!r} is not a dense tensor")
        if _is_complex(tensor):
            if is_changed:
                raise ImportFailed(f"{self.source}: the state {name!r} has complex numbers")
            parts = ((each, numpy_of(getattr(tensor, each))) for each in ("real", "imag"))
            return Complex(*(self.builder.constant(f"{name}.{each}", p) for each, p in parts))
        self.dtype(tensor)
        data = numpy_of(tensor)
        origin = Origin(node.name, data.shape)
        if not is_changed:
            return self.builder.constant(name, data, origin=origin)
        state = self.builder.state(name, TensorType(data.shape, data.dtype.name), data, origin)
        self.states[name] = state
        return state

    def static(self, shape: Any, what: str) -> tuple[int, ...]:
        """A shape of numbers, the largest where data decide. ImportFailed for other open ones."""
        return tuple(
            self.extent(extent, f"dimension {position} of {what}")
            for position, extent in enumerate(shape)
        )

    def extent(self, extent: Any, what: str) -> int:
        """The number that an extent is, or the largest that it may be where data decide it."""
        if isinstance(extent, int):
            return extent
        range_ = self.program.range_constraints.get(extent.node.expr)
        if range_ is None or not _is_by_data(extent) or range_.upper >= MOST:
            raise ImportFailed(
                f"{self.source}: {what} is open ({extent})",
                hint="only the sizes of inputs may be open: see edgec.from_torch",
            )
        return int(range_.upper)

    def dtype(self, tensor: Any) -> str:
        """A tensor's dtype; for complex numbers the dtype of their parts."""
        name = str(tensor.dtype).removeprefix("torch.")
        name = PARTS.get(name, name)
        if name not in DTYPES:
            raise ImportFailed(f"{self.source}: tensors of {name} are not supported")
        return name

    def node(self, node: Any) -> None:
        """Import one call."""
        name = str(node.target) if hasattr(node.target, "_schema") else node.target.__name__
        if self.is_empty(node) or name in CHECKS or _is_check(node):
            return
        if name == _GETITEM:
            self.values[node.name] = self.part(node)
            return
        layer = self.layer(node)
        arguments = self.mapped(node.args)
        options = {k: v for k, v in self.mapped(node.kwargs).items() if k not in _IGNORED}
        is_complex = holds_complex([arguments, options]) or any(map(_is_complex, _tensors(node)))
        function = find_complex(name) if is_complex else find_aten(name)
        if function is None:
            return self.has_no_importer(node, name, layer, is_complex)
        if self.is_missing([arguments, options]):
            return  # it follows from an unsupported node
        first = len(self.builder.nodes)
        try:
            self.require_values(node)
            made = self.made(function, node, self.call(node, layer), arguments, options)
            self.require_open(node, made)
        except EdgecError as error:
            self.problems.append(f"{name}  {self.location(node, layer)}: {error.message}")
            return
        except MALFORMED_NODE as error:
            reason = f"its importer failed ({type(error).__name__}: {error})"
            self.problems.append(f"{name}  {self.location(node, layer)}: {reason}")
            return
        uses = mentions(self.builder, first)
        if isinstance(made, tuple):
            self.values[node.name] = tuple(
                self.named(value, f"{node.name}.{i}" if i else node.name, uses)
                for i, value in enumerate(made)
            )
        else:
            self.values[node.name] = self.named(made, node.name, uses)

    def has_no_importer(self, node: Any, name: str, layer: str, is_complex: bool) -> None:
        """Record it, unless it is arithmetic of sizes whose largest value `mapped` has."""
        if not _is_symbol(node.meta.get("val")):
            tags = [tag.name for tag in getattr(node.target, "tags", ())]
            reason = "there is no importer" + (" for complex numbers" if is_complex else "")
            if "nondeterministic_seeded" in tags:
                reason = (
                    "edgec compiles no random numbers: the module must not need them after .eval()"
                )
            self.problems.append(f"{name}  {self.location(node, layer)}: {reason}")

    def made(self, function: Callable[..., Any], node: Any, call: Call, arguments: list[Any],
             options: dict[str, Any]) -> Any:  # fmt: skip
        """An importer's results; computed in float32, like torch, without support for 16 bits."""
        first = len(self.builder.nodes)
        try:
            return function(call, *arguments, **options)
        except (TooLarge, BadNode):
            raise
        except EdgecError:
            if _widened(call, arguments) == arguments:
                raise
        del self.builder.nodes[first:]
        dtype = "float32" if call.dtype in NARROW else call.dtype
        made = function(replace(call, dtype=dtype), *_widened(call, arguments), **options)
        dtypes = [self.dtype(tensor) for tensor in _tensors(node)]
        if not isinstance(made, tuple):
            return call.cast(made, dtypes[0])
        return tuple(value and call.cast(value, dtype)
                     for value, dtype in zip(made, dtypes, strict=False))  # fmt: skip

    def require_open(self, node: Any, made: Any) -> None:
        """Raise ImportFailed where the builder does not know which sizes data decide, as torch."""
        values = made if isinstance(made, tuple) else (made,)
        for value, tensor in zip(values, _tensors(node), strict=False):
            axes = {n: extent for n, extent in enumerate(tensor.shape) if _is_symbol(extent)}
            known = self.builder.open_axes.get(value, {})
            for axis in [axis for axis in known if axis not in axes]:
                del known[axis]  # the program has checked their number
            if (
                isinstance(value, Value)
                and {
                    axis: self.counts.setdefault(str(extent), known.get(axis))
                    for axis, extent in axes.items()
                }
                != known
            ):
                raise ImportFailed(
                    "its result depends on a size that is known only at run time",
                    hint="make the tensor of this size an output, and compute the rest outside",
                )

    def require_values(self, node: Any) -> None:
        """Raise ImportFailed where an operator computes with a size that data decide."""
        for parameter, given in zip(node.target._schema.arguments, node.args, strict=False):
            is_size = _is_symbol(getattr(given, "meta", {}).get("val"))
            is_number = str(parameter.type) in ("Tensor", "number")
            if is_size and is_number and given.name not in self.values:
                raise ImportFailed(
                    f"it computes with {given.name!r}, a size that is known only at run time"
                )

    def is_empty(self, node: Any) -> bool:
        """Whether a result has no elements: it is a constant then, whatever makes it."""
        value = node.meta.get("val")
        extents = [extent for extent in getattr(value, "shape", ()) if isinstance(extent, int)]
        if 0 not in extents or len(extents) < len(value.shape):
            return False
        shape = self.static(value.shape, "a result")
        empty = self.builder.constant(node.name, np.zeros(shape, self.dtype(value)))
        self.values[node.name] = Complex(empty, empty) if _is_complex(value) else empty
        return True

    def call(self, node: Any, layer: str) -> Call:
        value = node.meta.get("val")
        value = value[0] if isinstance(value, (tuple, list)) else value
        shape = self.static(value.shape, "a result") if hasattr(value, "shape") else ()
        dtype = self.dtype(value) if hasattr(value, "dtype") else "int64"
        used = frozenset(user.args[1] for user in node.users if _is_part(user))
        source: Any = getattr((*node.args, None)[0], "meta", {}).get("val")
        memory = (source.stride(), source.storage_offset()) if hasattr(source, "stride") else None
        return Call(self.builder, layer, shape, dtype, used, memory)

    def named(self, value: Any, name: str, uses: Mapping[Value, list[int]]) -> Any:
        """The value under the program's name of it, if a new node makes it."""
        if isinstance(value, Complex):
            parts = (("real", value.real), ("imag", value.imag))
            return Complex(*(self.named(each, f"{name}.{part}", uses) for part, each in parts))
        if value is None or isinstance(value, Constant):
            return value
        return named(self.builder, value, name, uses)

    def part(self, node: Any) -> Any:
        """One result of a node with several."""
        whole = self.values.get(node.args[0].name)
        if not isinstance(whole, tuple):
            return _MISSING if whole is None else whole
        value = whole[node.args[1]]
        if value is None and node.users:
            layer = self.layer(node.args[0])
            self.problems.append(
                f"{node.args[0].target}  {self.location(node, layer)}: result {node.args[1]}"
                " is not supported"
            )
        return _MISSING if value is None else value

    def is_missing(self, value: Any) -> bool:
        """Whether arguments hold a value that could not be imported."""
        return _holds_missing(value)

    def mapped(self, argument: Any) -> Any:
        """Arguments with graph values in place of FX nodes."""
        if hasattr(argument, "op") and hasattr(argument, "meta"):
            size = argument.meta.get("val")
            if argument.name not in self.values and _is_by_data(size):
                return self.extent(size, f"{argument.name!r}")
            return self.values.get(argument.name, _MISSING)
        if isinstance(argument, (list, tuple)):
            return [self.mapped(entry) for entry in argument]
        if isinstance(argument, Mapping):
            return {key: self.mapped(entry) for key, entry in argument.items()}
        return argument

    def layer(self, node: Any) -> str:
        """The module that a node belongs to, with the node's own name where it is not alone."""
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        path = str(modules[-1][0]) if modules else ""
        name = (
            path if path and path not in self.names else ".".join(filter(None, (path, node.name)))
        )
        self.names.add(name)
        return name

    def location(self, node: Any, layer: str) -> str:
        """Describe a node for errors: the module, and the user's line if torch knows it."""
        lines = [
            line.strip()
            for line in str(node.meta.get("stack_trace") or "").splitlines()
            if line.strip().startswith("File ")
        ]
        own = [line for line in lines if "/torch/" not in line] or lines
        return f"node {layer!r}" + (f" ({own[-1]})" if own else "")


#: A value that could not be imported.
_MISSING = object()
#: Checks that torch made at export.
CHECKS = ("aten._assert_tensor_metadata.default", "aten._assert_async.msg",
           "aten._assert_scalar.default", "aten._linalg_check_errors.default")  # fmt: skip
#: Options that say where torch computes something, which has no meaning here.
_IGNORED = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "dtype")
#: A dimension without a largest value has one of 2**63 or more.
MOST = 1 << 31


def _is_check(node: Any) -> bool:
    """Whether it is one of CHECKS in the place where torch keeps it: with a token for its turn."""
    return len(node.args) > 1 and str(node.args[1]) in CHECKS


def is_number(spec: Any) -> bool:
    """Whether a program's input is not a tensor: its value is fixed at export."""
    return spec.kind.name == "USER_INPUT" and hasattr(spec.arg, "value")


def _tensors(node: Any) -> list[Any]:
    """The tensors among a node's results, as torch describes them."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in parts if hasattr(part, "shape")]


def _is_symbol(value: Any) -> bool:
    """Whether it is a size, or computed from sizes, without a known number."""
    return hasattr(value, "node") and hasattr(value.node, "expr")


def _is_by_data(size: Any) -> bool:
    """Whether data decide a size: torch calls it u0, u1, ..."""
    return _is_symbol(size) and str(size.node.expr)[:1] == "u" and str(size)[1:].isdigit()


def _widened(call: Call, value: Any) -> Any:
    """Arguments with floats of 16 bits as float32."""
    if isinstance(value, list):
        return [_widened(call, entry) for entry in value]
    is_narrow = isinstance(value, Value) and value.type.dtype in NARROW
    return call.cast(value, "float32") if is_narrow else value


def _is_complex(tensor: Any) -> bool:
    return bool(tensor.dtype.is_complex)


def _is_part(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == _GETITEM and len(node.args) == 2


def _holds_missing(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_missing(entry) for entry in value)
    if isinstance(value, dict):
        return any(_holds_missing(entry) for entry in value.values())
    return value is _MISSING


def numpy_of(tensor: Any) -> Array:
    """A copy of a dense tensor's elements, row by row; NumPy itself has no bfloat16."""
    dense = tensor.detach().cpu().contiguous()
    if str(dense.dtype) != "torch.bfloat16":
        return np.array(dense.resolve_neg().numpy(), order="C")
    import torch

    return np.array(dense.view(torch.int16).numpy().view("bfloat16"), order="C")

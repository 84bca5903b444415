"""PyTorch's exported programs to graph IR.

`torch.export` writes the training IR: torch's own decompositions make Core ATen of it, and
`edgec/frontends/aten*.py` says which ONNX operators each of those is. Buffers that the program
changes become states. Layers are called by their module's name in the user's class, such as
`block1.conv`.

torch is the extra `edgec[torch]` and is imported only here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import edgec.frontends.aten_elements
import edgec.frontends.aten_layers
import edgec.frontends.aten_maps
import edgec.frontends.aten_shapes
import edgec.frontends.aten_windows  # these register their operators
import edgec.ops
from edgec.errors import EdgecError, ImportFailed, ToolMissing
from edgec.frontends.aten import Call, find_aten
from edgec.frontends.aten_composites import DECOMPOSED, kept_operators
from edgec.frontends.imported import named
from edgec.frontends.torch_archive import checked_archive
from edgec.frontends.torch_bodies import visit
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Module, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import DTYPES, Array, TensorType
from edgec.ops.op import MALFORMED_NODE

#: What a node is where its result is a tuple of several tensors.
_GETITEM = "getitem"


def import_torch(path: Path) -> Module:
    """Read a `.pt2` file. Raises ImportFailed for one that is damaged or would run code."""
    _torch()
    from edgec.frontends.torch_sizes import has_open_sizes, import_open

    program = load_program(checked_archive(path), path.name)
    if has_open_sizes(program):
        return import_open(program, program.module(), path.name)
    return import_decomposed(program, path.name)


def load_program(archive: BinaryIO, name: str) -> Any:
    """The program of a checked archive, as Core ATen. Raises ImportFailed."""
    torch = _torch()
    try:
        with warnings.catch_warnings(action="ignore"):
            return decomposed(torch.export.load(archive))
    except Exception as error:  # whatever torch raises for a file that it cannot read
        raise ImportFailed(
            f"torch {torch.__version__} cannot read {name}",
            details=(str(error).partition("\n")[0][:200],),
            hint="export the model again with the torch that is installed here",
        ) from None


def import_program(program: Any, source: str = "model.pt2") -> Module:
    """An `ExportedProgram` as a module whose `main` has its inputs and outputs.

    Raises ImportFailed with every operator that is not supported, by module and source line.
    """
    with warnings.catch_warnings(action="ignore"):
        core = decomposed(program)
    return import_decomposed(core, source)


def decomposed(program: Any) -> Any:
    """The program as Core ATen, and the composites that have an importer of their own.

    Quantization by torchao stays as it is: its operators have no decompositions. Raises
    ImportFailed where torch fails.
    """
    torch = _torch()
    edgec.ops.load()
    table = torch.export.default_decompositions()
    more = torch._decomp.decomposition_table
    table.update({operator: more[operator] for operator in map(_operator, DECOMPOSED)})
    for name in kept_operators():
        table.pop(_operator(name), None)
    try:
        return program.run_decompositions(table)
    except Exception as error:  # torch raises errors of many classes
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ImportFailed(
            "torch cannot decompose the program into Core ATen",
            details=tuple(lines[:3]),
            hint="what it reports is an error of torch: another form of the module may avoid it",
        ) from None


def _operator(name: str) -> Any:
    """torch's own operator, such as `addmv.default` of the namespace aten."""
    operator, overload = name.split(".")
    return getattr(getattr(_torch().ops.aten, operator), overload)


def import_decomposed(program: Any, source: str) -> Module:
    """`import_program` of what `decomposed` returned."""
    edgec.ops.load()
    function = _ProgramImporter(program, source).run()
    return Module({"main": function}, source=source, format="torch")


def exported(module: Any, example_inputs: Iterable[Any], **options: Any) -> Any:
    """`torch.export.export` of a module in evaluation mode, its error as an ImportFailed."""
    torch = _torch()
    from torch.utils._pytree import tree_map

    if not hasattr(module, "graph"):  # of a program, whose module is what it is
        module = module.eval()
    options["kwargs"] = tree_map(_alone, options.get("kwargs"))
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            program = torch.export.export(
                module, tree_map(_alone, tuple(example_inputs)), **options
            )
    except Exception as error:  # torch.export raises errors of many classes
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ImportFailed(
            f"torch.export cannot export {type(module).__name__}",
            details=tuple(lines[:6]),
            hint="see torch.export's documentation of what it can trace",
        ) from None
    lost = [name for each in told for name in _assigned(str(each.message))]
    if lost:  # the program would compute with what they were at first
        raise ImportFailed(
            f"{type(module).__name__} assigns tensors that are no buffers",
            details=tuple(lost),
            hint="self.register_buffer('name', tensor) in __init__ makes a tensor state",
        )
    return program


def _alone(value: Any) -> Any:
    """An example without what lies before it in memory, of which a model knows nothing."""
    return value.clone() if getattr(value, "storage_offset", int)() else value


def _assigned(warning: str) -> list[str]:
    """The attributes that torch says a module assigned; a recurrent layer's list is its weights."""
    names, found, _ = warning.partition(" assigned during export")
    return [n for n in re.findall(r"self\.[\w.]+", names) if "_flat_weights" not in n and found]


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise ToolMissing(
            "PyTorch is not installed", details=(str(error),), hint='pip install "edgec[torch]"'
        ) from None
    return torch


class _ProgramImporter:
    """Imports one program node by node, collecting what is unsupported."""

    def __init__(self, program: Any, source: str) -> None:
        self.program = program
        self.source = source
        self.builder = GraphBuilder()
        self.values: dict[str, Any] = {}  # by the name of the FX node
        self.problems: list[str] = []
        self.states: dict[str, Value] = {}  # by the buffer's name
        self.names: set[str] = set()

    def run(self) -> Any:
        """The function, or ImportFailed with all problems."""
        self.inputs()
        results: tuple[Any, ...] = ()
        for node in self.program.graph.nodes:
            visit(self, node, self.program.graph_module)
            if node.op == "output":
                results = node.args[0]
        if self.problems:
            count = len(self.problems)
            raise ImportFailed(
                f"{count} operator{'s' if count > 1 else ''} of {self.source}"
                f" {'are' if count > 1 else 'is'} not supported",
                details=tuple(self.problems),
                hint="`edgec ops` lists what is supported",
            )
        return self.finished(results)

    def finished(self, results: Iterable[Any]) -> Any:
        """The function, once states know what they become; results that are no tensors go."""
        outputs: list[Value] = []
        for spec, result in zip(self.program.graph_signature.output_specs, results, strict=True):
            kind = spec.kind.name
            if kind == "BUFFER_MUTATION":
                self.builder.become(self.states[spec.target], self.values[result.name])
            elif kind == "USER_OUTPUT":
                outputs += [self.values[result.name]] if hasattr(result, "name") else []
            elif kind != "TOKEN":
                raise ImportFailed(
                    f"{self.source}: the module writes to its input or parameter {spec.target!r}",
                    hint="write to a copy, x.clone(), or make a new tensor, x = x + 1",
                )
        if not outputs:
            raise ImportFailed(f"{self.source}: the module returns no tensor")
        return self.builder.finish(outputs)

    def inputs(self) -> None:
        """Parameters become constants, changed buffers states, the rest the model's inputs."""
        signature = self.program.graph_signature
        changed = set(signature.buffers_to_mutate.values())
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        stored = {**self.program.state_dict, **self.program.constants}
        for spec, node in zip(signature.input_specs, nodes, strict=True):
            if spec.kind.name == "TOKEN" or is_number(spec):
                continue
            if spec.kind.name == "USER_INPUT":
                type_ = self.input_type(node)
                self.values[node.name] = self.builder.param(
                    node.name, type_, Origin(node.name, type_.shape)
                )
                self.is_empty(node)
                continue
            if spec.target not in stored:
                raise ImportFailed(
                    f"{self.source}: {spec.target!r} ({spec.kind.name}) is no tensor"
                )
            data = self.array(stored[spec.target], spec.target)
            if spec.target in changed:
                type_ = TensorType(data.shape, data.dtype.name)
                origin = Origin(node.name, type_.shape)
                state = self.builder.state(spec.target, type_, data, origin)
                self.states[spec.target] = self.values[node.name] = state
            else:
                origin = Origin(node.name, data.shape)
                self.values[node.name] = self.builder.constant(spec.target, data, origin=origin)

    def input_type(self, node: Any) -> TensorType:
        value = node.meta.get("val")
        if not hasattr(value, "shape"):
            raise ImportFailed(f"{self.source}: input {node.name!r} is no tensor")
        return TensorType(self.static(value.shape, f"input {node.name!r}"), self.dtype(value))

    def static(self, shape: Any, what: str) -> tuple[int, ...]:
        """A shape of numbers. Raises ImportFailed where a dimension is open."""
        for position, extent in enumerate(shape):
            if not isinstance(extent, int):
                raise ImportFailed(
                    f"{self.source}: dimension {position} of {what} is open ({extent})",
                    hint="only the sizes of inputs may be open: see edgec.from_torch",
                )
        return tuple(shape)

    def dtype(self, tensor: Any) -> str:
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in DTYPES:
            raise ImportFailed(f"{self.source}: tensors of {name} are not supported")
        return name

    def array(self, tensor: Any, name: str) -> Array:
        self.dtype(tensor)
        if tensor.is_sparse or tensor.is_quantized:
            raise ImportFailed(f"{self.source}: {name!r} is no dense tensor")
        return numpy_of(tensor)

    def node(self, node: Any) -> None:
        """Import one call."""
        name = str(node.target) if hasattr(node.target, "_schema") else node.target.__name__
        if self.is_empty(node) or name in CHECKS:
            return
        if name == _GETITEM:
            self.values[node.name] = self.part(node)
            return
        function = find_aten(name)
        layer = self.layer(node)
        arguments = self.mapped(node.args)
        options = {k: v for k, v in self.mapped(node.kwargs).items() if k not in _IGNORED}
        if function is None:
            follows = self.is_missing(arguments) and not _tensors(node)  # arithmetic of sizes
            if not follows:
                self.problems.append(f"{name}  {self.place(node, layer)}: there is no importer")
            return
        if self.is_missing([arguments, options]):
            return  # it follows from an unsupported node
        first = len(self.builder.nodes)
        try:
            made = self.made(function, node, self.call(node, layer), arguments, options)
        except EdgecError as error:
            self.problems.append(f"{name}  {self.place(node, layer)}: {error.message}")
            return
        except MALFORMED_NODE as error:
            self.problems.append(f"{name}  {self.place(node, layer)}: {error}")
            return
        if isinstance(made, tuple):
            self.values[node.name] = tuple(
                self.named(value, f"{node.name}.{i}" if i else node.name, first)
                for i, value in enumerate(made)
            )
        else:
            self.values[node.name] = self.named(made, node.name, first)

    def made(self, function: Callable[..., Any], node: Any, call: Call, arguments: list[Any],
             options: dict[str, Any]) -> Any:  # fmt: skip
        """What an importer makes; where it knows no floats of 16 bits, in float32 as torch does."""
        first = len(self.builder.nodes)
        try:
            return function(call, *arguments, **options)
        except (EdgecError, *MALFORMED_NODE):
            wide = _widened(call, arguments)
            if wide == arguments:
                raise
        del self.builder.nodes[first:]
        dtype = "float32" if call.dtype in _NARROW else call.dtype
        made = function(replace(call, dtype=dtype), *_widened(call, arguments), **options)
        dtypes = [self.dtype(tensor) for tensor in _tensors(node)]
        if not isinstance(made, tuple):
            return call.cast(made, dtypes[0])
        return tuple(value and call.cast(value, dtype)
                     for value, dtype in zip(made, dtypes, strict=False))  # fmt: skip

    def is_empty(self, node: Any) -> bool:
        """Whether a result has no elements: it is a constant then, whatever makes it."""
        value = node.meta.get("val")
        extents = [extent for extent in getattr(value, "shape", ()) if isinstance(extent, int)]
        if 0 not in extents:
            return False
        shape = self.static(value.shape, "a result")
        empty = np.zeros(shape, self.dtype(value))
        self.values[node.name] = self.builder.constant(node.name, empty)
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

    def named(self, value: Value | None, name: str, first: int) -> Value | None:
        """The value under the program's name of it, if a new node makes it."""
        if value is None or isinstance(value, Constant):
            return value
        return named(self.builder, value, name, first)

    def part(self, node: Any) -> Any:
        """One result of a node with several."""
        whole = self.values.get(node.args[0].name)
        if not isinstance(whole, tuple):
            return _MISSING if whole is None else whole
        value = whole[node.args[1]]
        if value is None and node.users:
            layer = self.layer(node.args[0])
            self.problems.append(
                f"{node.args[0].target}  {self.place(node, layer)}: result {node.args[1]}"
                " is not supported"
            )
        return _MISSING if value is None else value

    def is_missing(self, value: Any) -> bool:
        """Whether arguments hold a value that could not be imported."""
        return _holds_missing(value)

    def mapped(self, argument: Any) -> Any:
        """Arguments with graph values in place of FX nodes."""
        if hasattr(argument, "op") and hasattr(argument, "meta"):
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

    def place(self, node: Any, layer: str) -> str:
        """For errors: the module, and the user's line if torch knows it."""
        lines = [
            line.strip()
            for line in str(node.meta.get("stack_trace") or "").splitlines()
            if line.strip().startswith("File ")
        ]
        own = [line for line in lines if "/torch/" not in line] or lines
        return f"node {layer!r}" + (f" ({own[-1]})" if own else "")


#: A value that could not be imported.
_MISSING = object()
#: What torch checked when it exported.
CHECKS = ("aten._assert_tensor_metadata.default", "aten._assert_async.msg",
           "aten._assert_scalar.default")  # fmt: skip
#: Options that say where torch computes something, which has no meaning here.
_IGNORED = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "dtype")


#: Floats that most operators know only as float32.
_NARROW = ("float16", "bfloat16")


def is_number(spec: Any) -> bool:
    """Whether an input of a program is no tensor: its value is fixed when it is exported."""
    return spec.kind.name == "USER_INPUT" and hasattr(spec.arg, "value")


def numpy_of(tensor: Any) -> Array:
    """A copy of a dense tensor's elements, row by row; NumPy itself has no bfloat16."""
    dense = tensor.detach().cpu().contiguous()
    is_known = str(dense.dtype) != "torch.bfloat16"
    array = dense.numpy() if is_known else dense.view(_torch().int16).numpy().view("bfloat16")
    return np.array(array, order="C")


def _tensors(node: Any) -> list[Any]:
    """What torch says of the tensors among a node's results."""
    value = node.meta.get("val")
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in parts if hasattr(part, "shape")]


def _widened(call: Call, value: Any) -> Any:
    """Arguments with floats of 16 bits as float32."""
    if isinstance(value, list):
        return [_widened(call, entry) for entry in value]
    is_narrow = isinstance(value, Value) and value.type.dtype in _NARROW
    return call.cast(value, "float32") if is_narrow else value


def _is_part(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == _GETITEM and len(node.args) == 2


def _holds_missing(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_missing(entry) for entry in value)
    if isinstance(value, dict):
        return any(_holds_missing(entry) for entry in value.values())
    return value is _MISSING

"""edgec as a backend of ONNX: every model is compiled to C for this computer, and that runs.

    import edgec.onnx_backend as backend

    model = backend.prepare(onnx.load("model.onnx"))
    (y,) = model.run([x])

So that ONNX's own suite runs against it: `onnx.backend.test.BackendTest(backend, __name__)`. What
is not supported raises `edgec.errors.EdgecError`, when it is prepared.

Libraries are cached by the hash of their C: a model that was compiled before starts without the C
compiler. They lie in the folder that EDGEC_CACHE names, or in the user's own cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.board import load_board
from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library, library_name
from edgec.build.staging import work_folder
from edgec.codegen.project import write_project
from edgec.deploy.project import Built
from edgec.errors import ImportFailed, RunFailed
from edgec.frontends import import_model
from edgec.graph.types import Array
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.resources import cache_folder, resource_dir
from edgec.runners.engine import Session, open_session

Shape = tuple[int, ...]
#: The key of a compiled model: shapes, and the numbers of inputs.
Key = tuple[object, ...]
#: Placements that are tried for a memory plan: this computer has room for one that is not the best.
PLAN_NODES = 100


class PreparedModel:
    """A model that has been compiled, and keeps its library loaded.

    A file with open sizes is compiled for each new set of its inputs' shapes; one with inputs whose
    numbers decide on shapes (sizes, axes, pads), for each new set of these numbers.
    """

    def __init__(self, model: Any) -> None:
        self._data: bytes = model.SerializeToString()
        constants = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [entry for entry in model.graph.input if entry.name not in constants]
        self._constant: set[str] = set()  # names of inputs whose numbers decide on shapes
        self._sessions: dict[Key, Session] = {}
        weakref.finalize(self, _close, self._sessions)
        self._open = any(
            dimension.dim_value == 0  # absent, or no size: then the given array's extent
            for entry in self._inputs
            for dimension in entry.type.tensor_type.shape.dim
        )
        if not self._open:
            self._try({}, {}, ())

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """The outputs of one run from the initial state.

        inputs: an array for each input, in order, or by name. Raises EdgecError for other shapes or
        dtypes than the model's.
        """
        if isinstance(inputs, Mapping):
            inputs = [inputs[entry.name] for entry in self._inputs if entry.name in inputs]
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        arrays = [np.asarray(array) for array in inputs]
        if len(arrays) != len(self._inputs):
            raise RunFailed(f"{len(self._inputs)} inputs are needed, {len(arrays)} were given")
        session = self._session(arrays)
        session.reset()
        names = (entry.name for entry in self._inputs)
        given = zip(names, arrays, strict=True)
        return tuple(session.run([x for name, x in given if name not in self._constant]).outputs)

    def _session(self, arrays: Sequence[Array]) -> Session:
        """The model for inputs of these shapes, and the numbers of inputs that determine shapes."""
        given = {entry.name: array for entry, array in zip(self._inputs, arrays, strict=True)}
        while True:
            values = {name: given[name] for name in sorted(self._constant)}
            shapes = {name: array.shape for name, array in given.items()} if self._open else {}
            key = (*shapes.values(), *((x.shape, x.tobytes()) for x in values.values()))
            if key in self._sessions or self._try(shapes, values, key):
                return self._sessions[key]

    def _try(self, shapes: Mapping[str, Shape], values: Mapping[str, Array], key: Key) -> bool:
        """Compile the model, or learn that the numbers of more inputs are needed for it."""
        try:
            self._sessions[key] = _session(self._data, shapes, values)
        except ImportFailed as error:
            wanted = set(error.inputs) - self._constant
            if not wanted:
                raise
            self._constant |= wanted
            return False
        return True


def supports_device(device: str) -> bool:
    """Whether models run on a device: the processor only."""
    return device.partition(":")[0] == "CPU"


def prepare(model: Any, device: str = "CPU", **kwargs: Any) -> PreparedModel:
    """Compile a `ModelProto`. Raises EdgecError for one that is not supported."""
    if not supports_device(device):
        raise ImportFailed(f"there is no device {device!r}", hint="use CPU")
    return PreparedModel(model)


def run_model(model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
    """Compile a `ModelProto` and run it once."""
    return prepare(model, device, **kwargs).run(inputs)


def run_node(
    node: Any,
    inputs: Sequence[Array],
    device: str = "CPU",
    outputs_info: Sequence[tuple[Any, Shape]] | None = None,
    **kwargs: Any,
) -> tuple[Array, ...]:
    """Compile a model of one `NodeProto` and run it once.

    outputs_info: dtype and shape of each output. opset_version: of the standard's domain, the
    newest one by default.
    """
    from onnx import ValueInfoProto, defs, helper

    names = [name for name in node.input if name]
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), np.shape(array)
        )
        for name, array in zip(names, inputs, strict=True)
    ]
    opset = helper.make_opsetid("", kwargs.get("opset_version", defs.onnx_opset_version()))
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    if outputs_info is not None:
        outputs = [
            helper.make_tensor_value_info(
                entry.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
            )
            for entry, (dtype, shape) in zip(outputs, outputs_info, strict=True)
        ]
    graph = helper.make_graph([node], "node", given, outputs)
    return run_model(helper.make_model(graph, opset_imports=[opset]), inputs, device)


def _session(data: bytes, shapes: Mapping[str, Shape], values: Mapping[str, Array]) -> Session:
    """A model compiled for these shapes and values of its inputs, and loaded."""
    board = load_board("host")
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder("onnx"))
        path = folder / "model.onnx"
        path.write_bytes(data)
        module = import_model(path, shapes=shapes, values=values)
        options = Options(plan_nodes=PLAN_NODES)
        compiled = compile_module(module, board.core, options, board=board)
        project = folder / "project"
        project.mkdir()
        manifest = write_project(compiled.program, project, board, compiled.options.harness)
        library = _library(project, manifest.model)
        built = Built(project, manifest, board, library, None, None)
        return open_session("host", built).__enter__()


def _close(sessions: Mapping[Key, Session]) -> None:
    for session in sessions.values():
        session.close()


def _library(project: Path, model: str) -> Path:
    """The shared library of a project's C, from the cache where it was compiled before."""
    toolchain = find_toolchain(load_board("host").core, None)
    digest = hashlib.sha256(repr([*toolchain.command, *toolchain.core_flags]).encode())
    sources = sorted(project.glob("*.[ch]"))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    kept = cache_folder() / digest.hexdigest() / library_name(model)
    if not kept.is_file():
        built = build_host_library(
            [source for source in sources if source.suffix == ".c"],
            project / "build" / kept.name,
            toolchain=toolchain,
            include_dirs=[project, resource_dir("runtime_c") / "link"],
            optimize="-O1",
        )
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copyfile(built, partial)
        partial.replace(kept)
    return kept

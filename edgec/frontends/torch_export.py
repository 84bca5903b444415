"""PyTorch's exported programs to graph IR.

`torch.export` writes the training IR: torch's decompositions convert it to Core ATen, and
`edgec/frontends/aten*.py` converts each operator to ONNX. Buffers that the program changes become
states. Layers are called by their module's name in the user's class, such as `block1.conv`.

torch is the extra `edgec[torch]` and is imported only here.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import edgec.frontends.aten_elements
import edgec.frontends.aten_layers
import edgec.frontends.aten_linalg
import edgec.frontends.aten_maps
import edgec.frontends.aten_shapes
import edgec.frontends.aten_special
import edgec.frontends.aten_windows  # these register their operators
import edgec.ops
from edgec.errors import ImportFailed, ToolMissing
from edgec.frontends.aten import aten_names
from edgec.frontends.aten_composites import DECOMPOSED, kept_operators
from edgec.frontends.torch_archive import checked_archive
from edgec.frontends.torch_program import ProgramImporter
from edgec.graph.ir import Module


def torch_kinds() -> tuple[str, ...]:
    """PyTorch's operators that can be imported, after its own decompositions, by name."""
    return aten_names()


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
    log, told = logging.getLogger("torch.export"), list[str]()
    log.addFilter(taken := lambda record: told.append(_reason(record)) or False)  # type: ignore
    try:
        with warnings.catch_warnings(action="ignore"):
            return decomposed(torch.export.load(archive))
    except Exception as error:  # whatever torch raises for a file that it cannot read
        reason, *_ = (*told, str(error))
        raise ImportFailed(
            f"torch {torch.__version__} cannot read {name}",
            details=(reason.partition("\n")[0][:200],),
            hint="export the model again with the torch that is installed here",
        ) from None
    finally:
        log.removeFilter(taken)


def _reason(record: logging.LogRecord) -> str:
    """The reason for a failure, which torch writes to its log and not into the exception."""
    return str(record.exc_info[1] if record.exc_info else record.getMessage())


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
        shared = _shared_buffers(program)
        if shared:
            raise ImportFailed(
                f"the module changes buffers that share memory: {', '.join(shared)}",
                hint="register one buffer and take views of it in forward",
            ) from None
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ImportFailed(
            "torch cannot decompose the program into Core ATen",
            details=tuple(lines[:3]),
            hint="the error comes from torch: rewriting the module may avoid it",
        ) from None


def _shared_buffers(program: Any) -> list[str]:
    """The names of buffers that lie in the memory of others."""
    seen: dict[Any, list[str]] = {}
    for name, tensor in program.named_buffers():
        seen.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return [name for names in seen.values() if len(names) > 1 for name in names]


def _operator(name: str) -> Any:
    """torch's own operator, such as `addmv.default` of the namespace aten."""
    operator, overload = name.split(".")
    return getattr(getattr(_torch().ops.aten, operator), overload)


def import_decomposed(program: Any, source: str) -> Module:
    """`import_program` of `decomposed`'s result."""
    edgec.ops.load()
    function = ProgramImporter(program, source).run()
    return Module({"main": function}, source=source, format="torch")


def exported(module: Any, example_inputs: Iterable[Any], **options: Any) -> Any:
    """`torch.export.export` of a module in evaluation mode, its error as an ImportFailed."""
    torch = _torch()
    from torch.utils._pytree import tree_map

    options["kwargs"] = tree_map(_alone, options.get("kwargs"))
    try:
        with _evaluated(module), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            program = torch.export.export(
                module, tree_map(_alone, tuple(example_inputs)), **options
            )
    except Exception as error:  # torch.export raises errors of many classes
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ImportFailed(
            f"torch.export cannot export {type(module).__name__}",
            details=tuple(lines[:6]),
            hint="see torch.export's documentation of its limits",
        ) from None
    lost = [
        name for each in told for name in _assigned(str(each.message))
        if not _is_made_of_others(program, name)
    ]  # fmt: skip
    if lost:  # the program would always compute with their first values
        raise ImportFailed(
            f"{type(module).__name__} assigns tensors that are not buffers",
            details=tuple(lost),
            hint="call self.register_buffer('name', tensor) in __init__ for each of them",
        )
    return program


@contextmanager
def _evaluated(module: Any) -> Iterator[None]:
    """Put a module into evaluation mode while the block runs; leave anything else as it is."""
    modes = [(each, each.training) for each in getattr(module, "modules", tuple)()]
    try:
        with suppress(AttributeError, NotImplementedError):
            module.eval()
        yield
    finally:
        for each, mode in modes:
            each.training = mode


def _alone(value: Any) -> Any:
    """A copy of an example: torch treats two inputs that share memory as one input."""
    return value.clone() if hasattr(value, "clone") else value


def _assigned(warning: str) -> list[str]:
    """The attributes that torch says a module assigned; a recurrent layer's list is its weights."""
    names, found, _ = warning.partition(" assigned during export")
    return [n for n in re.findall(r"self\.[\w.]+", names) if "_flat_weights" not in n and found]


def _is_made_of_others(program: Any, name: str) -> bool:
    """Whether each run recomputes it: pruning and weight norm of `torch.nn.utils` do."""
    path = name.removeprefix("self.")
    return any(f"{path}{end}" in program.state_dict for end in ("_orig", "_g"))


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise ToolMissing(
            "PyTorch is not installed", details=(str(error),), hint='pip install "edgec[torch]"'
        ) from None
    return torch

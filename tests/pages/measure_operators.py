"""Measure what types each operator takes, and which have kernels: `docs/operators.toml`.

    PYTHONPATH=tests:tests/models:tests/ops:tests/pages python tests/pages/measure_operators.py

Nothing is listed by hand. Examples of nodes come from the models of `operator_models` and from
ONNX's official cases; each operator's own type relation is asked about its examples in every dtype.
Kernels are those that the first schedule of an example calls on a Cortex-M4 and on a Cortex-M55.
It takes a few minutes, and is worth it when operators or their types change.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from official_cases import as_array, official_cases, specialized
from operator_models import MODELS

import edgec.ops
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.ir import Function, Node
from edgec.graph.operator import all_ops
from edgec.graph.types import Quant, TensorType
from edgec.loop.ir import Call
from edgec.loop.rewrite import walk
from edgec.ops.row import FLOATS, INTEGERS, RowOp
from edgec.options import Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.passes.sequence import run_passes
from edgec.targets.core import find_core
from edgec.targets.target import target_for

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.toml"
#: What an element may be, and what it may be with a scale.
PLAIN, STORED = (*FLOATS, "float16", "bfloat16", *INTEGERS, "bool"), ("int8", "uint8", "int16")
#: The instruction sets that kernels are written for, and a core that has each.
CORES = {"DSP": "cortex-m4", "Helium": "cortex-m55"}
#: Examples of an operator that are enough.
ENOUGH = 8
NO_SCALE = Quant((0.1,), (0,))


@dataclass
class Found:
    """What is known of an operator."""

    examples: int = 0
    plain: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)


def functions(folder: Path) -> Iterator[Function]:
    """Models of the tests, as they are imported and as passes leave them."""
    for write in MODELS.values():
        main = import_model(write(folder)).main
        yield from (main, run_passes(main, "tflm"))


def official_functions(folder: Path) -> Iterator[Function]:
    """ONNX's own cases that can be imported."""
    for case in official_cases():
        path = folder / "case.onnx"
        path.write_bytes(case.model.SerializeToString())
        names = [entry.name for entry in case.model.graph.input]
        try:
            arrays = [as_array(value) for value in case.data_sets[0][0]]
            yield specialized(path, dict(zip(names, arrays, strict=False)))[0]
        except (EdgecError, ValueError):
            continue


def accepts(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether the operator's type relation has a result for these inputs."""
    try:
        node.op.infer_bodies(node.attrs, [body.signature for body in node.bodies], *types)
    except (EdgecError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return False
    return True


def ask(node: Node, found: Found) -> None:
    """Ask about an example, and about its variants with each dtype for the first input."""
    types = node.input_types
    found.examples += 1
    if not types:
        return
    first = types[0]
    (found.plain if first.quant is None else found.stored).add(first.dtype)
    alike = [(t.dtype, t.quant is None) == (first.dtype, first.quant is None) for t in types]
    for dtypes, quant, known in ((PLAIN, None, found.plain), (STORED, NO_SCALE, found.stored)):
        for dtype in dtypes:
            tried = [
                replace(t, dtype=dtype, quant=quant) if same else t
                for t, same in zip(types, alike, strict=True)
            ]
            if dtype not in known and accepts(node, tried):
                known.add(dtype)


def kernels(function: Function, found: Mapping[str, Found]) -> None:
    """Note which groups of a function call kernels, under the operator that each begins with."""
    for name, core in CORES.items():
        target = target_for(find_core(core), Options())
        for group in fuse_groups(function):
            (variant, *_) = lower_group(group, target).variants
            called = (s for s, _ in walk(variant.function.body) if isinstance(s, Call))
            if any(call.callee.startswith("ec_") for call in called):
                found[group.nodes[0].op.name].kernels.add(name)


def measured() -> dict[str, Found]:
    """What is found of every operator that is no row of a table, and of those too."""
    edgec.ops.load()
    found = {op.name: Found() for op in all_ops()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for function in functions(folder):
            for node in function.nodes:
                ask(node, found[node.op.name])
            try:
                kernels(function, found)
            except EdgecError:
                continue
        for function in official_functions(folder):
            for node in function.nodes:
                if found[node.op.name].examples < ENOUGH:
                    ask(node, found[node.op.name])
    for op in all_ops():
        if isinstance(op, RowOp):
            found[op.name].plain = set(op.row.dtypes)
            found[op.name].examples += 1
    return found


def text_of(found: Mapping[str, Found]) -> str:
    """The file: a table for each operator of which there is an example."""
    lines = ["# Written by tests/pages/measure_operators.py. Do not edit."]
    for name, entry in sorted(found.items()):
        if entry.examples:
            lines += ["", f"[{name}]"]
            for key, order in (("plain", PLAIN), ("stored", STORED), ("kernels", tuple(CORES))):
                values = [f'"{value}"' for value in order if value in getattr(entry, key)]
                lines.append(f"{key} = [{', '.join(values)}]")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text_of(measured()), "utf-8")
    print(f"wrote {PAGE}")

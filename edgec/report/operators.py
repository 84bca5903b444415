"""The operators: the files and rows of `edgec/ops/`, and their names in formats."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

import edgec.ops
from edgec.graph.operator import Operator, all_ops
from edgec.ops.op import find_importer, importer_kinds
from edgec.ops.row import RowOp

#: Newer than any opset, so that the newest importer of a name is found.
ANY_OPSET = 1 << 20


@dataclass(frozen=True)
class OperatorFile:
    """One file of `edgec/ops/`, or one row of a table there.

    name: the file's name without `.py`. summary: the first sentence of its documentation.
    operators: names in the graph IR. onnx, tflite: the source operators that it imports.
    """

    name: str
    summary: str
    operators: tuple[str, ...]
    onnx: tuple[str, ...]
    tflite: tuple[str, ...]
    tolerance: float


def operator_files() -> tuple[OperatorFile, ...]:
    """Every file that registers an operator or an importer, by name, then every row of a table."""
    edgec.ops.load()
    operators: dict[str, list[Operator[Any]]] = {}
    rows = [op for op in all_ops() if isinstance(op, RowOp)]
    for op in all_ops():
        if op not in rows:
            operators.setdefault(type(op).__module__, []).append(op)
    onnx, tflite = _importers("onnx"), _importers("tflite")
    files = tuple(
        OperatorFile(
            name=module.rpartition(".")[2],
            summary=_summary(module),
            operators=tuple(op.name for op in operators.get(module, ())),
            onnx=tuple(onnx.get(module, ())),
            tflite=tuple(tflite.get(module, ())),
            tolerance=max((op.tolerance for op in operators.get(module, ())), default=0.0),
        )
        for module in sorted({*operators, *onnx, *tflite})
        # Tests register operators of their own.
        if module.startswith("edgec.ops.") and module != RowOp.__module__
    )
    return files + tuple(_row(op) for op in rows)


def _row(op: RowOp) -> OperatorFile:
    row = op.row
    return OperatorFile(
        "elementwise",
        row.meaning,
        (op.name,),
        (row.onnx,) if row.onnx else (),
        (row.tflite,) if row.tflite else (),
        op.tolerance,
    )


def _importers(format_name: str) -> dict[str, list[str]]:
    """Source operator names by the module that imports them."""
    found: dict[str, list[str]] = {}
    for kind in importer_kinds(format_name):
        importer = find_importer(format_name, kind, ANY_OPSET)
        if importer is not None:
            found.setdefault(importer.__module__, []).append(kind)
    return found


def _summary(module: str) -> str:
    text = " ".join((inspect.getdoc(sys.modules[module]) or "").partition("\n\n")[0].split())
    # "conv2d: a window's ..." repeats the table's first column.
    head, colon, meaning = text.partition(": ")
    return meaning if colon and len(head.split()) <= 3 else text

"""`edgec ops`: the operators that are supported."""

from __future__ import annotations

import textwrap

import click

from edgec.cli.arguments import json_option, print_json
from edgec.report.terminal import echo


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the operators that are supported, and how each format names them."""
    from edgec.frontends.onnx_functions import composed_kinds
    from edgec.frontends.torch_export import torch_kinds
    from edgec.graph.operator import all_ops
    from edgec.ops.op import importer_kinds
    from edgec.report.operators import operator_files
    from edgec.report.table import terminal_width

    files = operator_files()
    onnx = sorted({*importer_kinds("onnx"), *composed_kinds()})
    formats = {"tflite": importer_kinds("tflite"), "onnx": onnx, "torch": torch_kinds()}
    if as_json:
        meanings = {op: file for file in files for op in file.operators}
        rows = [
            {
                "op": op.name,
                "meaning": meanings[op.name].summary if op.name in meanings else "",
                "tolerance": op.tolerance,
            }
            for op in all_ops()
        ]
        print_json({"operators": rows, "formats": formats})
        return
    # Prose needs no more than a page's width, even where there is more.
    width = min(terminal_width(), 100)
    indent = max(len(", ".join(file.operators)) for file in files) + 2
    for file in files:
        if not file.operators:
            continue
        names = f"{', '.join(file.operators):<{indent}}"
        for text in (file.summary, _sources("TFLite", file.tflite), _sources("ONNX", file.onnx)):
            if text:
                margin = " " * indent
                echo(textwrap.fill(text, width, initial_indent=names, subsequent_indent=margin))
                names = margin
    for name, kinds in formats.items():
        echo(f"\n{name} operators that can be imported:")
        echo(textwrap.fill(", ".join(kinds), width, initial_indent="  ", subsequent_indent="  ",
                           break_long_words=False))  # fmt: skip


def _sources(format_name: str, kinds: tuple[str, ...]) -> str:
    return f"{format_name}: {', '.join(kinds)}" if kinds else ""

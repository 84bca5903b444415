"""`edgec ops`: the operators that are supported."""

from __future__ import annotations

import click

from edgec.cli.arguments import json_option, print_json


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the operators that are supported, and how each format names them."""
    import edgec.ops
    from edgec.graph.op import all_ops, importer_kinds

    edgec.ops.load()
    formats = {name: importer_kinds(name) for name in ("tflite", "onnx")}
    rows = [
        {
            "op": op.name,
            "meaning": (type(op).__doc__ or "").strip().splitlines()[0],
            "validation": op.validation.value,
        }
        for op in all_ops()
    ]
    if as_json:
        print_json({"operators": rows, "formats": formats})
        return
    width = max(len(row["op"]) for row in rows)
    for row in rows:
        click.echo(f"{row['op']:<{width}}  {row['meaning']}")
    for name, kinds in formats.items():
        click.echo(f"\n{name} operators that can be imported:\n  {', '.join(kinds)}")

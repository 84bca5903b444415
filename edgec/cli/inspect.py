"""`edgec inspect`: what is in a model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import MODEL, json_option, print_json


@click.command()
@click.argument("model", type=MODEL)
@click.option("--graph", is_flag=True, help="Print the whole graph as text.")
@json_option
def command(model: Path, graph: bool, as_json: bool) -> None:
    """Show a model's inputs, outputs, operators, weights and multiply-accumulates."""
    from edgec.frontends import import_model
    from edgec.graph.printer import print_module

    module = import_model(model)
    if graph:
        click.echo(print_module(module))
        return
    function = module.main
    macs = sum(node.op.macs(node.attrs, node.input_types) for node in function.nodes)
    report = {
        "model": model.name,
        "format": module.format,
        "inputs": [_value(value) for value in function.params],
        "outputs": [_value(value) for value in function.results],
        "operators": dict(Counter(node.op.name for node in function.nodes)),
        "macs": macs,
        "weights_bytes": sum(constant.type.nbytes for constant in function.constants()),
        "nodes": [
            {
                "name": node.name,
                "op": node.op.name,
                "outputs": [str(value.type) for value in node.outputs],
                "macs": node.op.macs(node.attrs, node.input_types),
            }
            for node in function.nodes
        ],
    }
    if as_json:
        print_json(report)
        return
    click.echo(f"{model.name} ({module.format}): {macs:,} MACs, "
               f"{report['weights_bytes']:,} bytes of constants")  # fmt: skip
    for word in ("inputs", "outputs"):
        for entry in report[word]:  # type: ignore[attr-defined]
            click.echo(f"  {word[:-1]:<7} {entry['name']}: {entry['type']}")
    width = max((len(node.op.name) for node in function.nodes), default=0)
    for node in function.nodes:
        count = node.op.macs(node.attrs, node.input_types)
        click.echo(f"  {node.op.name:<{width}}  {node.output.type!s:<48} {count:>12,}  {node.name}")


def _value(value: Any) -> dict[str, Any]:
    return {"name": value.name, "type": str(value.type)}

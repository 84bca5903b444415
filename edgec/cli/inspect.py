"""`edgec inspect`: the contents of a model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import INPUT_SHAPE, MODEL, compile_budget_option, json_option, print_json
from edgec.cli.progress import working
from edgec.report.terminal import echo, echo_lines


@click.command()
@click.argument("model", type=MODEL)
@click.option("--graph", is_flag=True, help="Print the whole graph as text.")
@click.option("--input-shape", type=INPUT_SHAPE, multiple=True,
              help="Shape of an ONNX input that is left open.")  # fmt: skip
@compile_budget_option
@json_option
def command(
    model: Path,
    graph: bool,
    input_shape: tuple[tuple[str, tuple[int, ...]], ...],
    compile_budget: float,
    as_json: bool,
) -> None:
    """Show a model's inputs, outputs, operators, weights and multiply-accumulates."""
    from edgec.graph.printer import print_module
    from edgec.options import Options
    from edgec.pipeline import read_model

    options = Options(input_shapes=input_shape, compile_budget=compile_budget)
    with working(f"reading {model.name}", quiet=as_json):
        module = read_model(model, options)
    if graph:
        echo(print_module(module))
        return
    function = module.main
    macs = function.macs
    report = {
        "model": model.name,
        "format": module.format,
        "inputs": [_value(value) for value in function.inputs],
        "outputs": [_value(value) for value in function.outputs],
        "states": [_value(state.before) for state in function.states],
        "operators": dict(Counter(node.op.name for node in function.nodes)),
        "macs": macs,
        "weights_bytes": sum(constant.type.nbytes for constant in function.constants()),
        "state_bytes": sum(state.before.type.nbytes for state in function.states),
        "nodes": [
            {
                "name": node.name,
                "op": node.op.name,
                "outputs": [str(value.type) for value in node.outputs],
                "macs": node.macs,
            }
            for node in function.nodes
        ],
    }
    if as_json:
        print_json(report)
        return
    echo_lines(_lines(module, report))


def _lines(module: Any, report: dict[str, Any]) -> list[str]:
    from edgec.report.table import Column, format_table, number

    function = module.main
    lines = [
        f"{report['model']} ({report['format']}): {report['macs']:,} MACs, "
        f"{report['weights_bytes']:,} bytes of constants",
        "",
    ]
    values = [
        (word, value.name, _shape(value), _quant(value))
        for word, values in (
            ("input", function.inputs),
            ("output", function.outputs),
            ("state", tuple(state.before for state in function.states)),
        )
        for value in values
    ]
    lines += format_table(
        (Column("", least=6), Column("", least=16, cut="start"), Column(""), Column("")), values
    )
    data = set(function.params)
    rows = []
    for node in function.nodes:
        if data.isdisjoint(node.inputs):
            continue
        data.update(node.outputs)
        macs = node.macs
        rows.append((node.op.name, _shape(node.outputs[0]), _quant(node.outputs[0]),
                     f"{macs:,}" if macs else "", node.name.split(";")[0]))  # fmt: skip
    columns = (
        Column("operator"), Column("output"), Column("scale, zero point", optional=1),
        number("MACs"), Column("node", least=24, cut="start"),
    )  # fmt: skip
    lines += ["", *format_table(columns, rows)]
    left_out = len(function.nodes) - len(rows)
    if left_out:
        lines += ["", f"{left_out} operators on constants alone are left out: see --graph"]
    return lines


def _shape(value: Any) -> str:
    return f"{value.type.dtype}[{','.join(str(extent) for extent in value.type.shape)}]"


def _quant(value: Any) -> str:
    quant = value.type.quant
    if quant is None:
        return ""
    if len(quant.scale) > 1:
        return f"{len(quant.scale)} scales"
    return f"{quant.scale[0]:.6g}, {quant.zero_point[0]}"


def _value(value: Any) -> dict[str, Any]:
    return {"name": value.name, "type": str(value.type)}

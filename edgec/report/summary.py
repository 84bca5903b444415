"""The summary of a build or a run: one dictionary, shown as JSON or as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgec.build.tensorrt import COMMAND, LIBRARY, SOURCE
from edgec.ops.custom import is_accelerated
from edgec.report.figures import count, picked, plural
from edgec.report.float_layers import float_layer_lines, float_layers
from edgec.report.ram_parts import ram_figures, ram_rows
from edgec.report.segments import driver_of, kernel_words, segment_lines, segment_rows, spare_layers
from edgec.report.table import Column, format_table, number, prose
from edgec.report.terminal import echo_lines

if TYPE_CHECKING:
    from edgec.deploy.project import Built
    from edgec.pipeline import Compiled


def build_report(compiled: Compiled, built: Built) -> dict[str, Any]:
    """All figures of a build, by the names that scripts rely on; sizes in bytes."""
    image = built.image
    program = compiled.program
    regions = {r.region: r for r in compiled.plan.certificate.regions}
    weights = image.weights_bytes if image else built.manifest.weights_bytes
    return {
        "model": program.model,
        "source": compiled.imported.source,
        "board": built.board.name if built.board else None,
        "core": program.target,
        "float_sums": program.float_sums,
        "project": str(built.project),
        "elf": str(built.artefact) if built.artefact else None,
        "macs": compiled.macs,
        "compiled_macs": program.macs,
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound": program.arena_lower_bound,
        "areas": [
            {"region": area.region, "bytes": area.nbytes,
             "lower_bound": regions[area.region].lower_bound_bytes}
            for area in program.areas
        ],
        "state_bytes": program.state_bytes,
        "weights_bytes": weights,
        **{name: getattr(image, name, None)
           for name in ("stack_bytes", "code_bytes", "flash_bytes", "ram_bytes")},
        **ram_figures(compiled, built),
        "removed_channels": [
            {"value": entry.value, "channels": entry.channels,
             "constant": {str(c): value for c, value in entry.constants.items()},
             "duplicate": {str(c): kept for c, kept in entry.duplicates.items()},
             "unread": list(entry.unread)}
            for entry in compiled.shrinkage
        ],
        "idle_clamps": [asdict(clamp) for clamp in compiled.idle_clamps],
        "overflows": [asdict(overflow) for overflow in compiled.overflows],
        "segments": segment_rows(program),
        "sizes": [asdict(size) for size in program.sizes],
        "open_shapes": {
            port.name: list(map(str, port.extents))
            for port in (*program.inputs, *program.outputs) if port.extents
        },
        "specialized": [
            dict(zip((size.name for size in program.sizes), version.sizes, strict=True))
            for version in program.versions
        ],
        "float_layers": float_layers(compiled.imported.main, compiled.module.main),
        "certificate": compiled.plan.certificate.to_dict(),
        "tuned": [
            lowered.group.name
            for lowered, variant in zip(compiled.groups, compiled.chosen, strict=True)
            if variant.is_tuned
        ],
        "tuned_left_out": compiled.tuned_left_out,
        "own_kernels": _own_kernels(compiled),
        "own_kernels_unused": bool(compiled.options.kernels) and not _own_kernels(compiled),
        "tensorrt_built": _has_tensorrt(built),
        "left_by_accelerator": _left(compiled),
        "front": [
            {"arena_bytes": point.need_bytes, "instructions": point.instructions,
             "streamed": [list(segment) for segment in point.segments],
             "taken": number == compiled.choice.taken}
            for number, point in enumerate(compiled.choice.front)
        ],
        "front_complete": compiled.choice.is_complete,
        "layers_without_gpu": spare_layers(program),
        "kernels": kernel_words(program),
        "driver": driver_of(program),
        "layers": [
            {"step": built.manifest.step_of(layer),
             **picked(layer, "title", "function", "shapes", "macs"),
             "sources": list(layer.sources)}
            for layer in built.manifest.layers
        ],
    }  # fmt: skip


def print_build(report: dict[str, Any]) -> None:
    figures = (
        *ram_rows(report),
        ("weights and tables", report["weights_bytes"], ""),
        ("code", report["code_bytes"], "start-up and link included"),
        ("flash in all", report["flash_bytes"], ""),
    )
    rows = [(what, count(size), note) for what, size, note in figures if size is not None]
    names = [name for name in (report["board"], report["core"]) if name]
    lines = [f"{report['source']} for {' on '.join(names)}", ""]
    lines += format_table((Column("what"), number("bytes"), Column("")), rows)
    layers = plural(len(report["layers"]) - report["layers_without_gpu"], "layer")
    said = [f"{report['macs']:,} multiply-accumulates in {layers}"]
    removed = report["removed_channels"]
    gone = sum(len(r["constant"]) + len(r["duplicate"]) + len(r["unread"]) for r in removed)
    if gone:
        said.append(
            f"{gone:,} constant, equal or unread channels removed: {report['compiled_macs']:,} "
            "multiply-accumulates remain"
        )
    said += [*segment_lines(report), *_size_lines(report), *_special_lines(report["specialized"])]
    said += _tuned_lines(report["tuned"], report["tuned_left_out"])
    said += _kernel_lines(report)
    said += _live_lines(report["certificate"])
    said += _front_lines(report["front"], report["front_complete"])
    said += [
        f"warning: accumulators of {o['source']} may leave {o['dtype']} and wrap: channel"
        f" {o['channel']} can be {o['low']:,} to {o['high']:,}"
        for o in report["overflows"]
    ]
    if report["float_sums"] == "free":
        said.append("sums of floats are reordered; --float-sums ordered gives the bits of a board")
    said += float_layer_lines(report["float_layers"])
    lines += ["", *(line for sentence in said for line in prose(sentence))]
    lines.append(f"project: {report['project']}")
    if report["elf"]:
        lines.append(f"binary:  {report['elf']}")
    echo_lines(lines)


def _size_lines(report: dict[str, Any]) -> list[str]:
    """The sizes that a run chooses, and the shapes that follow from them."""
    rows = (size.values() for size in report["sizes"])
    ranges = [f"size {name}: {least} to {most}" for name, least, most in rows]
    shapes = report["open_shapes"].items()
    return [*ranges, *(f"shape of {name}: [{', '.join(terms)}]" for name, terms in shapes)]


def _own_kernels(compiled: Compiled) -> list[dict[str, str]]:
    """The functions of the user's that took the place of ours, and the layers."""
    return [
        {"layer": lowered.group.name, "symbol": symbol}
        for lowered, variant in zip(compiled.groups, compiled.chosen, strict=True)
        for symbol in variant.their_functions
        if compiled.options.kernels
    ]


def _has_tensorrt(built: Built) -> bool | None:
    """Whether the library that calls TensorRT was built; None where no layer needs it."""
    if SOURCE not in built.manifest.files:
        return None
    return built.artefact is not None and (built.artefact.parent / LIBRARY).is_file()


def _left(compiled: Compiled) -> dict[str, int]:
    """Return the operators that the accelerator does not run, and how often they occur."""
    nodes = compiled.imported.main.nodes
    if not any(map(is_accelerated, nodes)):
        return {}
    return dict(Counter(node.op.name for node in nodes if not is_accelerated(node)))


def _special_lines(specialized: list[dict[str, int]]) -> list[str]:
    """The sizes that have code of their own."""
    words = (", ".join(f"{name}={n}" for name, n in sizes.items()) for sizes in specialized)
    return [f"specialized at {each}" for each in words]


def _tuned_lines(tuned: list[str], left_out: int) -> list[str]:
    """The layers with tuned schedules, and the parts of the file that are not for this core."""
    lines = [f"tuned: {', '.join(tuned)}"] if tuned else []
    if left_out:
        nests = plural(left_out, "tuned nest")
        lines.append(f"{nests} left out: measured for another core or by another compiler")
    return lines


def _kernel_lines(report: dict[str, Any]) -> list[str]:
    """The user's functions that replaced ours, and the layers that an accelerator did not take."""
    uses = ", ".join(f"{each['symbol']} for {each['layer']}" for each in report["own_kernels"])
    rest = ", ".join(f"{name} ({n})" for name, n in report["left_by_accelerator"].items())
    lines = [f"kernels of yours: {uses}"] if uses else []
    if report["own_kernels_unused"]:
        lines = ["kernels of yours: none is used: none fits a layer and is estimated to be faster"]
    if report["tensorrt_built"] is False:
        lines.append(f"no NvInfer.h was found: where TensorRT is, {COMMAND}")
    return [*lines, f"left to the processor: {rest}"] if rest else lines


def _live_lines(certificate: dict[str, Any]) -> list[str]:
    """The buffers live together at each region's peak, and the cost of waiting."""
    lines = []
    for region in certificate["regions"]:
        live = ", ".join(f"{e['buffer']} {e['bytes']:,}" for e in region["live_at_peak"])
        if live and region["region"] != "state":
            at = f"{region['region']}, live at the peak (step {region['peak_step']})"
            lines.append(f"{at}: {live}")
    if len([r for r in certificate["regions"] if r["region"] != "state"]) > 1:
        verdict = "the least" if certificate["cheapest_regions"] else "the least that was found"
        lines.append(
            f"waiting for memories: about {certificate['wait_cycles']:,} cycles, {verdict}"
        )
    return lines


def _front_lines(front: list[dict[str, Any]], is_complete: bool) -> list[str]:
    """The cost of using less memory, where there is a choice."""
    if len(front) < 2:
        return []
    fastest = front[0]["instructions"]
    points = [
        f"{point['arena_bytes']:,} (+{point['instructions'] / fastest - 1:.0%})"
        + ("*" if point["taken"] else "")
        for point in front
    ]
    lines = [f"arena against instructions, estimated, * taken: {', '.join(points)}"]
    if not is_complete:
        lines.append("edgec did not try the longest sequences of layers: there are too many")
    return lines

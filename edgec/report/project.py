"""`report.json` in the project folder: facts about a build that its C does not show.

`edgec build` writes it beside the manifest, `edgec report` reads it. Same build, same bytes: it
contains no time, no machine and no path. `profile.json` beside it has the last profile.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec import __version__
from edgec.build.ownership import add_to_marker
from edgec.build.staging import staged_file
from edgec.errors import BuildFailed, EdgecError, RunFailed
from edgec.graph.ir import Constant, Value
from edgec.loop.tuned import to_json
from edgec.report.figures import picked
from edgec.report.summary import build_report

if TYPE_CHECKING:
    from edgec.build.image import Image
    from edgec.deploy.project import Built
    from edgec.options import Options
    from edgec.pipeline import Compiled

REPORT_NAME = "report.json"
PROFILE_NAME = "profile.json"
REPORT_FORMAT = 3
#: A project's file of schedules that `edgec tune` found.
TUNED_NAME = "tuned.json"
#: No figure of a build is larger; a float holds it without overflow.
LARGEST = 1 << 62

#: The schema: key -> type of its value; a dictionary in brackets is a list of such dictionaries.
_OPTIONAL_INT = (int, type(None))
_OPTIONAL_TEXT = (str, type(None))
_REPORT_SHAPE: Mapping[str, Any] = {
    "edgec_version": str, "model": str, "source": str, "board": _OPTIONAL_TEXT,
    "board_title": str, "core": str, "options": dict, "macs": int, "arena_bytes": int,
    "arena_lower_bound": int, "state_bytes": int, "weights_bytes": int,
    "areas": [{"region": str, "bytes": int, "lower_bound": int}],
    "weights_in_ram_bytes": int, "code_in_ram_bytes": int,
    "stack_bytes": _OPTIONAL_INT, "stack_notes": [str], "code_bytes": _OPTIONAL_INT,
    "flash_bytes": _OPTIONAL_INT, "ram_bytes": _OPTIONAL_INT, "variables_bytes": _OPTIONAL_INT,
    "stack_reserved_bytes": _OPTIONAL_INT,
    "board_ram_bytes": int, "board_flash_bytes": int,
    "sections": [{"name": str, "bytes": int, "region": str}],
    "functions": [{"name": str, "file": str, "code_bytes": int, "frame_bytes": _OPTIONAL_INT,
                   "stack_bytes": _OPTIONAL_INT}],
    "layers": [{"step": int, "title": str, "name": str, "function": str, "shapes": str, "macs": int,
                "weights_bytes": int, "scratch_bytes": int}],
    "buffers": [{"name": str, "tensor": str, "kind": str, "region": str, "offset": int,
                 "bytes": int, "start": int, "stop": int}],
    "overlaps": [{"first": str, "second": str, "distance_bytes": int}],
    "graph": [{"step": _OPTIONAL_INT, "operators": str, "name": str, "inputs": [str],
               "output": str, "tensor": str, "shape": [int], "dtype": str}],
    "results": [str],
    "front": [{"arena_bytes": int, "instructions": int, "streamed": [[int]], "taken": bool}],
    "removed_channels": [{"value": str, "channels": int, "constant": dict, "duplicate": dict,
                          "unread": [int]}],
    "idle_clamps": [{"value": str, "minimum": int, "maximum": int, "low": int, "high": int}],
    "certificate": {"solver": str, "nodes": int, "optimal": bool, "regions": [
        {"region": str, "peak_bytes": int, "lower_bound_bytes": int, "gap_bytes": int,
         "optimal": bool, "proof": str, "peak_step": int,
         "live_at_peak": [{"buffer": str, "bytes": int}]}]},
}  # fmt: skip
_PROFILE_SHAPE: Mapping[str, Any] = {
    "schema_hash": int, "engine": str, "instructions": _OPTIONAL_INT, "cycles": _OPTIONAL_INT,
    "cycles_source": _OPTIONAL_TEXT, "stack_bytes": _OPTIONAL_INT,
    "layers": [{"instructions": _OPTIONAL_INT, "cycles": _OPTIONAL_INT}],
}  # fmt: skip


def project_report(compiled: Compiled, built: Built) -> dict[str, Any]:
    image, board, options = built.image, built.board, compiled.options
    report = build_report(compiled, built)
    report.pop("project")
    elf = report.pop("elf")
    for layer, more in zip(report["layers"], _memory_by_layer(compiled), strict=True):
        layer |= more
    return {
        "format": REPORT_FORMAT,
        "edgec_version": __version__,
        **report,
        "elf": Path(elf).relative_to(built.project).as_posix() if elf else None,
        "board_title": board.title if board else "",
        "board_ram_bytes": _board_ram_bytes(built),
        "board_flash_bytes": board.flash_bytes if board else 0,
        "options": _options(options),
        "stack_notes": list(image.stack_notes) if image else [],
        "sections": [
            picked(section, "name", "bytes", "region")
            for section in (image.sections if image else ())
        ],
        "functions": _functions(image),
        "buffers": _buffers(compiled),
        "overlaps": [dataclasses.asdict(overlap) for overlap in compiled.problem.overlaps],
        "graph": _graph(compiled),
        "results": [value.name for value in compiled.module.main.outputs],
    }


def _options(options: Options) -> dict[str, Any]:
    """The options that a build with the same C needs, but for the user's files."""
    own = picked(
        options, "io", "match", "unfused", "no_asm", "compiler", "c_optimize", "float_sums",
        "driver", "threads", "weights_form", "compile_budget", "max_ram_bytes",
    )  # fmt: skip
    offload, tuned = options.offload, options.tuned
    return {
        "optimize": str(options.optimize),
        **own,
        "offload": [offload] if isinstance(offload, str) else [*offload],
        "tuned": "none" if tuned.is_alone else TUNED_NAME if tuned.groups else None,
        "kernels": [getattr(each, "name", str(each)) for each in options.kernels],
        "input_shapes": {name: [*map(_extent, shape)] for name, shape in options.input_shapes},
        "input_values": dict(options.input_values),
        "specialize": {name: [*values] for name, values in options.specialize},
        "placements": [f"{what}={region}" for what, region in options.placements],
    }


def _extent(extent: int | range) -> int | str:
    """A number, or a range that is open as the option's text has it."""
    return f"{extent.start}..{extent.stop - 1}" if isinstance(extent, range) else extent


def _functions(image: Image | None) -> list[dict[str, Any]]:
    functions = sorted(
        image.functions if image else (), key=lambda f: (-f.code_bytes, f.name, f.file)
    )
    return [
        {"name": f.name, "file": Path(f.file).name,
         **picked(f, "code_bytes", "frame_bytes", "stack_bytes")}
        for f in functions
    ]  # fmt: skip


def write_report(compiled: Compiled, built: Built) -> None:
    """Write `report.json`, and the user's tuned schedules, into the project.

    `deploy` calls it before the folder gets its name.
    """
    tuned = compiled.options.tuned
    if tuned.groups:
        (built.project / TUNED_NAME).write_text(to_json(tuned), encoding="utf-8")
    text = json.dumps(project_report(compiled, built), indent=1, ensure_ascii=True) + "\n"
    (built.project / REPORT_NAME).write_bytes(text.encode("ascii"))


def load_report(folder: Path) -> dict[str, Any]:
    """The report of a project, with its profile (or None) under `profile`.

    Raises BuildFailed if the folder has none, or one that this edgec cannot read.
    """
    report = _read(folder / REPORT_NAME, _REPORT_SHAPE)
    if report is None:
        raise BuildFailed(
            f"{folder} has no {REPORT_NAME}", hint="give a folder that `edgec build -o` wrote"
        )
    if report.get("format") != REPORT_FORMAT:
        raise BuildFailed(
            f"{folder / REPORT_NAME} has format {report.get('format')!r}, this edgec reads "
            f"{REPORT_FORMAT}",
            hint="build the project again",
        )
    for entry in report["removed_channels"]:
        pairs = [*entry["constant"].items(), *entry["duplicate"].items()]
        if not all(c.isdecimal() and type(v) is int for c, v in pairs):
            raise BuildFailed(f"{folder / REPORT_NAME}: removed_channels hold no integers")
    profile = _read(folder / PROFILE_NAME, _PROFILE_SHAPE)
    if profile is not None and len(profile["layers"]) != len(report["layers"]):
        profile = None  # of an earlier build that someone copied over
    report["profile"] = profile
    return report


def keep_profile(built: Built, run: Mapping[str, Any]) -> bool:
    """Store `run_report`'s object of a profiled run as the project's `profile.json`.

    Returns whether that was possible: runs must work in read-only folders too.
    """
    profile = {key: run[key] for key in _PROFILE_SHAPE if key in run and key != "layers"}
    profile["energy_mj"] = run.get("energy_mj")
    profile["time_ms"] = run.get("time_ms")
    profile["schema_hash"] = built.manifest.schema_hash
    profile["layers"] = [
        {"instructions": row["instructions"], "cycles": row["cycles"]} for row in run["layers"]
    ]
    path = built.project / PROFILE_NAME
    try:
        with staged_file(path, hint="") as temporary:
            temporary.write_text(json.dumps(profile, indent=1) + "\n", encoding="ascii")
        add_to_marker(built.project, PROFILE_NAME)
    except (EdgecError, OSError):
        return False
    return True


def profile_project(folder: Path, *, seed: int = 1) -> None:
    """Run a project once in simulation on generated input and keep the profile in it.

    The project must have been built with `--trace`. Raises BuildFailed if it was not, RunFailed
    for a project that no simulator runs.
    """
    from edgec.deploy.project import open_project
    from edgec.report.run import run_report
    from edgec.runners.engine import open_session
    from edgec.runners.samples import generate_inputs

    built = open_project(folder, None, traced=True)
    assert built.board is not None
    if built.board.is_host:
        raise RunFailed(
            f"{folder} was built for {built.board.name}, where instructions are not counted",
            hint="build it for a microcontroller board",
        )
    engine = "core" if built.board.core.is_simulated else "qemu"
    inputs = generate_inputs(seed, [(port.shape, port.dtype) for port in built.manifest.inputs])
    with open_session(engine, built) as session:
        result, traced = session.run(inputs), session.run(inputs, profile=True)
    if not keep_profile(built, run_report(built, engine, [result], [traced], None)):
        raise RunFailed(f"cannot write {folder / PROFILE_NAME}", hint="make the folder writable")


def _board_ram_bytes(built: Built) -> int:
    """Bytes of all RAM regions that the program uses."""
    if built.board is None:
        return 0
    used = {section.region for section in built.image.sections} if built.image else set()
    regions = [built.board.memory[name] for name in used if name in built.board.memory]
    return sum(r.length for r in regions if r.kind == "ram") or built.board.ram_bytes


def _memory_by_layer(compiled: Compiled) -> list[dict[str, Any]]:
    """Return for each layer its name, the bytes of constants that it uses first, its scratch."""
    constants = compiled.program.constants
    seen: set[str] = set()

    def first_used(names: Iterable[str]) -> int:
        new = {name for name in names if name in constants} - seen
        seen.update(new)
        return sum(constants[name].nbytes for name in new)

    found = []
    for step, (lowered, variant) in zip(compiled.program.steps, compiled.every_group, strict=True):
        layers = [
            (own.group.name, part.constants, part.scratch_bytes)
            for own, part in zip(variant.parts, step.parts, strict=True)
        ] or [(lowered.group.name, step.args, variant.scratch_bytes)]
        found += [
            {"name": name, "weights_bytes": first_used(names), "scratch_bytes": scratch}
            for name, names, scratch in layers
        ]
    return found


def _buffers(compiled: Compiled) -> list[dict[str, Any]]:
    function = compiled.module.main
    values = {value.name: value for value in function.values()}
    states = {state.before.name for state in function.states}
    inputs, outputs = _names(function.inputs), _names(function.outputs)
    # An output can be a view of the buffer that holds its bytes.
    outputs |= {port.buffer for port in compiled.program.outputs}

    def kind(name: str) -> str:
        if name in states:
            return "state"
        if name in inputs:
            return "input"
        if name in outputs:
            return "output"
        return "activation" if name in values else "scratch"

    plan = compiled.plan
    return [
        {
            "name": buffer.name,
            "tensor": _tensor(values.get(buffer.name)),
            "kind": kind(buffer.name),
            "region": plan.region_of[buffer.name],
            "offset": plan.offsets[buffer.name],
            "bytes": buffer.size_bytes,
            "start": buffer.start,
            "stop": buffer.stop,
        }
        for buffer in compiled.problem.buffers
    ]


def _graph(compiled: Compiled) -> list[dict[str, Any]]:
    """Rows in the order of execution: inputs, layers, and the views between them."""
    layer_of = {
        node: (step, group)
        for step, (lowered, variant) in enumerate(
            zip(compiled.groups, compiled.chosen, strict=True)
        )
        for group in [part.group for part in variant.parts] or [lowered.group]
        for node in group.nodes
    }
    function = compiled.module.main
    rows = [_graph_row(None, "input", param.name, (), param) for param in function.inputs]
    rows += [_graph_row(None, "state", s.before.name, (), s.before) for s in function.states]
    for node in function.nodes:
        if node not in layer_of:
            rows += [
                _graph_row(None, node.op.name, node.name, node.inputs, v) for v in node.outputs
            ]
            continue
        step, group = layer_of[node]
        if node is group.nodes[-1]:
            operators = "+".join(member.op.name for member in group.nodes)
            first, *others = group.outputs
            rows.append(_graph_row(step, operators, group.name, group.inputs, first))
            rows += [_graph_row(None, "and", group.name, (first,), value) for value in others]
    return rows


def _graph_row(
    step: int | None, operators: str, name: str, inputs: tuple[Value, ...], output: Value
) -> dict[str, Any]:
    return {
        "step": step,
        "operators": operators,
        "name": name,
        "inputs": [value.name for value in inputs if not isinstance(value, Constant)],
        "output": output.name,
        "tensor": _tensor(output),
        "shape": [int(extent) for extent in output.type.shape],
        "dtype": output.type.dtype,
    }


def _tensor(value: Value | None) -> str:
    return value.origin.tensor if value is not None and value.origin is not None else ""


def _names(values: tuple[Value, ...]) -> set[str]:
    return {value.name for value in values}


def _read(path: Path, shape: Mapping[str, Any]) -> dict[str, Any] | None:
    """A JSON object of this shape; None if there is no file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        _check(raw, shape, path.name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as problem:
        raise BuildFailed(
            f"{path} is not readable: {problem}", hint="build the project again"
        ) from None
    found: dict[str, Any] = raw
    return found


def _check(value: Any, shape: Any, where: str) -> None:
    """Raise ValueError unless the value has the shape; unknown keys are ignored."""
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{where} is not an object")
        for key, inner in shape.items():
            if key not in value:
                raise ValueError(f"{where} lacks {key!r}")
            _check(value[key], inner, f"{where}: {key}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"{where} is not a list")
        for position, item in enumerate(value):
            _check(item, shape[0], f"{where}[{position}]")
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        # A bool is an int in Python, but no size.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{where} must be of type {kinds[0].__name__}")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"{where} is too large")

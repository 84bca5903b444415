"""The manifest: a generated project's description of itself for the tools on the host.

It is `manifest.json` in the project folder. Runners, link, simulator and reports read it and
never the generated C. Same program, same bytes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from edgec import __version__
from edgec.codegen.c_data import Weights
from edgec.codegen.foreign_text import foreign_texts, libraries_of
from edgec.codegen.names import port_names
from edgec.codegen.program import Port, Program, Size
from edgec.errors import BuildFailed, ContractError
from edgec.graph.ir import Count

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 2

T = TypeVar("T")


@dataclass(frozen=True)
class PortEntry:
    """An input or output: source tensor name, identifier in C, type, quantization, place.

    `extents`, where a size is open, are the dimensions as terms over the manifest's sizes; `shape`
    has the largest. `offset` is the place in the arena or another area, or -1 where the
    application's own memory is used.
    """

    name: str
    c_name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    bytes: int
    offset: int
    extents: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepEntry:
    """One step. Its end is traced with `id` (null pointer, 0 bytes); `function` is the C symbol,
    which several steps can share.

    `hook_calls` is how often one run calls the trace hook for it, at its end and at its values.
    """

    id: int
    title: str
    function: str
    sources: tuple[str, ...]
    shapes: str
    macs: int
    hook_calls: int


@dataclass(frozen=True)
class PartEntry(StepEntry):
    """One layer of the step `step`, which runs several layers row by row.

    The end of each of its rows is traced with `id` (null pointer, 0 bytes); `function` computes
    most of its rows. Time after the last row of all counts for the last part.
    """

    step: int


@dataclass(frozen=True)
class TraceEntry:
    """A traced value, available right after the end of step `step`.

    `array.reshape(shape).transpose(permutation)` has the layout of the tensor `source`; an empty
    permutation means the same layout. A value inside a body is shown as often as the body makes it,
    one after the other.
    """

    id: int
    step: int
    value: str
    source: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    permutation: tuple[int, ...]
    is_inside: bool = False


@dataclass(frozen=True)
class VersionEntry:
    """Steps `start` to `stop` - 1 run alone where the sizes are these, in the manifest's order."""

    sizes: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class LaunchEntry:
    """Steps whose kernels a GPU starts as one launch; its cost is listed at the first step."""

    steps: tuple[int, ...]


@dataclass(frozen=True)
class AreaEntry:
    """Memory of activations besides the arena, in a region of the board."""

    region: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """All that a tool needs to know of a generated model. Sizes are in bytes.

    `schema_hash` changes with the model's interface, `build_hash` with any byte of the model's C
    files. `harness` is the program that serves it on a board: "link" or "mlperf-tiny". `processor`
    is the core beside a GPU, if it runs steps; `without_gpu` are the steps that replace all others
    where there is no GPU. `weights_crc` is the CRC-32 (zlib's) of the constants in memory, which
    the model's self-test checks; None without a self-test. `foreign` are the copies of the user's
    files, `libraries` are needed to link them. `float_sums` are "ordered", or "free": with one
    rounding for a product and a sum. `launches` are a GPU graph's, in order.
    """

    format: int
    edgec_version: str
    model: str
    source_file: str
    board: str
    target: str
    schema_hash: int
    io: str
    arena_bytes: int
    arena_lower_bound: int
    arena_alignment: int
    state_bytes: int
    weights_bytes: int
    macs: int
    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry, ...]
    steps: tuple[StepEntry, ...]
    parts: tuple[PartEntry, ...]
    traces: tuple[TraceEntry, ...]
    files: tuple[str, ...]
    harness: str = "link"
    build_hash: int = 0
    weights_crc: int | None = None
    areas: tuple[AreaEntry, ...] = ()
    sizes: tuple[Size, ...] = ()
    counts: tuple[Count, ...] = ()
    versions: tuple[VersionEntry, ...] = ()
    processor: str = ""
    without_gpu: VersionEntry | None = None
    foreign: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    float_sums: str = "ordered"
    launches: tuple[LaunchEntry, ...] = ()

    def steps_at(self, sizes: Sequence[int]) -> range:
        """The numbers of the steps that run at these sizes."""
        found = [v for v in self.versions if v.sizes == tuple(sizes)]
        others = (*self.versions, *filter(None, (self.without_gpu,)))
        first = min((v.start for v in others), default=len(self.steps))
        return range(found[0].start, found[0].stop) if found else range(first)

    def traces_at(self, sizes: Sequence[int]) -> tuple[TraceEntry, ...]:
        """The values that runs of these sizes show."""
        steps = self.steps_at(sizes)
        return tuple(trace for trace in self.traces if trace.step in steps)

    def traces_shown(self, sizes: Sequence[int], ids: Collection[int]) -> tuple[TraceEntry, ...]:
        """The values that a run shows in place of these: without a GPU, other steps' values."""
        usual, others = self.traces_at(sizes), self.without_gpu
        if others is None or any(trace.id in ids for trace in usual):
            return usual
        return tuple(
            trace for trace in self.traces if trace.step in range(others.start, others.stop)
        )

    @property
    def answers(self) -> tuple[PortEntry, ...]:
        """The outputs of the model without the counts, which state how much of others is in use."""
        return self.outputs[: len(self.outputs) - len({c.number for c in self.counts})]

    @property
    def activation_bytes(self) -> int:
        return self.arena_bytes + sum(area.bytes for area in self.areas)

    @property
    def layers(self) -> tuple[StepEntry, ...]:
        """The entries with costs in a report, in order: steps, or the parts of a step."""
        found: list[StepEntry] = []
        for step in self.steps:
            found += [part for part in self.parts if part.step == step.id] or [step]
        return tuple(found)

    @staticmethod
    def step_of(layer: StepEntry) -> int:
        """The number of the step that a layer is, or is a part of."""
        return layer.step if isinstance(layer, PartEntry) else layer.id

    @property
    def sources(self) -> tuple[str, ...]:
        """The C files to compile, relative to the project folder."""
        return tuple(name for name in self.files if name.endswith((".c", ".S")))

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """The folders with headers, relative to the project folder."""
        folders = {name.rpartition("/")[0] or "." for name in self.files if name.endswith(".h")}
        return tuple(sorted(folders))

    def to_json(self) -> str:
        """Text of the file; keys in declaration order, one newline at the end."""
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=True) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read what `to_json` wrote; raises ContractError for anything else."""
        try:
            raw: dict[str, Any] = json.loads(text)
            if raw["format"] != MANIFEST_FORMAT:
                raise ContractError(
                    f"{MANIFEST_NAME} has format {raw['format']}, this edgec reads "
                    f"{MANIFEST_FORMAT}",
                    hint="build the project again",
                )
            fields = {
                key: tuple(_ENTRIES[key](**_tuples(item)) for item in value)
                if key in _ENTRIES
                else value
                for key, value in raw.items()
            }
            if raw["without_gpu"] is not None:
                fields["without_gpu"] = VersionEntry(**_tuples(raw["without_gpu"]))
            found = Manifest(**_tuples(fields))
            _check_types(found)
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise ContractError(
                f"{MANIFEST_NAME} is not readable: {problem}", hint="build the project again"
            ) from problem

    @staticmethod
    def load(folder: Path) -> Manifest:
        """Read `manifest.json` of a project folder.

        Raises BuildFailed if there is none, ContractError if it is not readable.
        """
        path = folder / MANIFEST_NAME
        try:
            return Manifest.from_json(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as problem:
            raise ContractError(f"{path} is not readable: it is not UTF-8") from problem
        except OSError as problem:
            raise BuildFailed(
                f"{folder} is not an edgec project: it has no {MANIFEST_NAME}",
                hint="give a model file, or a folder that `edgec build` made",
            ) from problem


_ENTRIES: dict[str, type] = {
    "inputs": PortEntry, "outputs": PortEntry, "steps": StepEntry, "parts": PartEntry,
    "traces": TraceEntry, "areas": AreaEntry, "sizes": Size, "counts": Count,
    "versions": VersionEntry, "launches": LaunchEntry,
}  # fmt: skip


def describe(
    program: Program,
    functions: tuple[str, ...],
    files: tuple[str, ...],
    weights: Weights,
    callees: Mapping[str, str],
    harness: str = "link",
    build_hash: int = 0,
    launches: Sequence[tuple[int, ...]] = (),
) -> Manifest:
    """Make the manifest; `functions` is the C symbol of each step, `files` the project's files.

    `callees` has the C symbols of the functions that steps call, `launches` the steps of each.
    """
    in_names, out_names = port_names(program)
    steps, parts, traces = _entries(program, functions, callees)
    return _like(
        Manifest,
        program,
        format=MANIFEST_FORMAT,
        edgec_version=__version__,
        arena_alignment=program.alignment,
        weights_bytes=weights.nbytes,
        inputs=tuple(map(partial(_port, program), program.inputs, in_names)),
        outputs=tuple(map(partial(_port, program), program.outputs, out_names)),
        steps=tuple(steps),
        parts=tuple(parts),
        traces=tuple(traces),
        files=files,
        harness=harness,
        build_hash=build_hash,
        weights_crc=weights.crc,
        areas=tuple(AreaEntry(area.region, area.nbytes) for area in program.areas),
        versions=tuple(_like(VersionEntry, version) for version in program.versions),
        without_gpu=program.without_gpu and _like(VersionEntry, program.without_gpu),
        foreign=tuple(foreign.name for foreign in foreign_texts(program)),
        libraries=libraries_of(program),
        launches=tuple(map(LaunchEntry, launches)),
    )


def _entries(
    program: Program, functions: tuple[str, ...], callees: Mapping[str, str]
) -> tuple[list[StepEntry], list[PartEntry], list[TraceEntry]]:
    steps: list[StepEntry] = []
    parts: list[PartEntry] = []
    traces: list[TraceEntry] = []
    for index, (step, first_id) in enumerate(zip(program.steps, program.first_ids, strict=True)):
        calls = 1 + sum(not trace.by_rows for trace in step.traces)
        entry = _like(StepEntry, step, id=index, function=functions[index], hook_calls=calls)
        steps.append(entry)
        for id_, part in enumerate(step.parts, first_id):
            at_end = calls if part is step.parts[-1] else 0
            parts.append(
                _like(PartEntry, part, id=id_, step=index, function=callees[part.callee],
                      hook_calls=part.hook_calls + at_end)
            )  # fmt: skip
        for id_, trace in enumerate(step.traces, first_id + len(step.parts)):
            traces.append(_like(TraceEntry, trace, id=id_, step=index, bytes=trace.nbytes))
    return steps, parts, traces


def _port(program: Program, port: Port, c_name: str) -> PortEntry:
    offset, extents = program.offsets.get(port.buffer, -1), tuple(map(str, port.extents))
    return _like(PortEntry, port, c_name=c_name, bytes=port.nbytes, offset=offset, extents=extents)


def _like(kind: type[T], source: object, **more: Any) -> T:
    """An object of a dataclass: the fields given, and all others as the source has them."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in more]  # type: ignore[arg-type]
    return kind(**{name: getattr(source, name) for name in names}, **more)


def _check_types(entry: object) -> None:
    """Raise TypeError unless each field has its annotated type."""
    for name, annotation in _hints(type(entry)).items():  # type: ignore[arg-type]
        value = getattr(entry, name)
        if not _fits(value, annotation):
            raise TypeError(f"'{name}' is {value!r:.60}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value has a type of the manifest's fields; numbers of JSON may lack their point."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(each, inside[0]) for each in value)
    if inside:  # a choice
        return any(_fits(value, each) for each in inside)
    if dataclasses.is_dataclass(value):
        _check_types(value)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is annotation


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in raw.items()}

"""The templates' input: every decision made, every name and number spelled in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from textwrap import wrap

from edgec import __version__
from edgec.boards.toolchain import FREE_SUMS
from edgec.codegen.c_data import (
    BLOB_BYTES,
    WEIGHTS_OBJECT,
    Weights,
    WeightsObject,
    comment_text,
    make_weights,
    section_macro,
    short_comment,
)
from edgec.codegen.c_function import emit_function
from edgec.codegen.c_text import CFunction, shows_rows, wrapped
from edgec.codegen.foreign_text import ForeignText, alignment_of, foreign_texts, libraries_of
from edgec.codegen.generalize import General, generalize
from edgec.codegen.gpu_text import GpuText, make_gpu_text
from edgec.codegen.graph_launches import LaunchText
from edgec.codegen.names import identifier, port_names, unique
from edgec.codegen.port_text import (
    Pointers,
    PortText,
    StateText,
    count_numbers,
    lifetime_notes,
    port_text,
    state_texts,
)
from edgec.codegen.program import DTYPE_BYTES, Program, ProgramRegions, Step, Version
from edgec.codegen.runtime_source import needed_functions
from edgec.codegen.share import SharedFunction, Side, share, share_callees
from edgec.loop.ir import Call
from edgec.loop.microkernel import macros_of_calls
from edgec.loop.rewrite import statements
from edgec.targets.core import CORES, WORD_BYTES, is_gpu

# Suffixes of the public functions: generated names must not take them.
PUBLIC = (
    "run", "feed_row", "set_size", "input_extent", "output_extent", "init", "input", "output",
    "reset", "selftest", "memory", "context", WEIGHTS_OBJECT, "constants",
    # of models on a GPU
    "run_async", "wait",
    "close", "open", "on_gpu", "cubin", "ptx", *(f"start_{part}" for part in range(99)),
)  # fmt: skip


@dataclass(frozen=True)
class FunctionText:
    """A step function with the comment lines above it, and its macro.

    constants: lines above both, with the arrays that calls pass by pointer.
    """

    comment: tuple[str, ...]
    text: str
    marker: str = "EC_STEP"
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class AreaText:
    """Memory of activations besides the arena: the pointer's name, and its macros' middle."""

    pointer: str
    upper: str
    bytes: int
    region: str


@dataclass(frozen=True)
class RegionText:
    """A region that code of the model lies in: its name, the section's macro, the macros' ends."""

    region: str
    macro: str
    marker: str


@dataclass(frozen=True)
class TraceText:
    id: int
    pointer: str
    bytes: int
    comment: str


@dataclass(frozen=True)
class CallText:
    id: int
    comment: str
    lines: tuple[str, ...]
    traces: tuple[TraceText, ...]
    launches: tuple[LaunchText, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True)
class VersionText:
    """Calls that run instead of all others if a condition holds; the sizes as words."""

    condition: str
    words: str
    calls: tuple[CallText, ...]


@dataclass(frozen=True)
class SizeText:
    """A size that each run may choose: the middle of its macro's name, and its range."""

    index: int
    name: str
    upper: str
    minimum: int
    maximum: int


@dataclass(frozen=True)
class FedText:
    """An input that is fed by rows: number of rows, bytes and alignment of each."""

    rows: int
    bytes: int
    alignment: int


@dataclass(frozen=True)
class GoldenText:
    """The golden runs: the seed of their inputs, the CRC-32 of their outputs, and how many."""

    seed: str
    crc: str
    steps: int


@dataclass(frozen=True)
class ModelText:
    """All of a model's files.

    front: the model that calls this one, whose context and memory it uses; "" for a complete model.
    compile_flags: a compiler's flags for the core, separated by semicolons, for builds on the
    computer without a toolchain file.
    """

    version: str
    model: str
    upper: str
    source_file: str
    made_for: str
    caller_io: bool
    caller_inputs: bool
    no_asm: bool
    threads: int
    has_blob: bool
    cpu_check: str
    fed: FedText | None
    hash: str
    arena_bytes: int
    arena_lower_bound: int
    alignment: int
    state_bytes: int
    weights_bytes: int
    weights_stored_bytes: int
    weights_struct_bytes: int
    weights_alignment: int
    weights_crc: str
    macs: int
    uses_float: bool
    inputs: tuple[PortText, ...]
    outputs: tuple[PortText, ...]
    states: tuple[StateText, ...]
    notes: tuple[str, ...]
    helpers: tuple[str, ...]
    functions: tuple[FunctionText, ...]
    calls: tuple[CallText, ...]
    weights: tuple[WeightsObject, ...]
    weights_crc_call: str
    golden: GoldenText | None
    areas: tuple[AreaText, ...]
    code_regions: tuple[RegionText, ...]
    copies: tuple[tuple[str, str], ...]
    state_region: str
    sizes: tuple[SizeText, ...]
    counts: tuple[str, ...]
    foreign: tuple[ForeignText, ...]
    libraries: tuple[str, ...]
    versions: tuple[VersionText, ...] = ()
    front: str = ""
    compile_flags: str = ""
    gpu: GpuText | None = None
    without_gpu: tuple[CallText, ...] = ()
    beside_gpu: bool = False

    @property
    def has_assembly(self) -> bool:
        """Whether a file of the user's is assembly."""
        return any(foreign.name.endswith(".S") for foreign in self.foreign)

    @property
    def uses_acle(self) -> bool:
        """Whether a helper calls functions of <arm_acle.h> where assembly is left out."""
        return any("EC_DSP_ACLE" in helper for helper in self.helpers)


@dataclass(frozen=True)
class EmittedModel:
    """The templates' input, the C symbol of each step, and the constants.

    functions: the C symbols of all functions that can be placed; callees: the C symbols of the
    functions that steps call, by their names in the program.
    """

    text: ModelText
    step_functions: tuple[str, ...]
    weights: Weights
    functions: tuple[str, ...]
    callees: Mapping[str, str]


@dataclass(frozen=True)
class _Functions:
    """The functions of a model's C: their texts, and for each step its symbol and numbers.

    callees: the C names of the functions that steps call; called: these names. shared: the symbols
    of functions that all threads run. failing: of functions that return a status.
    """

    texts: tuple[FunctionText, ...]
    step_functions: tuple[str, ...]
    step_numbers: tuple[tuple[int | str, ...], ...]
    callees: Mapping[str, str]
    called: tuple[str, ...]
    shared: frozenset[str]
    failing: frozenset[str]


def _emit_functions(program: Program, gpu: GpuText | None) -> _Functions:
    """All functions: the processor's and, with a GPU, the kernels' names for other steps."""
    regions = program.regions
    side: Side = None if gpu is None else "processor"
    shared = share(program, side)
    called = _emit_callees(program, side)
    callee_functions = [general.function for general in called.functions]
    callees = dict(called.names)
    taken = {f"{program.model}_{name}" for name in PUBLIC} | {f.name for f in callee_functions}
    launched: Mapping[int, str] = {}
    if gpu is not None:
        taken |= {*gpu.callees.values(), *gpu.step_functions.values()}
        callees |= gpu.callees
        launched = gpu.step_functions
    wanted = [f"{program.model}_{identifier(f.function.name)}" for f in shared]
    names = unique(wanted, taken=taken)
    step_functions = [launched.get(step, "") for step in range(len(program.steps))]
    step_numbers: list[tuple[int | str, ...]] = [()] * len(program.steps)
    functions = [_callee_text(program, general) for general in called.functions]
    # A callee whose loops threads share starts them itself.
    in_team = not any("#pragma omp" in f.text for f in callee_functions)
    called = replace(called, names=callees)
    emitted = [_emit_shared(program, *each, called, in_team=in_team)
               for each in zip(names, shared, strict=True)]  # fmt: skip
    for general in _generalized(program, emitted):
        name, steps = general.function.name, [shared[m].steps for m in general.members]
        marker = _marker("EC_STEP", name, regions)
        constants = tuple(part for line in general.constants for part in wrapped(line))
        comment = _function_comment(program, [step for each in steps for step in each])
        functions.append(FunctionText(comment, general.function.text, marker, constants))
        for each, numbers in zip(steps, general.numbers, strict=True):
            for step in each:
                step_functions[step], step_numbers[step] = name, numbers
    return _Functions(
        tuple(functions), tuple(step_functions), tuple(step_numbers), callees,
        tuple(f.name for f in callee_functions), frozenset(f.name for f in emitted if f.is_shared),
        frozenset(f.name for f in emitted if f.can_fail),
    )  # fmt: skip


def _emit_shared(
    program: Program, name: str, shared: SharedFunction, called: _Callees, *, in_team: bool
) -> CFunction:
    """The function of some steps; in_team: the threads that share its loops run already."""
    is_apart = in_team and all(_are_apart(program, program.steps[n]) for n in shared.steps)
    return emit_function(shared.function, name, callees=called.names, added=called.added,
                         known=shared.known, in_team=in_team, is_apart=is_apart)  # fmt: skip


def make_text(program: Program) -> EmittedModel:
    """Decide everything about how a program looks as C; `program` must have passed its check."""
    regions = program.regions
    core = CORES.get(program.processor or program.target)
    alignment = max(core.weight_alignment if core else WORD_BYTES, alignment_of(program))
    weights = make_weights(program.model, program.constants, regions.constants, alignment)
    gpu = None
    if is_gpu(program.target):  # kernels are in a file of their own
        gpu = make_gpu_text(program, weights, [f"{program.model}_{name}" for name in PUBLIC])
    emitted = _emit_functions(program, gpu)
    functions, step_functions = emitted.texts, emitted.step_functions
    pointers = Pointers(program, weights)
    calls = _calls(program, emitted, pointers)
    if gpu is not None:
        at = gpu.launches  # kernels instead of a step's call
        calls = tuple(replace(c, lines=(), launches=at[c.id]) if c.id in at else c for c in calls)
    # Functions called in one core's branch of an #if are unused on others, where clang would warn.
    processor = program.processor or program.target
    cpu_check = _cpu_check(processor)
    checks = [f"{cpu_check}()"] if cpu_check else []
    needed = needed_functions([*(f.text for f in functions), *checks])
    helpers = [
        f.text.replace("\nstatic inline ", "\nEC_HELPER ").replace(
            "\nstatic EC_KERNEL ", f"\nstatic {_marker('EC_KERNEL', f.name, regions)} "
        )
        for f in needed
    ]
    macros = macros_of_calls(_calls_of_kernels(program))
    if macros:
        lines = (f"#define {name} {value}" for name, value in macros.items())
        helpers.insert(0, "\n".join(("/* What kernels are fitted to this model by. */", *lines)))
    kernels = [f.name for f in needed if "\nstatic EC_KERNEL " in f.text]
    in_names, out_names = port_names(program)
    text = ModelText(
        version=__version__,
        model=program.model,
        upper=program.model.upper(),
        source_file=comment_text(program.source_file),
        made_for=comment_text(program.board or program.target or "any target"),
        caller_io=program.io == "caller",
        caller_inputs=program.io != "arena",
        no_asm=program.no_asm,
        threads=program.threads,
        has_blob=_has_blob(program, weights),
        cpu_check=cpu_check,
        fed=_fed(program),
        hash=f"0x{program.schema_hash:08X}u",
        arena_bytes=program.arena_bytes,
        arena_lower_bound=program.arena_lower_bound,
        alignment=program.alignment,
        state_bytes=program.state_bytes,
        weights_bytes=weights.nbytes,
        weights_stored_bytes=weights.stored_bytes,
        weights_struct_bytes=sum(part.struct_bytes for part in weights.objects),
        weights_alignment=weights.alignment,
        weights_crc="" if weights.crc is None else f"0x{weights.crc:08X}u",
        macs=program.macs,
        uses_float=any("float" in f.text or "double" in f.text for f in functions),
        inputs=tuple(
            port_text(program, port, name, i, "input", pointers)
            for i, (port, name) in enumerate(zip(program.inputs, in_names, strict=True))
        ),
        outputs=tuple(
            port_text(program, port, name, i, "output", pointers)
            for i, (port, name) in enumerate(zip(program.outputs, out_names, strict=True))
        ),
        states=state_texts(program, weights),
        notes=lifetime_notes(program),
        helpers=tuple(helpers),
        functions=functions,
        calls=calls[: len(program.general_steps)],
        weights=weights.objects,
        weights_crc_call=_crc_call(program.model, weights),
        golden=_golden(program),
        areas=tuple(
            AreaText(f"arena_{a.region}", f"ARENA_{a.region.upper()}", a.nbytes, a.region)
            for a in program.areas
        ),
        code_regions=_region_texts(regions.functions),
        copies=regions.copied,
        state_region=regions.state,
        sizes=_sizes(program),
        # where the numbers stand that say how much of an output is in use
        counts=tuple(pointers.raw(program.outputs[n].buffer) for n in count_numbers(program)),
        foreign=foreign_texts(program),
        libraries=libraries_of(program),
        compile_flags=compile_flags(processor, program.float_sums),
        versions=tuple(
            VersionText(
                pointers.condition(version),
                _words(program, version),
                calls[version.start : version.stop],
            )
            for version in program.versions
        ),
        gpu=gpu,
        without_gpu=calls[alone.start : alone.stop] if (alone := program.without_gpu) else (),
        beside_gpu=program.beside_gpu,
    )
    placeable = (*emitted.called, *dict.fromkeys(step_functions), *kernels)
    return EmittedModel(text, step_functions, weights, placeable, emitted.callees)


def _cpu_check(target: str) -> str:
    """The function that checks the processor for the target's features; "" if all have them."""
    features = CORES[target].features if target in CORES else frozenset[str]()
    checks = {"sse4": "ec_has_vectors_x86", "dotprod": "ec_has_vectors_aarch64"}
    return next((check for feature, check in checks.items() if feature in features), "")


def compile_flags(target: str, float_sums: str) -> str:
    """Flags of GCC and clang, separated by semicolons: for the vectors of a computer's core, but of
    its oldest kind, and for free sums of floats.
    """
    core = CORES.get(target)
    if core is None or core.is_embedded:
        return ""
    vectors = core.gcc_flags if core.has("sse4") or core.has("dotprod") else ()
    return ";".join((*vectors, *(FREE_SUMS if float_sums == "free" else ())))


def _has_blob(program: Program, weights: Weights) -> bool:
    """Whether constants are a file of bytes."""
    is_large = program.weights_form == "blob" or weights.stored_bytes >= BLOB_BYTES
    return bool(weights.objects) and program.weights_form != "text" and is_large


def _marker(word: str, function: str, regions: ProgramRegions) -> str:
    """The macro before a function, for its region."""
    region = regions.functions.get(function, "")
    return f"{word}_{region.upper()}" if region else word


def _region_texts(placed: Mapping[str, str]) -> tuple[RegionText, ...]:
    return tuple(
        RegionText(region, section_macro("code", region), region.upper())
        for region in sorted(set(placed.values()))
    )


def _calls_of_kernels(program: Program) -> Iterator[Call]:
    for function in (*(step.function for step in program.steps), *program.callees.values()):
        yield from (stmt for stmt in statements(function.body) if isinstance(stmt, Call))


def _crc_call(model: str, weights: Weights) -> str:
    """The C expression of the CRC over all structures of constants, one after the other."""
    call = "0xFFFFFFFFu"
    for part in weights.objects:
        name, size = f"{model}_{WEIGHTS_OBJECT}{part.suffix}", f"WEIGHTS{part.upper}_BYTES"
        call = (
            f"{model}_crc32({call}, (const uint8_t *)&{name},\n            {model.upper()}_{size})"
        )
    return call


@dataclass(frozen=True)
class _Callees:
    """The functions that steps call; by callee, its C name and the arguments it takes besides."""

    functions: tuple[General, ...]
    names: Mapping[str, str]
    added: Mapping[str, tuple[int | str, ...]]


def _callee_text(program: Program, general: General) -> FunctionText:
    name = general.function.name
    constants = tuple(part for line in general.constants for part in wrapped(line))
    comment = (f"/* Called by the steps below: {name}. */",)
    marker = _marker("EC_STEP", name, program.regions)
    return FunctionText(comment, general.function.text, marker, constants)


def _emit_callees(program: Program, side: Side) -> _Callees:
    """Equal functions are emitted once, also those that differ only in the structs for kernels."""
    shared = share_callees(program, side)
    names = unique(f"{program.model}_{identifier(s.function.name)}_row" for s in shared)
    mapping = {callee: name for name, s in zip(names, shared, strict=True) for callee in s.callees}
    emitted = [
        emit_function(s.function, name, callees=mapping, known=s.known)
        for name, s in zip(names, shared, strict=True)
    ]
    functions, added = generalize(emitted, by_structs=True), {}
    for general in functions:
        for member, numbers in zip(general.members, general.numbers, strict=True):
            for callee in shared[member].callees:
                mapping[callee], added[callee] = general.function.name, numbers
    return _Callees(functions, mapping, added)


def _are_apart(program: Program, step: Step) -> bool:
    """Whether no argument of a step lies over another one."""
    spans = sorted(
        (program.area_of.get(arg, ""), program.offsets[arg], program.buffers[arg])
        for arg in step.args if arg in program.offsets
    )  # fmt: skip
    return all(a != b or low + size <= high for (a, low, size), (b, high, _) in pairwise(spans))


def _generalized(program: Program, emitted: Sequence[CFunction]) -> tuple[General, ...]:
    """The steps' functions; if the program allows it, functions that differ only in integers are
    merged.
    """
    if program.merges_functions:
        return generalize(emitted)
    return tuple(General(function, (i,), ((),)) for i, function in enumerate(emitted))


def _function_comment(program: Program, steps: Sequence[int]) -> tuple[str, ...]:
    lines = []
    for index in steps:
        step = program.steps[index]
        parts = [f"step {index}: {step.title}", step.shapes]
        parts.append(f"{step.macs} MACs" if step.macs else "")
        lines.append("   ".join(comment_text(p) for p in parts if p))
        if step.sources:
            nodes = ", ".join(comment_text(s) for s in step.sources)
            lines += wrap(nodes, 92, initial_indent="    nodes: ", subsequent_indent=" " * 11,
                          break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return (f"/* {lines[0]}", *(f" * {line}" for line in lines[1:]), " */")


def _calls(program: Program, functions: _Functions, pointers: Pointers) -> tuple[CallText, ...]:
    calls = []
    for index, (step, first_id) in enumerate(zip(program.steps, program.first_ids, strict=True)):
        args = [
            pointers.typed(arg, param, step.function)
            for arg, param in zip(step.args, step.function.params, strict=True)
        ]
        if shows_rows(step.function):
            args = ["context", f"{first_id}u", *args]
        if step.function.indices:
            args += pointers.indices(step.function)
        args += map(str, functions.step_numbers[index])
        name = functions.step_functions[index]
        traces = []
        for id_, trace in enumerate(step.traces, first_id + len(step.parts)):
            if not trace.by_rows:
                pointer = pointers.raw(trace.buffer)
                traces.append(TraceText(id_, pointer, trace.nbytes, short_comment(trace.source)))
        calls.append(
            CallText(
                id=index,
                comment=short_comment(step.title),
                lines=tuple(_wrapped_call(name, args, ends=name in functions.failing)),
                traces=tuple(traces),
                is_shared=name in functions.shared,
            )
        )
    return tuple(calls)


def _wrapped_call(function: str, args: list[str], *, ends: bool = False) -> list[str]:
    """The lines of a call; with `ends` the run ends where it fails."""
    if ends:
        call = _wrapped_call(f"if ({function}", args)
        last = call[-1].removesuffix(";") + " != EC_OK) {"
        return [*call[:-1], last, "        return EC_ERR_NPU;", "    }"]
    lines = [f"    {function}("]
    for position, arg in enumerate(args):
        text = arg + (");" if position + 1 == len(args) else ",")
        if len(lines[-1]) + len(text) + 1 > 100:
            lines.append("        " + text)
        else:
            lines[-1] += text if lines[-1].endswith("(") else f" {text}"
    if not args:
        lines[-1] += ");"
    return lines


def _sizes(program: Program) -> tuple[SizeText, ...]:
    names = unique(identifier(size.name).upper() for size in program.sizes)
    return tuple(
        SizeText(index, comment_text(size.name), name, size.minimum, size.maximum)
        for index, (size, name) in enumerate(zip(program.sizes, names, strict=True))
    )


def _words(program: Program, version: Version) -> str:
    pairs = zip(program.sizes, version.sizes, strict=True)
    return comment_text(", ".join(f"{size.name} = {value}" for size, value in pairs))


def _fed(program: Program) -> FedText | None:
    if not program.fed_rows:
        return None
    port = program.inputs[0]
    return FedText(program.fed_rows, port.nbytes // program.fed_rows, DTYPE_BYTES[port.dtype])


def _golden(program: Program) -> GoldenText | None:
    if program.golden is None:
        return None
    golden = program.golden
    return GoldenText(f"{golden.seed}u", f"0x{golden.output_crc:08X}u", golden.steps)

"""What the templates are given: every decision made, every name and number spelled in C."""

from __future__ import annotations

from dataclasses import dataclass

from edgec import __version__
from edgec.codegen.c_data import DataArray, Weights, comment_text, make_weights
from edgec.codegen.c_function import CFunction, emit_function, writes_param
from edgec.codegen.c_types import C_TYPE, INT_RANGE, literal
from edgec.codegen.names import identifier, port_names, unique
from edgec.codegen.program import DTYPE_BYTES, Port, Program
from edgec.codegen.runtime_source import needed_functions
from edgec.codegen.share import SharedFunction, share
from edgec.loop.ir import Buffer, PrimFunc

# Suffixes of the public functions: generated names must not take them.
PUBLIC = ("run", "init", "input", "output", "reset", "selftest", "memory", "context")


@dataclass(frozen=True)
class PortText:
    """An input or output in the header and in run()."""

    index: int
    kind: str
    name: str
    upper_name: str
    dtype: str
    c_type: str
    shape: str
    shape_list: str
    rank: int
    elements: int
    bytes: int
    alignment: int
    offset: int
    in_arena: bool
    location: str
    pointer: str
    quantized: bool
    per_tensor: bool
    scale: str
    zero_point: str
    low: str
    high: str
    meaning: str


@dataclass(frozen=True)
class StateText:
    """A value of the state region and how reset fills it."""

    name: str
    offset: int
    bytes: int
    fill: int
    initial: str


@dataclass(frozen=True)
class FunctionText:
    """A step function with the comment lines above it."""

    comment: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class TraceText:
    """A traced value."""

    id: int
    pointer: str
    bytes: int
    comment: str


@dataclass(frozen=True)
class CallText:
    """A step in run()."""

    id: int
    comment: str
    lines: tuple[str, ...]
    traces: tuple[TraceText, ...]


@dataclass(frozen=True)
class GoldenText:
    """The golden run: the seed of its inputs and the CRC-32 of its outputs."""

    seed: str
    crc: str


@dataclass(frozen=True)
class ModelText:
    """Everything the model's files show."""

    version: str
    model: str
    upper: str
    source_file: str
    made_for: str
    caller_io: bool
    hash: str
    arena_bytes: int
    arena_lower_bound: int
    alignment: int
    state_bytes: int
    weights_bytes: int
    macs: int
    uses_float: bool
    inputs: tuple[PortText, ...]
    outputs: tuple[PortText, ...]
    states: tuple[StateText, ...]
    notes: tuple[str, ...]
    helpers: tuple[str, ...]
    functions: tuple[FunctionText, ...]
    calls: tuple[CallText, ...]
    weights: tuple[DataArray, ...]
    golden: GoldenText | None


@dataclass(frozen=True)
class EmittedModel:
    """The templates' input, the C symbol of each step, and the constants."""

    text: ModelText
    step_functions: tuple[str, ...]
    weights: Weights


def make_text(program: Program) -> EmittedModel:
    """Decide everything about how a program looks as C; `program` must have passed its check."""
    weights = make_weights(program.model, program.constants)
    shared = share(program)
    callees, callee_functions = _emit_callees(program)
    taken = {f"{program.model}_{name}" for name in PUBLIC} | {f.name for f in callee_functions}
    wanted = [f"{program.model}_{identifier(f.function.name)}" for f in shared]
    names = unique(wanted, taken=taken)
    step_functions = [""] * len(program.steps)
    functions: list[FunctionText] = [
        FunctionText((f"/* Called by the steps below: {f.name}. */",), f.text)
        for f in callee_functions
    ]
    for name, item in zip(names, shared, strict=True):
        emitted = emit_function(item.function, name, callees=callees, known=item.known)
        functions.append(FunctionText(_function_comment(program, item), emitted.text))
        for step in item.steps:
            step_functions[step] = name
    pointers = _Pointers(program, weights)
    calls = _calls(program, step_functions, pointers)
    helpers = [f.text for f in needed_functions(f.text for f in functions)]
    in_names, out_names = port_names(program)
    text = ModelText(
        version=__version__,
        model=program.model,
        upper=program.model.upper(),
        source_file=comment_text(program.source_file),
        made_for=comment_text(program.board or program.target or "any target"),
        caller_io=program.io == "caller",
        hash=f"0x{program.schema_hash:08X}u",
        arena_bytes=program.arena_bytes,
        arena_lower_bound=program.arena_lower_bound,
        alignment=program.alignment,
        state_bytes=program.state_bytes,
        weights_bytes=weights.nbytes,
        macs=sum(step.macs for step in program.steps),
        uses_float=any("float" in f.text or "double" in f.text for f in functions),
        inputs=tuple(
            _port_text(program, port, name, i, "input", pointers)
            for i, (port, name) in enumerate(zip(program.inputs, in_names, strict=True))
        ),
        outputs=tuple(
            _port_text(program, port, name, i, "output", pointers)
            for i, (port, name) in enumerate(zip(program.outputs, out_names, strict=True))
        ),
        states=_states(program, weights),
        notes=_lifetime_notes(program),
        helpers=tuple(helpers),
        functions=tuple(functions),
        calls=calls,
        weights=weights.arrays,
        golden=_golden(program),
    )
    return EmittedModel(text, tuple(step_functions), weights)


def _emit_callees(program: Program) -> tuple[dict[str, str], list[CFunction]]:
    names = unique(f"{program.model}_{identifier(name)}" for name in program.callees)
    mapping = dict(zip(program.callees, names, strict=True))
    functions = [
        emit_function(func, mapping[name], callees=mapping)
        for name, func in program.callees.items()
    ]
    return mapping, functions


def _function_comment(program: Program, item: SharedFunction) -> tuple[str, ...]:
    lines = []
    for index in item.steps:
        step = program.steps[index]
        parts = [f"step {index}: {step.title}", step.shapes]
        parts.append(f"{step.macs} MACs" if step.macs else "")
        lines.append("   ".join(comment_text(p) for p in parts if p))
        if step.sources:
            lines.append("    nodes: " + ", ".join(comment_text(s) for s in step.sources))
    return (
        f"/* {lines[0]}",
        *(f" * {line}" for line in lines[1:]),
        " */",
    )


class _Pointers:
    """C expressions for the buffers and constants that steps are called with."""

    def __init__(self, program: Program, weights: Weights) -> None:
        self._program = program
        self._weights = weights
        self._states = {state.buffer for state in program.states}
        self._inputs = {p.buffer: i for i, p in enumerate(program.inputs)}
        self._outputs = {p.buffer: i for i, p in enumerate(program.outputs)}

    def raw(self, name: str) -> str:
        """An untyped pointer to a buffer or constant."""
        if name in self._program.constants:
            return self._weights.names[name]
        if name in self._program.offsets:
            base = "state" if name in self._states else "arena"
            return f"{base} + {self._program.offsets[name]}"
        if name in self._inputs:
            return f"inputs[{self._inputs[name]}]"
        return f"outputs[{self._outputs[name]}]"

    def typed(self, name: str, param: Buffer, func: PrimFunc) -> str:
        """An argument for this parameter."""
        if name in self._program.constants:
            return self._weights.names[name]
        const = "" if writes_param(func, param) else "const "
        raw = self.raw(name)
        if name not in self._program.offsets:
            return f"({const}{C_TYPE[param.dtype]} *){raw}"
        # Through void *: the plan keeps elements aligned, which a cast check cannot see.
        through = "" if DTYPE_BYTES[param.dtype] == 1 else "(void *)"
        return f"({const}{C_TYPE[param.dtype]} *){through}({raw})"


def _calls(
    program: Program, step_functions: list[str], pointers: _Pointers
) -> tuple[CallText, ...]:
    calls = []
    next_id = len(program.steps)
    for index, step in enumerate(program.steps):
        args = [
            pointers.typed(arg, param, step.function)
            for arg, param in zip(step.args, step.function.params, strict=True)
        ]
        traces = []
        for trace in step.traces:
            pointer = pointers.raw(trace.buffer)
            traces.append(TraceText(next_id, pointer, trace.nbytes, comment_text(trace.source)))
            next_id += 1
        calls.append(
            CallText(
                id=index,
                comment=comment_text(step.title),
                lines=tuple(_wrapped_call(step_functions[index], args)),
                traces=tuple(traces),
            )
        )
    return tuple(calls)


def _wrapped_call(function: str, args: list[str]) -> list[str]:
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


def _port_text(
    program: Program, port: Port, name: str, index: int, kind: str, pointers: _Pointers
) -> PortText:
    elements = port.nbytes // DTYPE_BYTES[port.dtype]
    quantized = bool(port.scale) and port.dtype in ("int8", "uint8", "int16")
    per_tensor = quantized and len(port.scale) == 1
    low, high = INT_RANGE.get(port.dtype, (0, 0))
    scale = literal(port.scale[0], "float32") if per_tensor else ""
    zero_point = str(port.zero_point[0]) if per_tensor and port.zero_point else "0"
    in_arena = port.buffer in program.offsets
    meaning = ""
    if per_tensor:
        sign, size = ("+", -int(zero_point)) if int(zero_point) < 0 else ("-", int(zero_point))
        shifted = f"(q {sign} {size})" if size else "q"
        meaning = f"real = {scale.removesuffix('f')} * {shifted}"
    elif quantized:
        meaning = f"quantized per channel, {len(port.scale)} scales"
    return PortText(
        index=index,
        kind=kind,
        name=comment_text(port.name),
        upper_name=name.upper(),
        dtype=port.dtype,
        c_type=C_TYPE[port.dtype],
        shape="[" + ",".join(map(str, port.shape)) + "]",
        shape_list="{ " + ", ".join(map(str, port.shape or (1,))) + " }",
        rank=len(port.shape),
        elements=elements,
        bytes=port.nbytes,
        alignment=DTYPE_BYTES[port.dtype],
        offset=program.offsets.get(port.buffer, 0),
        in_arena=in_arena,
        location=f"arena + {program.offsets[port.buffer]}" if in_arena else "caller's memory",
        pointer=pointers.raw(port.buffer),
        quantized=quantized,
        per_tensor=per_tensor,
        scale=scale,
        zero_point=zero_point,
        low=str(low),
        high=str(high),
        meaning=meaning,
    )


def _states(program: Program, weights: Weights) -> tuple[StateText, ...]:
    return tuple(
        StateText(
            name=comment_text(state.name),
            offset=program.offsets[state.buffer],
            bytes=state.nbytes,
            fill=state.fill,
            initial="" if state.initial is None else weights.names[state.initial],
        )
        for state in program.states
    )


def _lifetime_notes(program: Program) -> tuple[str, ...]:
    """What a run destroys, and what destroys an output, from where the buffers lie."""
    if program.io == "caller":
        return (
            "Inputs and outputs lie in the caller's memory; run reads the inputs in place and",
            "does not change them. Inputs and outputs of one run must not overlap.",
        )
    written = {
        arg
        for step in program.steps
        for arg, param in zip(step.args, step.function.params, strict=True)
        if param.scope != "constant" and writes_param(step.function, param)
    }
    places = {
        name: (program.offsets[name], program.offsets[name] + program.buffers[name])
        for name in written
        if name in program.offsets
    }
    state_buffers = {state.buffer for state in program.states}
    notes = []
    for index, port in enumerate(program.inputs):
        if port.buffer not in program.offsets:
            continue
        start = program.offsets[port.buffer]
        stop = start + port.nbytes
        hit = any(
            a < stop and start < b for name, (a, b) in places.items() if name not in state_buffers
        )
        notes.append(
            f"run destroys input {index}: write it again before each run."
            if hit
            else f"run leaves input {index} as it was."
        )
    for out_index, out in enumerate(program.outputs):
        if out.buffer not in program.offsets:
            continue
        start = program.offsets[out.buffer]
        stop = start + out.nbytes
        over = [
            str(i)
            for i, port in enumerate(program.inputs)
            if port.buffer in program.offsets
            and program.offsets[port.buffer] < stop
            and start < program.offsets[port.buffer] + port.nbytes
        ]
        if over:
            notes.append(
                f"output {out_index} lives until the next run or until input "
                f"{', '.join(over)} is written, which shares its bytes."
            )
        else:
            notes.append(f"output {out_index} lives until the next run.")
    return tuple(notes)


def _golden(program: Program) -> GoldenText | None:
    if program.golden is None:
        return None
    return GoldenText(f"{program.golden.seed}u", f"0x{program.golden.output_crc:08X}u")

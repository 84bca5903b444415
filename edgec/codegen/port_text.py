"""How a program's inputs, outputs and state look as C, and where pointers to buffers come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.codegen.c_data import Weights, comment_text
from edgec.codegen.c_term import term_text
from edgec.codegen.c_text import writes_param
from edgec.codegen.c_types import C_TYPE, INT_RANGE, literal
from edgec.codegen.program import DTYPE_BYTES, Port, Program, Version
from edgec.loop.ir import Buffer, PrimFunc
from edgec.numerics.narrow_float import stored_in
from edgec.numerics.term import Term, Var


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
    extents: tuple[str, ...]
    used_bytes: str


@dataclass(frozen=True)
class StateText:
    """A value of the state region and how reset fills it."""

    name: str
    offset: int
    bytes: int
    fill: int
    initial: str


def area_name(program: Program, buffer: str) -> str:
    """The C name of the pointer to the memory that a buffer of activations lies in."""
    region = program.area_of.get(buffer)
    return "arena" if region is None else f"arena_{region}"


class Pointers:
    """C expressions for the buffers and constants that steps are called with."""

    def __init__(self, program: Program, weights: Weights) -> None:
        self._program = program
        self._weights = weights
        self._states = program.state_buffers
        self._inputs = {p.buffer: i for i, p in enumerate(program.inputs)}
        self._outputs = {p.buffer: i for i, p in enumerate(program.outputs)}

    def indices(self, func: PrimFunc) -> list[str]:
        """The arguments for the indices of a function: the row that is fed, or sizes."""
        if self._program.fed_rows:
            return ["(int32_t)context->row" for _ in func.indices]
        return [self.size(var) for var in func.indices]

    def size(self, var: Var) -> str:
        """The value of an open size."""
        names = [size.name for size in self._program.sizes]
        return f"(int32_t)context->sizes[{names.index(var.name)}]"

    def condition(self, version: Version) -> str:
        """Whether the sizes equal a version's."""
        pairs = enumerate(version.sizes)
        return " && ".join(f"context->sizes[{number}] == {value}u" for number, value in pairs)

    def extent(self, term: Term) -> str:
        if term.constant is not None:
            return f"{term.constant}u"
        return f"(uint32_t)({term_text(term, self.size).text})"

    def used_bytes(self, port: Port) -> str:
        """C for the bytes of a port in use: at a run's sizes its elements have no gaps."""
        if not any(term.parts for term in port.extents):
            return f"{port.nbytes}u"
        fixed = math.prod(term.offset for term in port.extents if not term.parts)
        factors = [self.extent(term) for term in port.extents if term.parts]
        return " * ".join((*factors, f"{fixed * DTYPE_BYTES[port.dtype]}u"))

    def raw(self, name: str) -> str:
        if name in self._program.constants:
            return self._weights.names[name]
        if name in self._program.offsets:
            base = "state" if name in self._states else area_name(self._program, name)
            return f"{base} + {self._program.offsets[name]}"
        if name in self._inputs and self._program.io == "rows":
            return "row"
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


def port_text(
    program: Program, port: Port, name: str, index: int, kind: str, pointers: Pointers
) -> PortText:
    """Everything the templates say about one port; `kind` is "input" or "output"."""
    elements = port.nbytes // DTYPE_BYTES[port.dtype]
    quantized = bool(port.scale) and port.dtype in ("int8", "uint8", "int16")
    per_tensor = quantized and len(port.scale) == 1
    low, high = INT_RANGE.get(port.dtype, (0, 0))
    scale = literal(port.scale[0], "float32") if per_tensor else ""
    zero_point = str(port.zero_point[0]) if per_tensor and port.zero_point else "0"
    in_arena = port.buffer in program.offsets
    meaning = f"quantized per channel, {len(port.scale)} scales" if quantized else ""
    if per_tensor:
        meaning = _meaning(scale, int(zero_point))
    counts = program.counts if kind == "output" else ()
    if any(count.output == index for count in counts):
        meaning = ", ".join(filter(None, (meaning, "data decide how much of it is in use")))
    if any(count.number == index for count in counts):
        meaning = "how much of another output is in use"
    return PortText(
        index=index,
        kind=kind,
        name=comment_text(port.name),
        upper_name=name.upper(),
        dtype=port.dtype,
        c_type=C_TYPE[stored_in(port.dtype)],
        shape="[" + ",".join(map(str, port.extents or port.shape)) + "]",
        shape_list="{ " + ", ".join(map(str, port.shape or (1,))) + " }",
        rank=len(port.shape),
        elements=elements,
        bytes=port.nbytes,
        alignment=DTYPE_BYTES[port.dtype],
        offset=program.offsets.get(port.buffer, 0),
        in_arena=in_arena,
        location=pointers.raw(port.buffer) if in_arena else "caller's memory",
        pointer=pointers.raw(port.buffer),
        quantized=quantized,
        per_tensor=per_tensor,
        scale=scale,
        zero_point=zero_point,
        low=str(low),
        high=str(high),
        meaning=meaning,
        extents=_extents(program, port, index, kind, pointers),
        used_bytes=pointers.used_bytes(port),
    )


def _extents(
    program: Program, port: Port, index: int, kind: str, pointers: Pointers
) -> tuple[str, ...]:
    """The dimensions that a port has now, as C; empty where it always has its shape."""
    counted = {c.axis: c.number for c in program.counts if (kind, c.output) == ("output", index)}
    if not counted:
        return tuple(map(pointers.extent, port.extents))
    numbers = count_numbers(program)
    return tuple(
        f"context->counts[{numbers.index(counted[axis])}]" if axis in counted else f"{extent}u"
        for axis, extent in enumerate(port.shape)
    )


def count_numbers(program: Program) -> list[int]:
    """The outputs that say how much of others is in use."""
    return sorted({count.number for count in program.counts})


def _meaning(scale: str, zero_point: int) -> str:
    """`real = 0.5 * (q - 3)`."""
    sign = "+" if zero_point < 0 else "-"
    shifted = f"(q {sign} {abs(zero_point)})" if zero_point else "q"
    return f"real = {scale.removesuffix('f')} * {shifted}"


def state_texts(program: Program, weights: Weights) -> tuple[StateText, ...]:
    """The state region's values, in the program's order."""
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


def lifetime_notes(program: Program) -> tuple[str, ...]:
    """Return notes on inputs that a run overwrites, and on the lifetimes of outputs."""
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
    } - program.state_buffers
    places = [_span(program, name, program.buffers[name]) for name in written]
    inputs = [_span(program, port.buffer, port.nbytes) for port in program.inputs]
    notes = []
    if program.io == "rows":
        notes += [
            "A row may be reused when feed_row returns. Feeding destroys the outputs of the run",
            "before; nothing else may use the arena between the first row and the end of the run.",
        ]
    for index, span in enumerate(inputs):
        if any(_meet(span, place) for place in places):
            notes.append(f"run destroys input {index}: write it again before each run.")
        elif span is not None:
            notes.append(f"run leaves input {index} as it was.")
    for index, port in enumerate(program.outputs):
        span = _span(program, port.buffer, port.nbytes)
        if span is not None:
            over = [str(i) for i, other in enumerate(inputs) if _meet(span, other)]
            notes.append(_output_note(index, over))
    return tuple(notes)


def _output_note(index: int, over: Sequence[str]) -> str:
    until = "the next run"
    if over:
        until += f" or until input {', '.join(over)} is written, which shares its bytes"
    return f"output {index} lives until {until}."


#: A region of activations, and the offsets [start, stop) there.
_Span = tuple[str | None, int, int]


def _span(program: Program, buffer: str, nbytes: int) -> _Span | None:
    """Bytes of a buffer in the arena or states; None in the caller's memory, or for a constant."""
    if buffer not in program.offsets:
        return None
    start = program.offsets[buffer]
    return program.area_of.get(buffer), start, start + nbytes


def _meet(one: _Span | None, other: _Span | None) -> bool:
    """Whether two places share bytes."""
    if one is None or other is None or one[0] != other[0]:
        return False
    return one[1] < other[2] and other[1] < one[2]

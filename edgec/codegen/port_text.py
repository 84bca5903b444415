"""How a program's inputs, outputs and state look as C, and where pointers to buffers come from."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.codegen.c_data import Weights, comment_text
from edgec.codegen.c_function import writes_param
from edgec.codegen.c_term import term_text
from edgec.codegen.c_types import C_TYPE, INT_RANGE, literal
from edgec.codegen.program import DTYPE_BYTES, Port, Program
from edgec.loop.ir import Buffer, PrimFunc
from edgec.numerics.term import Term, Var, as_term


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

    def extent(self, term: Term) -> str:
        """A dimension of a port, as uint32_t."""
        if term.constant is not None:
            return f"{term.constant}u"
        return f"(uint32_t)({term_text(term, self.size).text})"

    def raw(self, name: str) -> str:
        """An untyped pointer to a buffer or constant."""
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
        extents=tuple(map(pointers.extent, port.extents)),
        used_bytes=_used_bytes(port, pointers),
    )


def _used_bytes(port: Port, pointers: Pointers) -> str:
    """How many bytes of a port are in use: rows beyond an open first size are not."""
    first, *rest = port.extents or (as_term(0),)
    if first.constant is not None or any(term.constant is None for term in rest):
        return f"{port.nbytes}u"
    return f"{pointers.extent(first)} * {port.nbytes // port.shape[0]}u"


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
    state_buffers = program.state_buffers
    places = {
        name: (program.offsets[name], program.offsets[name] + program.buffers[name])
        for name in written
        if name in program.offsets and name not in state_buffers
    }

    def same_memory(first: str, second: str) -> bool:
        return program.area_of.get(first) == program.area_of.get(second)

    notes = []
    if program.io == "rows":
        notes += [
            "A row may be reused when feed_row returns. Feeding destroys the outputs of the run",
            "before; nothing else may use the arena between the first row and the end of the run.",
        ]
    for index, port in enumerate(program.inputs):
        if port.buffer not in program.offsets:
            continue
        start = program.offsets[port.buffer]
        stop = start + port.nbytes
        hit = any(
            a < stop and start < b and same_memory(port.buffer, name)
            for name, (a, b) in places.items()
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
            and same_memory(port.buffer, out.buffer)
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

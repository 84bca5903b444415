"""Codegen's input: the steps of one model, its constants, and the places of all buffers."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgec.errors import ContractError
from edgec.graph.ir import Count
from edgec.loop.ir import Buffer, PrimFunc
from edgec.numerics.narrow_float import STORED_IN
from edgec.numerics.term import Term
from edgec.options import Driver, FloatSums

IoMode = Literal["arena", "caller", "rows"]
WeightsForm = Literal["auto", "text", "blob"]

DTYPE_BYTES: Mapping[str, int] = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8, "float32": 4, "float64": 8,
    **{name: int(stored.removeprefix("uint")) // 8 for name, stored in STORED_IN.items()},
}  # fmt: skip


def count_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a dense row-major array."""
    return DTYPE_BYTES[dtype] * math.prod(shape)


@dataclass(frozen=True)
class Size:
    """An open size: its name and its range."""

    name: str
    minimum: int
    maximum: int


@dataclass(frozen=True)
class Port:
    """An input or output of the model.

    `name` is the source file's tensor name, `c_name` the identifier it becomes (empty: derived
    from the name). `scale` and `zero_point` are empty for a tensor that is not quantized, have
    one entry per tensor, or one per channel of the last axis. `buffer` holds the value. `extents`,
    where a size is open, are the dimensions; `shape` has the largest.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: str
    c_name: str = ""
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    extents: tuple[Term, ...] = ()

    @property
    def nbytes(self) -> int:
        return count_bytes(self.dtype, self.shape)


@dataclass(frozen=True)
class State:
    """A value that lives from one run to the next, at `offsets[buffer]` of the state region.

    `after` is the buffer's name for the steps that compute its new value: the same bytes. Reset
    fills it from the constant named `initial`, or with the byte `fill` if that is None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: str
    after: str = ""
    initial: str | None = None
    fill: int = 0

    @property
    def nbytes(self) -> int:
        return count_bytes(self.dtype, self.shape)


@dataclass(frozen=True)
class Trace:
    """A value that exists in memory when its step has ended and that can be compared.

    `value` is the graph IR's name, `source` the tensor of the model file it stands for. `shape`
    is the emitted, row-major shape; `array.reshape(shape).transpose(permutation)` has the source
    tensor's layout (an empty permutation means: the same layout). With `by_rows` it exists only
    row by row while the step runs, and the step's function shows each row when it is made. With
    `is_inside` it is a value of a body, shown as a whole whenever the body makes it, maybe never.
    """

    value: str
    buffer: str
    source: str
    dtype: str
    shape: tuple[int, ...]
    permutation: tuple[int, ...] = ()
    by_rows: bool = False
    is_inside: bool = False

    @property
    def nbytes(self) -> int:
        return count_bytes(self.dtype, self.shape)


@dataclass(frozen=True)
class Part:
    """One layer of a step that runs several row by row; other fields are as in `Step`.

    `callee` is the function that computes most of its rows, `constants` are its inputs.
    `hook_calls` is how often the step's function reports its rows and shows them.
    """

    title: str
    sources: tuple[str, ...]
    shapes: str
    macs: int
    callee: str
    constants: tuple[str, ...]
    scratch_bytes: int
    hook_calls: int


@dataclass(frozen=True)
class Step:
    """One call of a PrimFunc. `args` names a buffer or constant for each parameter.

    `title` is for people ('conv2d "model/conv1"'), `sources` are the node names of the model file
    that this step computes, `shapes` is text such as '[1,49,10,1] -> [1,25,5,64]'. In a program for
    a GPU, the processor beside it runs the steps that are `on_processor`.
    """

    function: PrimFunc
    args: tuple[str, ...]
    title: str
    sources: tuple[str, ...] = ()
    shapes: str = ""
    macs: int = 0
    parts: tuple[Part, ...] = ()
    traces: tuple[Trace, ...] = ()
    on_processor: bool = False


@dataclass(frozen=True)
class Version:
    """Steps that run instead of all others if the open sizes have certain values.

    sizes: in the program's order. start, stop: its steps. Inputs, outputs and states lie where they
    do for all sizes.
    """

    sizes: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Area:
    region: str
    nbytes: int


@dataclass(frozen=True)
class Golden:
    """Runs with a known answer, from the initial state on.

    The inputs of `steps` runs are drawn in C as `edgec.runners.samples.generate_steps` draws them
    from `seed`; `output_crc` is the CRC-32 (zlib's) of all outputs' bytes, run by run.
    """

    seed: int
    output_crc: int
    steps: int = 1


@dataclass(frozen=True)
class ProgramRegions:
    """Regions of the board other than the linker's default.

    constants: by name. functions: by C name, of the steps' functions and of the kernels that they
    call. state: for all states, "" for the region of variables. ram: the regions that are RAM, to
    which constants and code are copied before the model runs.
    """

    constants: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    ram: frozenset[str] = frozenset()

    @property
    def copied(self) -> tuple[tuple[str, str], ...]:
        """("weights" or "code", region) of the data copied to RAM."""
        return tuple(part for part in self.parts if part[1] in self.ram)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Sections in other memory: of weights that are copied to RAM, and of code."""
        weights = sorted(set(self.constants.values()) & self.ram)
        code = sorted(set(self.functions.values()))
        return (*(("weights", region) for region in weights), *(("code", r) for r in code))


@dataclass(frozen=True)
class Program:
    """One model, ready to be written as C.

    `model` is the C identifier that prefixes everything, `source_file` the model file's name
    without folders. `buffers` has sizes in bytes, `offsets` the places. The application aligns all
    memories to `alignment` bytes. `arena_lower_bound` is the planner's certificate. `areas` are
    sizes of activations outside the arena, and `area_of` names the region of each such buffer.
    `regions` has other placements in regions of the board. With `merges_functions`, functions that
    differ only in integers become one. `no_asm` keeps assembly out of the C. `threads` share its
    parallel loops. With free `float_sums`, a product and a sum may be one instruction.
    `weights_form` is the form of constants in C. `sizes` can be chosen in each run; `counts` are
    the used lengths of outputs that depend on data. `versions` are for some values of the sizes;
    the steps before theirs run for all others. In a program for a GPU, `driver` is how its kernels
    are started (`edgec.codegen.one_launch`), `processor` is the core beside it if that runs steps,
    and `without_gpu` has the steps that replace all others if there is no GPU. A program for a
    processor is `beside_gpu` if none of its steps is faster on a GPU: it has the same API.
    """

    model: str
    source_file: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, np.ndarray]
    buffers: Mapping[str, int]
    offsets: Mapping[str, int]
    arena_bytes: int
    states: tuple[State, ...] = ()
    state_bytes: int = 0
    arena_lower_bound: int = 0
    alignment: int = 16
    io: IoMode = "arena"
    no_asm: bool = False
    threads: int = 1
    float_sums: FloatSums = "ordered"
    weights_form: WeightsForm = "auto"
    golden: Golden | None = None
    board: str = ""
    target: str = ""
    callees: Mapping[str, PrimFunc] = field(default_factory=dict)
    areas: tuple[Area, ...] = ()
    area_of: Mapping[str, str] = field(default_factory=dict)
    regions: ProgramRegions = field(default_factory=lambda: ProgramRegions())
    merges_functions: bool = False
    sizes: tuple[Size, ...] = ()
    counts: tuple[Count, ...] = ()
    versions: tuple[Version, ...] = ()
    processor: str = ""
    beside_gpu: bool = False
    driver: Driver = "auto"
    without_gpu: Version | None = None

    @property
    def general_steps(self) -> tuple[Step, ...]:
        """The steps that run where no version does."""
        others = (*self.versions, *filter(None, (self.without_gpu,)))
        return self.steps[: min((v.start for v in others), default=len(self.steps))]

    @property
    def macs(self) -> int:
        """Multiply-accumulates that the compiled model does at its largest sizes."""
        return sum(step.macs for step in self.general_steps)

    @property
    def activation_bytes(self) -> int:
        return self.arena_bytes + sum(area.nbytes for area in self.areas)

    @property
    def fed_rows(self) -> int:
        """Rows that step 0 is fed, 0 with another io."""
        return self.inputs[0].shape[1] if self.io == "rows" else 0

    @property
    def schema_hash(self) -> int:
        """32 bits over everything that host and device must agree on: names, types and traces."""
        lines = [self.model, self.io, str(self.arena_bytes), str(self.state_bytes)]
        lines += [f"{area.region}:{area.nbytes}" for area in self.areas]
        for port in (*self.inputs, *self.outputs):
            lines.append(f"{port.name}:{port.dtype}:{port.shape}")
        lines += [f"{size.name}:{size.minimum}:{size.maximum}" for size in self.sizes]
        for port in (*self.inputs, *self.outputs):
            lines += map(str, port.extents)
        lines += map(str, self.counts)
        lines += [f"{v.sizes}:{v.start}:{v.stop}" for v in self.versions]
        for step in self.steps:
            lines += [step.title, *(part.title for part in step.parts)]
            lines += [f"{t.value}:{t.dtype}:{t.shape}:{t.source}" for t in step.traces]
        return zlib.crc32("\n".join(lines).encode())

    @property
    def first_ids(self) -> tuple[int, ...]:
        """Return the id of each step's first part; ids of its other parts and traces follow.

        Ids of steps are their positions.
        """
        counts = (len(step.parts) + len(step.traces) for step in self.steps)
        return tuple(itertools.accumulate(counts, initial=len(self.steps)))[:-1]

    @property
    def state_buffers(self) -> frozenset[str]:
        return frozenset(n for state in self.states for n in (state.buffer, state.after) if n)

    def check(self) -> None:
        """Raise ContractError unless names, sizes and counts fit together."""
        self._check_places()
        for port in (*self.inputs, *self.outputs):
            placed = port.buffer in self.offsets
            _require(
                placed or self.io != "arena" or port.buffer in self.constants,
                f"port {port.name!r}: buffer {port.buffer!r} has no offset",
            )
            fits = not placed or self.buffers[port.buffer] >= port.nbytes
            _require(fits, f"port {port.name!r} is larger than its buffer")
        self._check_states()
        for step in self.steps:
            given, wanted = len(step.args), len(step.function.params)
            _require(given == wanted, f"{step.title}: {given} arguments for {wanted} parameters")
            for param, arg in zip(step.function.params, step.args, strict=True):
                self._check_argument(step, param, arg)

    def _check_states(self) -> None:
        for state in self.states:
            _require(state.buffer in self.offsets, f"state {state.name!r} has no offset")
            same = not state.after or self.offsets.get(state.after) == self.offsets[state.buffer]
            _require(same, f"state {state.name!r} gets its new value in another place")

    def _check_places(self) -> None:
        """Every buffer with an offset has a size and lies inside its region."""
        state_buffers = self.state_buffers
        area_bytes = {area.region: area.nbytes for area in self.areas}
        for name, offset in self.offsets.items():
            _require(name in self.buffers, f"buffer {name!r} has an offset but no size")
            limit = self.state_bytes if name in state_buffers else self.arena_bytes
            limit = area_bytes[self.area_of[name]] if name in self.area_of else limit
            fits = offset >= 0 and offset + self.buffers[name] <= limit
            _require(fits, f"buffer {name!r} leaves its region of {limit} bytes")

    def _check_argument(self, step: Step, param: Buffer, arg: str) -> None:
        if arg in self.constants:
            array = self.constants[arg]
            fits = array.size == param.elements and array.dtype.name == param.dtype
            _require(
                param.scope == "constant" and fits,
                f"{step.title}: constant {arg!r} does not fit {param.name!r}",
            )
        elif arg in self.offsets:
            need = count_bytes(param.dtype, param.shape)
            _require(
                need <= self.buffers[arg],
                f"{step.title}: {param.name!r} needs {need} bytes of {arg!r}",
            )
            _require(
                self.offsets[arg] % DTYPE_BYTES[param.dtype] == 0,
                f"{step.title}: {arg!r} is not aligned for {param.dtype}",
            )
        else:
            ports = {port.buffer for port in (*self.inputs, *self.outputs)}
            _require(arg in ports, f"{step.title}: unknown argument {arg!r}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(f"program: {message}")

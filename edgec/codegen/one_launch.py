"""One launch for a whole model: one block of threads, or one grid whose blocks wait for each other.

    EC_BLOCK_GLOBAL void kws_block(uint8_t *outside, ...) {
        EC_BLOCK_MEMORY(arena);
        EC_BLOCK_COPY(arena + 0, outside + 0, 490);       the inputs
        EC_BLOCK_BARRIER();
        kws_conv2d_1(...);                                a kernel of a step, by all threads
        EC_BLOCK_BARRIER();
        ...
        EC_BLOCK_COPY(outside + 64, arena + 64, 12);      the outputs
    }

A GPU with separate memory reads inputs from the processor's memory and writes outputs there: that
takes less time than copies before and after the launch. Blocks and grids both do that. A block has
all activations in its shared memory; its barrier takes some tens of nanoseconds, but it has one
multiprocessor. A grid has all multiprocessors and the arena in the GPU's memory; its barrier takes
a microsecond or two, a little less than a kernel of a graph. Kernels that touch no bytes of each
other's, as in parallel branches, have no barrier between them. `--driver auto` takes the
fastest plan by the cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.codegen.c_data import Weights
from edgec.codegen.c_kernel import Kernel
from edgec.codegen.c_text import wrapped, writes_param
from edgec.codegen.c_types import C_TYPE
from edgec.codegen.program import Port, Program, Step
from edgec.errors import BuildFailed
from edgec.loop.access import accesses
from edgec.loop.bound import (
    MOST_SHARED_BYTES,
    ONE_THREAD,
    does_wait,
    kernel_parts,
    launch_of,
    shared_bytes,
)
from edgec.loop.foreign import library_call
from edgec.loop.ir import PrimFunc
from edgec.options import Driver
from edgec.targets.core import CORES
from edgec.targets.cuda.costs import GPUS, Gpu, beside_us, ports_us
from edgec.targets.cuda.crew import Crew

#: Of a kernel: `EC_CU_ARGUMENTS` of `runtime_c/cuda/ec_cuda_driver.h`.
MOST_ARGUMENTS = 64


@dataclass(frozen=True)
class Plan:
    """A GPU's plan to run a program, with its time by the cost model, without the start."""

    driver: Driver
    us: float
    crew: Crew
    shared_bytes: int = 0
    waits: tuple[bool, ...] = ()
    ports_us: float = 0.0


def plan_of(program: Program) -> Plan:
    """The fastest plan, or the plan of the program's driver.

    Raises BuildFailed where the driver cannot run the program.
    """
    gpu = _gpu(program)
    launches = tuple(_beside(program, gpu))
    us = sum(beside_us([part for _, part in each], gpu, program.callees) for each in launches)
    starts = tuple(number == 0 for each in launches for number, _ in enumerate(each))
    graph = Plan("graph", us, Crew(1, 0), waits=starts, ports_us=_ports_us(program, False))
    if program.driver == "graph":
        return graph
    problems = {driver: _why_not(program, driver) for driver in ("block", "grid")}
    if problems.get(program.driver):
        raise BuildFailed(
            f"one {program.driver} cannot run the model: {problems[program.driver]}",
            hint=f"leave out --driver {program.driver}",
        )
    plans = [
        _plan(program, driver, crew)
        for driver in ("block", "grid")
        if not problems[driver] and program.driver in (driver, "auto")
        for crew in _crews(program, driver)
    ]
    plans += [graph] if program.driver == "auto" else []
    return min(plans, key=lambda plan: plan.us + plan.ports_us)


def maps_ports(program: Program, plan: Plan) -> bool:
    """Whether the one launch takes inputs from the processor's memory, and leaves outputs there."""
    return plan.driver != "graph" and _gpu(program).has_own_memory


def _ports_us(program: Program, is_one_launch: bool) -> float:
    ports = (*_placed(program, program.inputs), *_placed(program, program.outputs))
    return ports_us((port.nbytes for port in ports), _gpu(program), is_one_launch)


def _gpu(program: Program) -> Gpu:
    return GPUS[CORES[program.target].gpu_architecture]


def _crews(program: Program, driver: str) -> list[Crew]:
    """One block, or grids of some sizes up to all multiprocessors."""
    gpu = _gpu(program)
    if driver == "block":
        return [Crew(1, gpu.shared_bytes - _aligned(program.arena_bytes))]
    sizes = [1 << bit for bit in range(1, gpu.multiprocessors.bit_length())]
    found = [Crew(blocks, gpu.shared_bytes) for blocks in (*sizes, gpu.multiprocessors)]
    clusters = [Crew(n, gpu.shared_bytes, True) for n in sizes if n <= gpu.cluster_blocks]
    return [*clusters, *found]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 16) * 16


def _why_not(program: Program, driver: str) -> str:
    """The reason why a program cannot run in one launch; "" if it can."""
    gpu = _gpu(program)
    if program.sizes:
        return "its sizes are open"
    if any(step.on_processor for step in program.general_steps):
        return "the processor runs a part of it"
    if any(library_call(step.function) for step in program.general_steps):
        return "a library starts its own kernels"
    if driver == "block" and program.arena_bytes > gpu.shared_bytes:
        most = gpu.shared_bytes
        return f"its arena of {program.arena_bytes:,} bytes is larger than the {most:,} of a block"
    crew = _crews(program, driver)[-1]
    return next(crew.why_not([part for _, part in _parts(program)], gpu), "")


def _parts(program: Program) -> Iterator[tuple[Step, PrimFunc]]:
    """The kernels of all steps."""
    for step in program.general_steps:
        for part in kernel_parts(step.function):
            yield step, part


def _plan(program: Program, driver: Driver, crew: Crew) -> Plan:
    gpu, parts = _gpu(program), [part for _, part in _parts(program)]
    waits = _barriers(program, driver)
    arena = _aligned(program.arena_bytes) if driver == "block" else 0
    us = gpu.node_us + sum(crew.us(part, gpu, program.callees) for part in parts)
    count = sum(waits) + bool(_copied_outputs(program, driver))
    return Plan(
        driver, us + count * crew.waiting_us(gpu), crew, arena + crew.shared_bytes_of(parts),
        waits, _ports_us(program, True),
    )  # fmt: skip


def _beside(program: Program, gpu: Gpu) -> Iterator[list[tuple[Step, PrimFunc]]]:
    """The kernels of each launch of a graph: kernels of steps that do not touch each other's
    outputs, such as three dense layers that read one input, are blocks side by side.
    """
    together: list[tuple[Step, PrimFunc]] = []
    for kernel in _parts(program):
        if together and not _may_run_beside(program, together, kernel, gpu):
            yield together
            together = []
        together.append(kernel)
    if together:
        yield together


def _may_run_beside(
    program: Program, together: Sequence[tuple[Step, PrimFunc]], kernel: tuple[Step, PrimFunc],
    gpu: Gpu,
) -> bool:  # fmt: skip
    """Whether a kernel may share a launch with earlier ones, and is faster that way."""
    steps, parts = [step for step, _ in together], [part for _, part in together]
    is_one = _is_one_launch(program, [*steps, kernel[0]], [*parts, kernel[1]])
    if not is_one or not _are_apart(program, steps, kernel[0]):
        return False
    alone = sum(beside_us(each, gpu, program.callees) for each in (parts, [kernel[1]]))
    return beside_us([*parts, kernel[1]], gpu, program.callees) < alone


def _is_one_launch(program: Program, steps: Sequence[Step], parts: Sequence[PrimFunc]) -> bool:
    """Whether these kernels fit in one launch: their threads, arguments and shared memory.

    A kernel may have fewer threads than another if its threads do not wait for each other.
    """
    is_theirs = any(step.on_processor or library_call(step.function) for step in steps)
    launches = [launch_of(part) or ONE_THREAD for part in parts]
    most = max(launch.threads for launch in launches)
    fewer = [part for part, own in zip(parts, launches, strict=True) if own.threads < most]
    arguments, shared = sum(len(p.params) for p in parts), sum(map(shared_bytes, parts))
    fits = arguments <= MOST_ARGUMENTS and shared <= MOST_SHARED_BYTES
    return not (is_theirs or program.sizes or any(map(does_wait, fewer))) and fits


def _are_apart(program: Program, steps: Sequence[Step], last: Step) -> bool:
    """Whether the last step shares no written byte with the others.

    A traced build then shows the same values after all of them.
    """
    own = list(_touched(program, last, last.function))
    others = [span for step in steps for span in _touched(program, step, step.function)]
    return not any(a.clashes(b) for a in others for b in own)


@dataclass(frozen=True)
class _Span:
    """Bytes of the arena or of the states, and whether they are written."""

    is_state: bool
    start: int
    stop: int
    is_written: bool

    def clashes(self, other: _Span) -> bool:
        """Whether both touch a byte that one of them writes."""
        meets = self.is_state == other.is_state and self.start < other.stop
        return meets and other.start < self.stop and (self.is_written or other.is_written)


def _barriers(program: Program, driver: str) -> tuple[bool, ...]:
    """The kernels before which all threads wait: each shares a written byte with a kernel since the
    last barrier.
    """
    inputs = program.inputs if _copies_inputs(program, driver) else ()
    since = [_span(program, port.buffer, True) for port in _placed(program, inputs)]
    found = []
    for step, part in _parts(program):
        spans = list(_touched(program, step, part))
        found.append(any(a.clashes(b) for a in since for b in spans))
        since = spans if found[-1] else [*since, *spans]
    return tuple(found)


def _copies_inputs(program: Program, driver: str) -> bool:
    """Whether the launch first fetches inputs, from the GPU's memory or the processor's."""
    return driver == "block" or _gpu(program).has_own_memory


def _copied_outputs(program: Program, driver: str) -> list[Port]:
    """The outputs that the launch copies at its end, because it does not write them in place."""
    if not _copies_inputs(program, driver):
        return []
    ports = list(_placed(program, program.outputs))
    return ports if driver == "block" else [p for p in ports if not _is_last(program, p.buffer)]


def _is_last(program: Program, name: str) -> bool:
    """Whether one step writes a value, and nothing reads it: it may lie outside of the arena."""
    users = [(step, part) for step, part in _parts(program) if name in step.args]
    if len(users) != 1 or any(port.buffer == name for port in program.inputs):
        return False
    step, part = users[0]
    params = [p for p in part.params if step.args[step.function.params.index(p)] == name]
    found = accesses(part.body, of=params)
    return len(params) == 1 and bool(found) and all(access.is_write for access in found)


def _touched(program: Program, step: Step, part: PrimFunc) -> Iterator[_Span]:
    """The bytes that a kernel reads and writes, without constants."""
    for param in part.params:
        name = step.args[step.function.params.index(param)]
        if name not in program.constants:
            yield _span(program, name, param.scope == "scratch" or writes_param(part, param))


def _span(program: Program, name: str, is_written: bool) -> _Span:
    start = program.offsets[name]
    is_state = name in program.state_buffers
    return _Span(is_state, start, start + program.buffers[name], is_written)


def _placed(program: Program, ports: Sequence[Port]) -> Iterator[Port]:
    """The ports that lie in the arena."""
    for port in ports:
        if port.buffer in program.offsets and port.buffer not in program.state_buffers:
            yield port


def one_kernel(
    program: Program, plan: Plan, name: str, weights: Weights, parts: Mapping[int, Sequence[Kernel]]
) -> str:
    """The kernel of a plan; `parts` has the functions of each step.

    It runs the steps of its last two arguments, all of them but in traced builds. A block whose
    activations would end with it then takes the whole arena from outside, and leaves it there.
    """
    kind = "BLOCK" if plan.driver == "block" else "GRID"
    barrier = f"EC_{kind}_BARRIER();"
    lines = _start(program, plan, name)
    if _copies_inputs(program, plan.driver):
        lines += _copies(program, program.inputs, "arena", "outside", kind)
    lines += [f"    (void){unused};" for unused in ("shared", "state", "weights")]
    addresses = _Addresses(program, weights, _direct_outputs(program, plan))
    lines += _calls(program, plan, addresses, parts, barrier)
    outputs = _copied_outputs(program, plan.driver)
    if outputs:
        lines += [f"    {barrier}", *_copies(program, outputs, "outside", "arena", kind)]
    return "\n".join((*lines, "}"))


def _start(program: Program, plan: Plan, name: str) -> list[str]:
    """The kernel's parameters, and its memory."""
    in_block = plan.driver == "block"
    given = () if in_block else ("uint8_t *arena",)
    outside = ("uint8_t *outside",) if _copies_inputs(program, plan.driver) else ()
    params = (*given, *outside, "uint8_t *state", "const uint8_t *weights")
    lines = wrapped(
        f"EC_BLOCK_GLOBAL void {name}({', '.join(params)}, int32_t start, int32_t stop) {{"
    )
    lines += [f"    EC_BLOCK_MEMORY({'arena' if in_block else 'shared'});"]
    if in_block:
        lines += [f"    uint8_t *const shared = arena + {_aligned(program.arena_bytes)};"]
    return lines


def _direct_outputs(program: Program, plan: Plan) -> frozenset[str]:
    """Values that a grid writes outside of the arena."""
    if plan.driver == "block" or not maps_ports(program, plan):
        return frozenset()
    copied = _copied_outputs(program, plan.driver)
    return frozenset(p.buffer for p in _placed(program, program.outputs) if p not in copied)


def _calls(
    program: Program, plan: Plan, addresses: _Addresses, parts: Mapping[int, Sequence[Kernel]],
    barrier: str,
) -> Iterator[str]:  # fmt: skip
    """The calls of all steps, with barriers before them."""
    waits = iter(plan.waits)
    has_groups = False  # since the last barrier
    for number, step in enumerate(program.general_steps):
        yield f"    if (start <= {number} && {number} < stop) {{"
        for part in parts[number]:
            arguments = [addresses.argument(step, position) for position in part.params]
            arguments += ["shared"] if part.waits else []
            if next(waits):
                has_groups = False
                yield f"        {barrier}"
            elif part.waits and has_groups:  # which share memory and barriers in another way
                yield "        EC_BLOCK_BARRIER();"
            has_groups = has_groups or part.waits
            yield from wrapped(f"        {part.name}({', '.join(arguments)});")
        yield "    }"


def _copies(
    program: Program, ports: Sequence[Port], to: str, start: str, kind: str
) -> Iterator[str]:
    """Copies of some ports in the arena; a block that runs only some steps copies the arena."""
    if kind == "BLOCK":
        yield f"    if (stop - start < {len(program.general_steps)}) {{"
        yield f"        EC_BLOCK_COPY({to}, {start}, {program.arena_bytes});"
        yield "    } else {"
    else:  # where both are one, there is nothing to copy
        yield "    if (outside != arena) {"
    for port in _placed(program, ports):
        at = program.offsets[port.buffer]
        yield f"        EC_{kind}_COPY({to} + {at}, {start} + {at}, {port.nbytes});"
    yield "    }"


class _Addresses:
    """Addresses of buffers and constants, as C of a kernel."""

    def __init__(self, program: Program, weights: Weights, direct: frozenset[str]) -> None:
        self.program, self.weights, self.direct = program, weights, direct
        self.offsets: dict[str, int] = {}
        end = 0
        for array in weights.arrays:
            self.offsets[array.member] = end
            end += array.stored_bytes

    def argument(self, step: Step, position: int) -> str:
        """A pointer for a parameter of a step."""
        name, param = step.args[position], step.function.params[position]
        const = "" if writes_param(step.function, param) else "const "
        return f"({const}{C_TYPE[param.dtype]} *)({self._raw(name)})"

    def _raw(self, name: str) -> str:
        if name in self.program.constants:
            member = self.weights.names[name].partition(".")[2]
            return f"weights + {self.offsets[member]}"
        inside = "outside" if name in self.direct else "arena"
        base = "state" if name in self.program.state_buffers else inside
        return f"{base} + {self.program.offsets[name]}"

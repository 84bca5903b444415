"""One launch for a whole model: one block of threads, with all activations in its shared memory.

    EC_BLOCK_GLOBAL void kws_block(uint8_t *outside, uint8_t *state, const uint8_t *weights) {
        EC_BLOCK_MEMORY(arena);
        EC_BLOCK_COPY(arena + 0, outside + 0, 490);       the inputs
        EC_BLOCK_BARRIER();
        kws_conv2d_in_block_1(...);                       a part of a step, by all threads
        EC_BLOCK_BARRIER();
        ...
        EC_BLOCK_COPY(outside + 64, arena + 64, 12);      the outputs
    }

A barrier of a block takes some tens of nanoseconds, where a kernel of a graph takes microseconds;
but one block has one multiprocessor. So it is for small models: `--driver auto` takes it where the
model of costs says so and the arena fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgec.codegen.c_data import Weights
from edgec.codegen.c_function import wrapped, writes_param
from edgec.codegen.c_kernel import Kernel, does_wait
from edgec.codegen.c_types import C_TYPE
from edgec.codegen.program import Port, Program, Step
from edgec.errors import BuildFailed
from edgec.loop.bound import kernel_parts
from edgec.targets.core import CORES
from edgec.targets.cuda.costs import GPUS, in_block_us, kernels_us


def takes_block(program: Program) -> bool:
    """Whether one block runs the program. Raises BuildFailed where it should and cannot."""
    if program.driver == "graph":
        return False
    problem = _why_not(program)
    if program.driver == "block" and problem:
        raise BuildFailed(
            f"one block cannot run the model: {problem}", hint="leave out --driver block"
        )
    return not problem and (program.driver == "block" or _is_faster(program))


def _why_not(program: Program) -> str:
    """What keeps a program from running in one block; "" if nothing does."""
    most = GPUS[CORES[program.target].gpu_architecture].shared_bytes
    if program.sizes:
        return "its sizes are open"
    if any(step.on_processor for step in program.general_steps):
        return "the processor runs a part of it"
    if any(does_wait(p) for step in program.general_steps for p in kernel_parts(step.function)):
        return "threads of a kernel wait for each other"
    if program.arena_bytes > most:
        return f"its arena of {program.arena_bytes:,} bytes is larger than the {most:,} of a block"
    return ""


def _is_faster(program: Program) -> bool:
    gpu = GPUS[CORES[program.target].gpu_architecture]
    graph = sum(kernels_us(step.function, gpu) for step in program.general_steps)
    return gpu.node_us + sum(in_block_us(s.function, gpu) for s in program.general_steps) < graph


def block_kernel(
    program: Program, name: str, weights: Weights, parts: Mapping[int, Sequence[Kernel]]
) -> str:
    """The kernel; `parts` has the functions of each step."""
    places = _Places(program, weights)
    lines = [
        f"EC_BLOCK_GLOBAL void {name}(uint8_t *outside, uint8_t *state, const uint8_t *weights) {{",
        "    EC_BLOCK_MEMORY(arena);", "    (void)state;", "    (void)weights;",
        *_copies(program, program.inputs, "arena", "outside"),
    ]  # fmt: skip
    for number, step in enumerate(program.general_steps):
        for part in parts[number]:
            arguments = ", ".join(places.argument(step, position) for position in part.params)
            lines += ["    EC_BLOCK_BARRIER();", *wrapped(f"    {part.name}({arguments});")]
    lines += ["    EC_BLOCK_BARRIER();", *_copies(program, program.outputs, "outside", "arena")]
    return "\n".join((*lines, "}"))


def _copies(program: Program, ports: Sequence[Port], to: str, start: str) -> Iterator[str]:
    for port in ports:
        if port.buffer in program.offsets and port.buffer not in program.state_buffers:
            at = program.offsets[port.buffer]
            yield f"    EC_BLOCK_COPY({to} + {at}, {start} + {at}, {port.nbytes});"


class _Places:
    """Where buffers and constants lie, as C of a kernel."""

    def __init__(self, program: Program, weights: Weights) -> None:
        self.program, self.weights = program, weights
        self.offsets: dict[str, int] = {}
        behind = 0
        for array in weights.arrays:
            self.offsets[array.member] = behind
            behind += array.stored_bytes

    def argument(self, step: Step, position: int) -> str:
        """A pointer for a parameter of a step."""
        name, param = step.args[position], step.function.params[position]
        const = "" if writes_param(step.function, param) else "const "
        return f"({const}{C_TYPE[param.dtype]} *)({self._raw(name)})"

    def _raw(self, name: str) -> str:
        if name in self.program.constants:
            member = self.weights.names[name].partition(".")[2]
            return f"weights + {self.offsets[member]}"
        base = "state" if name in self.program.state_buffers else "arena"
        return f"{base} + {self.program.offsets[name]}"

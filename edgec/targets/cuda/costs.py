"""Model of costs, in microseconds: launches, copies, kernels, and layers on the processor.

Models, to choose between ways of running a program, and no measurements: no GPU has run them yet. A
kernel of few threads takes as long as one of its threads; one of many is shared out among the lanes
of all multiprocessors. Sources of the numbers: NVIDIA's data sheets and the CUDA C++ Programming
Guide (clocks, multiprocessors, lanes, shared memory); Hazy Research, May 2025 (1.3 us for each node
of a graph on an H100, 2.1 for a launch); arXiv 2004.05371 (1.2 to 2 us for a barrier of a grid);
arXiv 2402.13499 (180 cycles between the multiprocessors of a cluster of an H100; a barrier of the
cluster is assumed to take two ways);
on Jetson two to three times the time of a node, and 1.6 us for a kernel's first read of the
processor's memory over PCIe, which are assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from edgec.loop.bound import ONE_THREAD, kernel_parts, launch_of
from edgec.loop.cost import thread_instructions
from edgec.loop.foreign import Foreign, library_call
from edgec.loop.ir import Call, PrimFunc, remembered

#: Clock cycles from one instruction of a thread to the next one that needs its result.
LATENCY_CYCLES = 6.0
#: From the start of a kernel to its first result: memory is read once, and written.
FIRST_CYCLES = 800.0
#: Cost of a barrier of a block, apart from its threads' work.
BARRIER_CYCLES = 40.0
#: Between two barriers of a cluster: to another multiprocessor and back, 180 cycles each.
CLUSTER_CYCLES = 360.0
#: Of a thread that has nothing to do in its block.
IDLE_INSTRUCTIONS = 8.0
#: Threads of a block of a library's, and the lanes of a multiprocessor that it keeps busy.
LIBRARY_THREADS, LIBRARY_LANES = 256, 128


@dataclass(frozen=True)
class Gpu:
    """A GPU of an architecture, a small one of its kind, and the processor beside it.

    lanes: instructions of a multiprocessor in each clock cycle. shared_bytes: of one block, at
    most. node_us: each kernel of a graph. barrier_us: of a grid, which waits for all of its blocks.
    cluster_blocks: of a cluster, at most; 1 where there are none.
    start_us: a graph, from the call to the end of waiting.
    copy_us, copy_bytes_us: each copy, and how many of its bytes take a microsecond more; 0 and
    any number on Jetson, whose GPU uses the processor's memory. bus_us: a kernel's first read of
    that memory elsewhere.
    processor_us: instructions of the processor in a microsecond.
    """

    clock_mhz: float
    multiprocessors: int
    lanes: int
    shared_bytes: int
    node_us: float
    barrier_us: float
    start_us: float
    copy_us: float
    copy_bytes_us: float
    processor_us: float
    cluster_blocks: int = 1
    bus_us: float = 1.6

    @property
    def has_own_memory(self) -> bool:
        """Whether the GPU has a memory beside the processor's."""
        return self.copy_us > 0


#: Turing: T4. Orin: Jetson Orin Nano. Hopper: H100. Thor: Jetson T5000.
GPUS: Mapping[str, Gpu] = {
    "sm_75": Gpu(1590, 40, 64, 64 * 1024, 1.6, 1.5, 8, 3, 12_000, 7_000),
    "sm_87": Gpu(625, 8, 128, 163 * 1024, 3.5, 2.0, 20, 0, inf, 3_000),
    "sm_90": Gpu(1755, 132, 128, 227 * 1024, 1.3, 1.2, 7, 3, 25_000, 7_000, 16),
    "sm_110": Gpu(1575, 20, 128, 227 * 1024, 3.0, 1.8, 15, 0, inf, 5_000, 8),
}


@dataclass(frozen=True)
class Work:
    """A kernel's threads, the instructions of all threads, and of the thread with the most."""

    threads: int
    instructions: float
    longest: float

    def cycles(self, rounds: int, gpu: Gpu, multiprocessors: int) -> float:
        """Clock cycles on some multiprocessors whose threads do their work in `rounds` rounds."""
        alone = self.longest * rounds * LATENCY_CYCLES
        return max(alone, self.instructions / (gpu.lanes * multiprocessors))


def kernels_us(func: PrimFunc, gpu: Gpu, callees: Mapping[str, PrimFunc] | None = None) -> float:
    """Time of a function's kernels as nodes of a graph. callees: its other functions."""
    return sum(kernel_us(work_of(part, callees), gpu) for part in kernel_parts(func))


def kernel_us(work: Work, gpu: Gpu) -> float:
    """The time of a kernel as a node of a graph."""
    cycles = FIRST_CYCLES + work.cycles(1, gpu, gpu.multiprocessors)
    return gpu.node_us + cycles / gpu.clock_mhz


def beside_us(
    parts: Sequence[PrimFunc], gpu: Gpu, callees: Mapping[str, PrimFunc] | None = None
) -> float:
    """The time of kernels in one node: blocks run beside each other, with the most threads."""
    works = [work_of(part, callees) for part in parts]
    launches = [launch_of(part) or ONE_THREAD for part in parts]
    threads = max(launch.threads for launch in launches) * sum(each.blocks for each in launches)
    idle = threads - sum(launch.blocks * launch.threads for launch in launches)
    instructions = sum(work.instructions for work in works) + idle * IDLE_INSTRUCTIONS
    return kernel_us(Work(threads, instructions, max(work.longest for work in works)), gpu)


def on_processor_us(instructions: float, gpu: Gpu) -> float:
    """Time of a layer on the processor, by its estimated instructions."""
    return instructions / gpu.processor_us


def copy_us(nbytes: int, gpu: Gpu) -> float:
    """The time of a copy between the memories of processor and GPU."""
    return gpu.copy_us + nbytes / gpu.copy_bytes_us


def ports_us(nbytes: Iterable[int], gpu: Gpu, is_one_launch: bool) -> float:
    """The time to move inputs and outputs of these sizes: by copies, or by the launch."""
    sizes = tuple(nbytes)
    if not gpu.has_own_memory:
        return 0.0
    if is_one_launch:
        return gpu.bus_us + sum(sizes) / gpu.copy_bytes_us
    return sum(copy_us(size, gpu) for size in sizes)


def work_of(part: PrimFunc, callees: Mapping[str, PrimFunc] | None = None) -> Work:
    """Threads and instructions of a kernel."""
    return _work(part, callees) if callees else _work_alone(part)


@remembered
def _work_alone(part: PrimFunc) -> Work:
    return _work(part, {})


def _work(part: PrimFunc, callees: Mapping[str, PrimFunc]) -> Work:
    found = library_call(part)
    if found is not None:
        return _of_library(*found)
    launch = launch_of(part) or ONE_THREAD
    threads = launch.blocks * launch.threads
    average, longest = (
        thread_instructions(part, launch, callees, most=most) for most in (False, True)
    )
    return Work(threads, average * threads, longest)


def _of_library(call: Call, foreign: Foreign) -> Work:
    """Return the work of a library's kernel: each block has its share of a multiprocessor."""
    total, blocks = foreign.cost(call), foreign.blocks(call) if foreign.blocks else 1
    alone = total / blocks / (LIBRARY_LANES * LATENCY_CYCLES)
    return Work(blocks * LIBRARY_THREADS, total, alone)

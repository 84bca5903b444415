"""The threads of the one launch that runs a whole model, and how they share out its kernels.

A crew of one block has all activations in shared memory, and waits for a few cycles between two
kernels. A crew of many blocks has them in the memory of the GPU and waits for the whole grid, so
all of its blocks must fit on the GPU at once: one on each multiprocessor. From Hopper on, up to 16
blocks may be a cluster, whose barrier takes a sixth of a grid's.

Where no threads of a kernel wait for each other, each thread takes one step after the other,
whatever block it belongs to. Where they do, groups of threads with a barrier and shared memory of
their own take one block of the kernel after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgec.loop.bound import ONE_THREAD, does_wait, group_bytes, in_warps, kernel_parts, launch_of
from edgec.loop.ir import PrimFunc
from edgec.options import Driver
from edgec.targets.cuda.costs import (
    BARRIER_CYCLES,
    CLUSTER_CYCLES,
    FIRST_CYCLES,
    Gpu,
    kernels_us,
    work_of,
)

#: Threads of each block: EC_BLOCK_THREADS of `runtime_c/cuda/ec_cuda_kernel.h`.
BLOCK_THREADS = 512
#: Barriers of groups: a block has 16, one of them for itself. PTX ISA, "barrier".
MOST_GROUPS = 15
#: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
REGISTERS = 65_536


@dataclass(frozen=True)
class Crew:
    """blocks: at most; a GPU may have fewer multiprocessors, and any number results in the same
    bits. shared_bytes: shared by the groups of a block. is_cluster: the blocks are one cluster,
    whose multiprocessors have a network and barriers.
    """

    blocks: int
    shared_bytes: int
    is_cluster: bool = False

    @property
    def steps(self) -> tuple[str, str]:
        """The first step of a thread and how far it is to its next one, as C."""
        if self.blocks == 1:
            return "EC_THREAD_X", "EC_BLOCK_THREADS"
        return "EC_GRID_THREAD", "EC_GRID_THREADS"

    def blocks_of(self, group: str, groups: int) -> tuple[str, str]:
        """The first block of a group and how far it is to its next one, as C."""
        if self.blocks == 1:
            return group, str(groups)
        return f"{group} * EC_GRID_BLOCKS + EC_BLOCK_X", f"{groups} * EC_GRID_BLOCKS"

    def groups(self, part: PrimFunc) -> int:
        """Number of a block's groups for a kernel whose threads wait; 0 if it does not fit."""
        own, threads = group_bytes(part), in_warps(launch_of(part) or ONE_THREAD).threads
        by_memory = self.shared_bytes // own if own else MOST_GROUPS
        return min(BLOCK_THREADS // threads, MOST_GROUPS, by_memory)

    def shared_bytes_of(self, parts: Sequence[PrimFunc]) -> int:
        """Shared memory that these kernels take of a block."""
        waiting = (part for part in parts if does_wait(part))
        return max((self.groups(part) * group_bytes(part) for part in waiting), default=0)

    def why_not(self, parts: Sequence[PrimFunc], gpu: Gpu) -> Iterator[str]:
        """The reasons why the crew cannot run these kernels, each as a phrase.

        The blocks of a grid wait for each other, so all of them are on the GPU at once: one on each
        multiprocessor, which the kernel's bound of threads keeps registers for.
        """
        if self.blocks > gpu.multiprocessors:
            yield f"{self.blocks} blocks wait for each other, but only {gpu.multiprocessors} fit"
        for part in parts:
            if does_wait(part) and self.groups(part) < 1:
                yield (
                    f"a kernel of {part.name} needs {group_bytes(part):,} bytes of shared memory,"
                    f" and {max(self.shared_bytes, 0):,} are left"
                )

    def us(self, part: PrimFunc, gpu: Gpu, callees: Mapping[str, PrimFunc] | None = None) -> float:
        """The time of a kernel between two barriers, by the model of costs."""
        work = work_of(part, callees)
        at_once = self.blocks * BLOCK_THREADS
        if does_wait(part):
            of_group = (launch_of(part) or ONE_THREAD).threads
            at_once = self.blocks * max(self.groups(part), 1) * of_group
        return work.cycles(-(-work.threads // at_once), gpu, self.blocks) / gpu.clock_mhz

    def waiting_us(self, gpu: Gpu) -> float:
        """The time of a barrier and of the first result after it."""
        if self.blocks == 1:
            return BARRIER_CYCLES / gpu.clock_mhz
        barrier_us = CLUSTER_CYCLES / gpu.clock_mhz if self.is_cluster else gpu.barrier_us
        return barrier_us + FIRST_CYCLES / gpu.clock_mhz


def launched_us(func: PrimFunc, gpu: Gpu, driver: Driver) -> float:
    """Time of a function's kernels by a driver, in a model of such layers.

    "auto": the minimum over drivers, as nodes of a graph or by a crew that waits after each.
    """
    crews = {
        "block": [Crew(1, gpu.shared_bytes)],
        "grid": [Crew(gpu.multiprocessors, gpu.shared_bytes)],
        "graph": [],
    }
    if gpu.cluster_blocks > 1:
        crews["grid"].append(Crew(gpu.cluster_blocks, gpu.shared_bytes, is_cluster=True))
    parts = kernel_parts(func)
    us = [
        sum(crew.us(part, gpu) + crew.waiting_us(gpu) for part in parts)
        for crew in crews[driver if driver != "auto" else "grid"]
    ]
    return min([*us, kernels_us(func, gpu)] if driver in ("graph", "auto") else us)

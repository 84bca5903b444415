"""Run functions of a firmware image on a simulated core, and count their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import RunFailed
from edgec.sim.channel import Channel
from edgec.sim.cycles import CostTable
from edgec.sim.dual_issue import DualIssueTable
from edgec.sim.faults import explain_fault
from edgec.sim.guard import Span, forbidden_gaps
from edgec.sim.image import PAGE_BYTES, Image, Symbol, load_image, plan_layout
from edgec.sim.riscv import InstructionTable
from edgec.sim.thumb import aligned_base
from edgec.sim.timing import Cycles, Timing
from edgec.targets.core import find_core

__all__ = ["CORES", "CallResult", "CoreSimulator", "FunctionCost", "Span", "Symbol", "TraceEvent"]

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "rv32imc")
# Cores that differ from a simulated one in speed, or lack an FPU: `edgec.build.check_image` checks
# that the image uses only the core's features.
_SIMULATED_AS = {
    "cortex-m0plus": "cortex-m0",
    "cortex-m1": "cortex-m0",
    "cortex-m23": "cortex-m0",
    "cortex-m4+nofp": "cortex-m4",
    "cortex-m7+nofp.dp": "cortex-m7",
    "cortex-a7": "cortex-m7",
    "cortex-r5": "cortex-m7",
}
_ELSEWHERE = "(outside any function)"
# No instruction takes this long in the slowest mode; a longer silence is a fault of the worker.
_SECONDS_PER_INSTRUCTION = 5e-6
_LEAST_TIMEOUT_S = 120.0
_MOST_TIMEOUT_S = 3600.0


def simulated_as(core: str) -> str:
    """The simulated core for a core that runs the same code."""
    return _SIMULATED_AS.get(core, core)


@dataclass(frozen=True)
class FunctionCost:
    """The cost of one function itself, without its callees.

    `calls` is how often its first instruction was executed.
    """

    instructions: int
    cycles: int
    calls: int


@dataclass(frozen=True)
class TraceEvent:
    """One call of the trace function: `data` is memory [address, address + len(data)).

    `instructions` counts from the start of the call to just before the traced call, without the
    cost of tracing.
    """

    id: int
    row: int
    data: bytes
    instructions: int
    address: int


@dataclass(frozen=True)
class CallResult:
    """The result of one call and its cost.

    `value` is r0 and `high_value` r1, unsigned (the two halves of a 64-bit result).
    `instructions`: executed ones and skipped ones of IT blocks, as QEMU counts, but not
    the trace function and the BL that calls it. `cycles`: a Cortex-M4's by `cycles.CostTable`; for
    RISC-V the instructions. `core_cycles`: by the core's own `Timing`, if one was given.
    `stack_bytes` is how far below the initial stack pointer the call wrote. `counts` says how
    often each address was executed, tracing included.
    """

    value: int
    instructions: int
    cycles: int
    functions: Mapping[str, FunctionCost]
    stack_bytes: int
    counts: Mapping[int, int] = field(repr=False)
    trace: tuple[TraceEvent, ...] = field(repr=False, default=())
    high_value: int = 0
    core_cycles: Cycles | None = None

    def write_counts(self, path: Path) -> None:
        """Write `ADDRESS COUNT` lines (hexadecimal, decimal), in order of address."""
        lines = [f"{address:08x} {self.counts[address]}\n" for address in sorted(self.counts)]
        path.write_text("".join(lines), encoding="ascii", newline="\n")


class CoreSimulator:
    """A core with a firmware image in its memory; a context manager.

    The image is in place as after start-up code has run: initialised data is in RAM, `.bss` is
    zero, the FPU is on. Memory keeps its contents from call to call, registers do not. After a
    RunFailed of `call` memory is as the program left it, and further calls are possible.
    """

    def __init__(
        self,
        elf: Path,
        core: str,
        *,
        timing: Timing | None = None,
        trace_symbol: str = "ec_trace",
        native: bool = True,
    ) -> None:
        """Start a worker and load `elf`; `core` is one of CORES. timing: for `core_cycles`.

        `trace_symbol` names a function `(ctx, id, pointer, row, bytes)` whose calls are recorded
        instead of executed; an image without it is fine. `native=False` forces portable
        callbacks, many times slower and with the same results.

        Raises RunFailed for an unusable image or core, ToolMissing without Unicorn or Capstone.
        """
        if core not in CORES:
            raise RunFailed(
                f"the core simulator has no core {core!r}", hint=f"it has {', '.join(CORES)}"
            )
        self.core = core
        self.image: Image = load_image(Path(elf))
        if self.image.isa != find_core(core).isa:
            raise RunFailed(f"{elf} was built for another instruction set than {core} has")
        self._addresses = {name: s.address for name, s in self.image.symbols.items()}
        self._layout = plan_layout(self.image)
        self._timing = timing
        self._mapped = [(r.address, r.address + r.size) for r in self._layout.regions]
        self._next_private = self._layout.private_base
        trace = self.image.symbols.get(trace_symbol)
        self._trace_address = None if trace is None else trace.address & ~1
        self._channel = Channel()
        try:
            self._load(native)
        except BaseException:
            self.close()
            raise

    def _load(self, native: bool) -> None:
        regions = [(r.address, r.size, r.writable, r.executable) for r in self._layout.regions]
        self._ask(
            {
                "command": "open",
                "core": self.core,
                "regions": regions,
                "return": self._layout.return_address,
                "native": native,
                "global_pointer": self._addresses.get("__global_pointer$", 0),
            }
        )
        for segment in self.image.segments:
            if segment.data:
                self.write(segment.address, segment.data)
        for section in self.image.code:
            if section.data:
                self._ask({"command": "code", "address": section.address}, section.data)
        # The Cortex-M0 has no unaligned access at all, as Unicorn knows.
        if self.image.isa == "thumb" and self.core != "cortex-m0":
            aligned = self._aligned_instructions()
            self._ask({"command": "aligned", "instructions": aligned})
        if self._trace_address is not None:
            self._ask({"command": "trace", "address": self._trace_address})

    def _aligned_instructions(self) -> list[tuple[int, int, int | None]]:
        """Return address, base register and condition of instructions with an aligned operand."""
        return [
            (located.address, register, located.condition)
            for section in self.image.code
            for located in section.instructions()
            if (register := aligned_base(located.first, located.second)) is not None
        ]

    def __enter__(self) -> CoreSimulator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    @property
    def symbols(self) -> Mapping[str, int]:
        return self._addresses

    def symbol(self, name: str) -> Symbol:
        """Return address and size of a symbol. Raises RunFailed if the image has none."""
        if name not in self.image.symbols:
            raise RunFailed(f"{self.image.path} has no symbol {name!r}")
        return self.image.symbols[name]

    def span(self, name: str, *, write: bool) -> Span:
        """Return the span of the object `name`, for `allow`. Raises RunFailed if absent."""
        symbol = self.symbol(name)
        return Span(name, symbol.address, symbol.size, write)

    def read_only_spans(self) -> list[Span]:
        """Return a read-only span for each segment that is not writable: code and constants."""
        return [
            Span(f"read-only memory at 0x{s.address:08x}", s.address, s.size, False)
            for s in self.image.segments
            if not s.writable
        ]

    def allocate(self, name: str, size: int, *, write: bool = True) -> Span:
        """Map `size` fresh zero bytes, away from everything else, for a call to use.

        The address is a multiple of 16. The bytes end where a page ends, up to alignment, so
        running over them is caught even without `allow`.
        """
        page_bytes = PAGE_BYTES[self.image.isa]
        held = -(-max(size, 1) // page_bytes) * page_bytes
        start = self._next_private
        self._ask({"command": "map", "address": start, "size": held})
        self._mapped.append((start, start + held))
        self._next_private = start + held + page_bytes
        address = start + (held - size) // 16 * 16
        return Span(name, address, size, write)

    def release(self) -> None:
        """Unmap all that was allocated: its spans are void, later ones may lie there.

        Who makes many calls on memory of their own needs it: each mapping slows every call.
        """
        for start, stop in self._mapped[len(self._layout.regions) :]:
            self._ask({"command": "unmap", "address": start, "size": stop - start})
        del self._mapped[len(self._layout.regions) :]
        self._next_private = self._layout.private_base

    def write(self, address: int, data: bytes) -> None:
        self._ask({"command": "write", "address": address}, bytes(data))

    def read(self, address: int, size: int) -> bytes:
        return self._ask({"command": "read", "address": address, "size": size})[1]

    def call(
        self,
        function: str | int,
        *args: int,
        allow: Sequence[Span] | None = None,
        budget_instructions: int = 10**10,
        check_alignment: bool = True,
    ) -> CallResult:
        """Call a function with 32-bit arguments and run it to its return.

        `allow` lists all data memory the call may touch; the stack, and reading what lies in
        executable sections (literal pools), are always added. None allows whatever is mapped.
        `check_alignment` makes LDM, LDRD, VLDR and their like fault on an address that is not a
        multiple of four, as hardware does; it costs up to a third of the speed.

        Raises RunFailed for an access outside, an instruction the core lacks, a fault, or more
        than `budget_instructions` executed; the message names function, address and reason.
        """
        entry = self.symbol(function).address if isinstance(function, str) else function & ~1
        spans = self._spans(allow)
        header = {
            "command": "call",
            "entry": entry,
            "args": [arg & 0xFFFFFFFF for arg in args],
            "stack_top": self._layout.stack_top,
            "stack_limit": self._layout.stack_limit,
            "budget": budget_instructions,
            "check_alignment": check_alignment,
            "gaps": [] if spans is None else forbidden_gaps(self._mapped, spans),
        }
        timeout_s = min(
            max(_LEAST_TIMEOUT_S, budget_instructions * _SECONDS_PER_INSTRUCTION), _MOST_TIMEOUT_S
        )
        reply, payload = self._ask(header, timeout_s=timeout_s)
        if "fault" in reply:
            raise explain_fault(
                reply["fault"], self.image, self.core, self._layout, spans, budget_instructions
            )
        return self._result(reply, payload)

    def _spans(self, allow: Sequence[Span] | None) -> list[Span] | None:
        if allow is None:
            return None
        layout = self._layout
        stack = Span("the stack", layout.stack_limit, layout.stack_top - layout.stack_limit, True)
        code = [
            Span("code", section.address, len(section.data), False) for section in self.image.code
        ]
        return [*allow, stack, *code]

    def _result(self, reply: dict[str, Any], payload: bytes) -> CallResult:
        table_bytes = reply["blocks"] * 24  # three 64-bit words a block
        blocks = np.frombuffer(payload[:table_bytes], "<u8").reshape(-1, 3).tolist()
        counts = self._counts(self._costs, blocks)
        cycles = self._costs.cycles(counts)
        executed = dict(counts)
        for address, calls in reply["trace_callers"]:  # the cost of tracing
            self._leave_out(address, calls, counts, cycles, executed)
        if self._trace_address is not None:
            calls = counts.get(self._trace_address, 0)
            self._leave_out(self._trace_address, calls, counts, cycles, executed)
        functions = self._functions(executed, cycles)
        instructions = sum(executed.values())
        if instructions != reply["instructions"]:
            raise RunFailed(
                f"the simulator counted {reply['instructions']} instructions in blocks that have "
                f"{instructions}",
                hint="this is a bug in edgec",
            )
        return CallResult(
            reply["value"],
            instructions,
            sum(cycles.values()),
            functions,
            reply["stack_bytes"],
            counts,
            self._trace(reply, payload[table_bytes:]),
            reply["high_value"],
            None if self._core_costs is None else self._core_costs.total(executed),
        )

    @cached_property
    def _costs(self) -> CostTable:
        table = CostTable if self.image.isa == "thumb" else InstructionTable
        return table(self.image.code)

    @cached_property
    def _core_costs(self) -> CostTable | None:
        if self._timing is None:
            return None
        table = DualIssueTable if self._timing.is_dual else CostTable
        return table(self.image.code, self._timing)

    @staticmethod
    def _counts(costs: CostTable, blocks: list[list[int]]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for address, size, count in blocks:
            at, stop = address, address + size
            while at < stop:
                counts[at] = counts.get(at, 0) + count
                cost = costs.costs.get(at)
                if cost is None:
                    raise RunFailed(f"0x{at:08x} was executed, but the ELF has data there")
                at += cost.size
        return counts

    @staticmethod
    def _leave_out(
        address: int,
        calls: int,
        counts: dict[int, int],
        cycles: dict[int, int],
        executed: dict[int, int],
    ) -> None:
        """Take `calls` executions of a branch at `address` out of the sums."""
        if calls:
            cycles[address] -= cycles[address] * calls // counts[address]
            executed[address] -= calls

    def _functions(
        self, executed: dict[int, int], cycles: dict[int, int]
    ) -> dict[str, FunctionCost]:
        sums: dict[str, list[int]] = {}
        for address, count in executed.items():
            if not count:
                continue
            function = self.image.function_at(address)
            name = function.name if function is not None else _ELSEWHERE
            total = sums.setdefault(name, [0, 0, 0])
            total[0] += count
            total[1] += cycles[address]
            if function is not None and function.address == address:
                total[2] += count
        order = sorted(sums, key=lambda name: (-sums[name][0], name))
        return {name: FunctionCost(*sums[name]) for name in order}

    @staticmethod
    def _trace(reply: dict[str, Any], data: bytes) -> tuple[TraceEvent, ...]:
        events = []
        at = 0
        for id_, row, address, size, instructions in reply["traces"]:
            events.append(TraceEvent(id_, row, data[at : at + size], instructions, address))
            at += size
        return tuple(events)

    def _ask(
        self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float = _LEAST_TIMEOUT_S
    ) -> tuple[dict[str, Any], bytes]:
        return self._channel.request(header, payload, timeout_s=timeout_s)

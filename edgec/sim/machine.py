"""One core on Unicorn: memory, hooks and a run to the return address.

Runs in the worker process only, because Unicorn is GPL.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from dataclasses import dataclass, field
from typing import Any

from edgec.sim.alignment import AlignedInstruction, AlignmentWatch
from edgec.sim.counters import CodeBytes, Counter, make_counter, total_instructions
from edgec.sim.registers import SETS, unicorn

uclib: Any = importlib.import_module("unicorn.unicorn_py3.unicorn").uclib

_THUMB_BIT = 1 << 24  # of XPSR
_IT_BITS = 0x0600_FC00  # of XPSR (DDI 0403, B1.4.2)
_STACK_PAINT = 0xA5
_WATCH_SECONDS = 0.05
_ANY_ACCESS = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
_WRITES = (unicorn.UC_MEM_WRITE, unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT)
# The widest access that Unicorn reports as one.
_WIDEST_ACCESS = 8

# (first address, stop, "r", "w" or "rw"): accesses that are forbidden
Gap = tuple[int, int, str]


@dataclass(frozen=True)
class Request:
    """One call: start address, arguments, and forbidden accesses."""

    entry: int
    args: list[int]
    stack_top: int
    stack_limit: int
    budget: int
    gaps: list[Gap]
    check_alignment: bool = False


@dataclass
class Fault:
    """Why a run stopped; the client makes the sentence."""

    kind: str
    pc: int
    address: int = 0
    size: int = 0
    write: bool = False


@dataclass
class Trace:
    """One call of the trace function; `instructions` before it, its own cost left out."""

    id: int
    row: int
    address: int
    data: bytes
    instructions: int


@dataclass
class Outcome:
    """The result of a run; `fault` is None if the run reached its return address."""

    value: int = 0
    high_value: int = 0
    fault: Fault | None = None
    stack_bytes: int = 0
    instructions: int = 0
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    trace_callers: dict[int, int] = field(default_factory=dict)


class Machine:
    """A core with mapped memory. Counts are exact unless `run` says otherwise by a fault."""

    def __init__(
        self,
        core: str,
        regions: list[tuple[int, int, bool, bool]],
        return_address: int,
        native: bool = True,
        global_pointer: int = 0,
    ) -> None:
        self._isa = next(each for each in SETS.values() if core in each.models)
        self._uc = unicorn.Uc(self._isa.arch, self._isa.mode)
        self._uc.ctl_set_cpu_model(self._isa.models[core])
        self._return = return_address
        self._native = native
        self._counters: list[Counter] = []
        self._trace_address: int | None = None
        self._guard_hooks: list[int] = []
        self._alignment_hooks: list[int] = []
        self._guarded: object = None
        self._outcome = Outcome()
        self._excluded = 0
        self._alignment: AlignmentWatch | None = None
        for region in regions:
            self.map(*region)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_invalid_access)
        self._uc.hook_add(unicorn.UC_HOOK_INTR, self._on_exception)
        if self._isa.global_pointer is not None:
            self._uc.reg_write(self._isa.global_pointer, global_pointer)
        self._start_state = self._uc.context_save()

    def map(self, address: int, size: int, writable: bool, executable: bool) -> None:
        """Map zeroed memory; `address` and `size` are multiples of the page."""
        rights = unicorn.UC_PROT_READ
        rights |= unicorn.UC_PROT_WRITE if writable else 0
        rights |= unicorn.UC_PROT_EXEC if executable else 0
        self._uc.mem_map(address, size, rights)

    def unmap(self, address: int, size: int) -> None:
        self._uc.mem_unmap(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._uc.mem_write(address, data)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self._uc.mem_read(address, size))

    def add_code(self, address: int, data: bytes) -> None:
        """Declare executable bytes, already written, to count in."""
        counter = make_counter(CodeBytes(address, data, self._isa.is_wide), self._native)
        callback, user_data = counter.callback()
        self._add_raw_hook(
            unicorn.UC_HOOK_BLOCK, callback, user_data, address, address + len(data) - 1
        )
        self._counters.append(counter)

    def _add_raw_hook(
        self, kind: int, callback: ctypes.c_void_p, user_data: ctypes.c_void_p, begin: int, end: int
    ) -> int:
        """Add a hook without the bindings, whose callbacks cost three times as much."""
        handle = ctypes.c_size_t()
        status = uclib.uc_hook_add(
            self._uc._uch,
            ctypes.byref(handle),
            kind,
            callback,
            user_data,
            ctypes.c_uint64(begin),
            ctypes.c_uint64(end),
        )
        if status != unicorn.UC_ERR_OK:
            raise unicorn.UcError(status)
        return handle.value

    def set_aligned(self, instructions: list[AlignedInstruction]) -> None:
        """Declare the instructions that need an aligned address, for `check_alignment`."""

        def on_fault(pc: int, base: int) -> None:
            self._stop(Fault("unaligned", pc, base))

        self._alignment = AlignmentWatch(self._uc, instructions, on_fault, self._native)

    def set_trace(self, address: int) -> None:
        """Make the function at `address` a recorded event that does nothing else.

        Its first instruction becomes a return. Call it after add_code, whose hook must run first.
        """
        self._uc.mem_write(address, self._isa.return_code)
        self._trace_address = address
        self._uc.hook_add(unicorn.UC_HOOK_BLOCK, self._on_trace, begin=address, end=address)

    def run(self, request: Request) -> Outcome:
        """Call a function and return the outcome; counts cover this call only."""
        uc = self._uc
        self._outcome = outcome = Outcome()
        self._excluded = 0
        uc.context_restore(self._start_state)
        for counter in self._counters:
            counter.reset()
        self._set_guards(request)
        sp = self._push_arguments(request)
        painted = bytes([_STACK_PAINT]) * (sp - request.stack_limit)
        uc.mem_write(request.stack_limit, painted)
        uc.reg_write(self._isa.link, self._return | self._isa.code_bit)
        stop = threading.Event()
        watch = threading.Thread(target=self._watch, args=(request.budget, stop), daemon=True)
        watch.start()
        try:
            uc.emu_start(request.entry | self._isa.code_bit, self._return)
        except unicorn.UcError as error:
            self._fault_of(error)
        finally:
            stop.set()
            watch.join()
        self._finish(request, sp)
        return outcome

    def _push_arguments(self, request: Request) -> int:
        uc, registers = self._uc, self._isa.arguments
        for register, value in zip(registers, request.args, strict=False):
            uc.reg_write(register, value)
        stacked = request.args[len(registers) :]
        sp = (request.stack_top - 4 * len(stacked)) & -self._isa.stack_alignment
        for index, value in enumerate(stacked):
            uc.mem_write(sp + 4 * index, value.to_bytes(4, "little"))
        uc.reg_write(self._isa.sp, sp)
        return int(sp)

    def _finish(self, request: Request, sp: int) -> None:
        outcome, uc = self._outcome, self._uc
        pc = self._pc()
        if outcome.fault is None and pc != self._return:
            outcome.fault = Fault("stopped", pc)  # WFI, WFE
        outcome.value, outcome.high_value = map(uc.reg_read, self._isa.arguments[:2])
        stack = bytes(uc.mem_read(request.stack_limit, sp - request.stack_limit))
        untouched = len(stack) - len(stack.lstrip(bytes([_STACK_PAINT])))
        outcome.stack_bytes = len(stack) - untouched
        outcome.blocks = [block for counter in self._counters for block in counter.blocks()]
        outcome.instructions = total_instructions(self._counters) - self._excluded
        if outcome.fault is None:
            if not all(counter.consistent() for counter in self._counters):
                outcome.fault = Fault("inexact", pc)
            elif outcome.instructions > request.budget:
                outcome.fault = Fault("budget", pc)

    def _watch(self, budget: int, stop: threading.Event) -> None:
        """Stop the core soon after it has used up its budget."""
        while not stop.wait(_WATCH_SECONDS):
            if total_instructions(self._counters) > budget:
                if self._outcome.fault is None:
                    self._outcome.fault = Fault("budget", 0)
                self._uc.emu_stop()
                return

    def _set_guards(self, request: Request) -> None:
        """Install the hooks of a request; translated code knows whether there are any."""
        wanted = (request.gaps, request.check_alignment)
        if wanted == self._guarded:
            return
        for handle in self._guard_hooks:
            self._uc.hook_del(handle)
        for handle in self._alignment_hooks:  # which the bindings do not know
            uclib.uc_hook_del(self._uc._uch, ctypes.c_size_t(handle))
        self._guard_hooks = [self._guard(*gap) for gap in request.gaps]
        watch = self._alignment if request.check_alignment else None
        self._alignment_hooks = [
            self._add_raw_hook(unicorn.UC_HOOK_CODE, *hook)
            for hook in (watch.hooks() if watch else ())
        ]
        self._uc.ctl_flush_tb()
        self._guarded = wanted

    def _guard(self, start: int, stop: int, access: str) -> int:
        def on_access(
            _uc: object, kind: int, address: int, size: int, _value: int, _data: object
        ) -> None:
            if address + size > start:
                self._stop(Fault("access", self._pc(), address, size, kind in _WRITES))
            else:
                self._forget_condition()

        hooks = {"r": unicorn.UC_HOOK_MEM_READ, "w": unicorn.UC_HOOK_MEM_WRITE, "rw": _ANY_ACCESS}
        # Unicorn compares the first byte of an access: begin where one may still reach the gap.
        begin = max(start - (_WIDEST_ACCESS - 1), 0)
        return int(self._uc.hook_add(hooks[access], on_access, begin=begin, end=stop - 1))

    def _forget_condition(self) -> None:
        """Undo a side effect of Unicorn 2.1 when it calls a memory hook inside an IT block.

        It restores the program counter for the hook, and with it the state of the IT block, which
        translated code keeps to itself and so never clears: the next block would start under a
        condition (unicorn-engine/unicorn issue 2309).
        """
        if self._isa.flags is not None:
            xpsr = self._uc.reg_read(self._isa.flags)
            self._uc.reg_write(self._isa.flags, xpsr & ~_IT_BITS)

    def _on_invalid_access(
        self, _uc: object, kind: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        if kind in (unicorn.UC_MEM_FETCH_UNMAPPED, unicorn.UC_MEM_FETCH_PROT):
            self._stop(Fault("fetch", self._pc(), address, size))
        else:
            self._stop(Fault("access", self._pc(), address, size, kind in _WRITES))
        return False

    def _on_exception(self, _uc: object, number: int, _data: object) -> None:
        self._stop(Fault(self._isa.exceptions.get(number, f"exception {number}"), self._pc()))

    def _on_trace(self, uc: Any, _address: int, _size: int, _data: object) -> None:
        registers = [uc.reg_read(register) for register in self._isa.arguments[:5]]
        if len(registers) < 5:
            registers.append(int.from_bytes(self.read(uc.reg_read(self._isa.sp), 4), "little"))
        size = registers[4]
        caller = self._trace_call(uc.reg_read(self._isa.link) & ~1)
        self._excluded += 1  # the return
        if caller is not None:
            self._excluded += 1
            callers = self._outcome.trace_callers
            callers[caller] = callers.get(caller, 0) + 1
        try:
            data = self.read(registers[2], size)
        except unicorn.UcError:
            self._stop(Fault("trace", self._pc(), registers[2], size))
            return
        row = registers[3] - (1 << 32) if registers[3] >> 31 else registers[3]
        self._outcome.traces.append(
            Trace(
                registers[1],
                row,
                registers[2],
                data,
                total_instructions(self._counters) - self._excluded,
            )
        )

    def _trace_call(self, return_address: int) -> int | None:
        """Return the address of the call of the trace function; None for a tail call."""
        try:
            found = self._isa.call(self.read(return_address - 4, 4), return_address)
        except unicorn.UcError:
            return None
        return found[0] if found is not None and found[1] == self._trace_address else None

    def _pc(self) -> int:
        return int(self._uc.reg_read(self._isa.pc)) & ~1

    def _stop(self, fault: Fault) -> None:
        if self._outcome.fault is None:
            self._outcome.fault = fault
        self._uc.emu_stop()

    def _fault_of(self, error: Any) -> None:
        """Note an error that no hook has seen."""
        if self._outcome.fault is not None:
            return
        kind = "undefined" if error.errno == unicorn.UC_ERR_INSN_INVALID else str(error)
        flags = self._isa.flags
        if flags is not None and not self._uc.reg_read(flags) & _THUMB_BIT:
            kind = "invalid_state"
        self._outcome.fault = Fault(kind, self._pc())

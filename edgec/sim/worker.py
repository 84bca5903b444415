"""The simulator's process: `python -m edgec.sim.worker`, frames on standard input and output.

Requests are `open`, `map`, `write`, `read`, `call` and `close`; the end of the input ends the
process. Every request is answered, with `{"error": ...}` when it failed.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from edgec.sim.protocol import read_frame, write_frame

if TYPE_CHECKING:
    from edgec.sim.machine import Machine

Reply = tuple[dict[str, Any], bytes]


class Worker:
    """Holds the machine between requests."""

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._capstone: Any = None

    def handle(self, header: dict[str, Any], payload: bytes) -> Reply:
        command = header["command"]
        if command == "open":
            return self._open(header)
        machine = self._machine
        if machine is None:
            raise RuntimeError("the first request must be `open`")
        if command == "map":
            machine.map(header["address"], header["size"], True, False)
            return {}, b""
        if command == "unmap":
            machine.unmap(header["address"], header["size"])
            return {}, b""
        if command == "write":
            machine.write(header["address"], payload)
            return {}, b""
        if command == "code":
            machine.add_code(header["address"], payload)
            return {}, b""
        if command == "aligned":
            machine.set_aligned([(a, r, c) for a, r, c in header["instructions"]])
            return {}, b""
        if command == "trace":
            machine.set_trace(header["address"])
            return {}, b""
        if command == "read":
            return {}, machine.read(header["address"], header["size"])
        if command == "call":
            return self._call(machine, header)
        raise RuntimeError(f"unknown request {command!r}")

    def _open(self, header: dict[str, Any]) -> Reply:
        try:
            capstone: Any = importlib.import_module("capstone")
            unicorn: Any = importlib.import_module("unicorn")
        except ImportError as error:
            return {"missing": error.name or "unicorn", "reason": str(error)}, b""
        from edgec.sim.machine import Machine

        if header["core"].startswith("rv32"):
            how = capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC
        else:
            how = capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
        self._capstone = capstone.Cs(*how)
        regions = [tuple(region) for region in header["regions"]]
        self._machine = Machine(
            header["core"], regions, header["return"], header["native"], header["global_pointer"]
        )
        return {"unicorn": unicorn.__version__}, b""

    def _call(self, machine: Machine, header: dict[str, Any]) -> Reply:
        from edgec.sim.machine import Request

        outcome = machine.run(
            Request(
                header["entry"],
                header["args"],
                header["stack_top"],
                header["stack_limit"],
                header["budget"],
                [(start, stop, access) for start, stop, access in header["gaps"]],
                header["check_alignment"],
            )
        )
        blocks = np.array(outcome.blocks, np.uint64).reshape(-1, 3)
        reply: dict[str, Any] = {
            "value": outcome.value,
            "high_value": outcome.high_value,
            "stack_bytes": outcome.stack_bytes,
            "instructions": outcome.instructions,
            "blocks": len(blocks),
            "trace_callers": list(outcome.trace_callers.items()),
            "traces": [
                (t.id, t.row, t.address, len(t.data), t.instructions) for t in outcome.traces
            ],
        }
        if outcome.fault is not None:
            reply["fault"] = asdict(outcome.fault) | {
                "instruction": self._disassemble(machine, outcome.fault.pc)
            }
        payload = blocks.astype("<u8").tobytes() + b"".join(t.data for t in outcome.traces)
        return reply, payload

    def _disassemble(self, machine: Machine, address: int) -> str:
        code = b""
        for size in (4, 2):  # the last halfword of a region, too
            try:
                code = machine.read(address, size)
                break
            except Exception:  # unmapped: nothing to show
                continue
        if not code:
            return ""
        for instruction in self._capstone.disasm(code, address, count=1):
            return f"{instruction.mnemonic} {instruction.op_str}".rstrip()
        return ".inst " + " ".join(
            f"0x{int.from_bytes(code[at : at + 2], 'little'):04x}" for at in range(0, len(code), 2)
        )


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until `close` or the end of the input."""
    worker = Worker()
    while (frame := read_frame(requests)) is not None:
        header, payload = frame
        if header.get("command") == "close":
            write_frame(replies, {})
            return
        try:
            reply, data = worker.handle(header, payload)
        except Exception as error:
            reply = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(),
            }
            data = b""
        write_frame(replies, reply, data)


def main() -> None:
    """Serve on the process's own pipes; what libraries print goes to standard error."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(sys.stdin.fileno(), os.O_BINARY)
        msvcrt.setmode(sys.stdout.fileno(), os.O_BINARY)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()

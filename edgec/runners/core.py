"""The core engine: functions of a board's firmware on a simulated core.

Start-up code, ports and link are not run: the model's functions are called directly, on the
context, memory and arena that the generated main.c declares by agreed names. Any access outside
of these, of constants and of the stack fails the run and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgec.codegen.manifest import Manifest
from edgec.errors import RunFailed
from edgec.link.commands import Stops
from edgec.runners.engine import (
    STATUS_NAMES,
    Array,
    ModelSession,
    Project,
    RunCost,
    RunResult,
    Traced,
    collect_traces,
)
from edgec.sim.core import CallResult, CoreSimulator, Span, simulated_as
from edgec.sim.image import Image
from edgec.sim.timing import TIMINGS, Cycles
from edgec.sim.waits import waiting_cycles


class CoreModel:
    """One firmware image in a simulated core, its model initialized."""

    def __init__(self, elf: Path, core: str, manifest: Manifest) -> None:
        self._manifest = manifest
        self._simulator = CoreSimulator(elf, simulated_as(core), timing=TIMINGS.get(core))
        try:
            self._context = self._simulator.span("ec_main_context", write=True)
            names = ("ec_main_arena", *(f"ec_main_arena_{area.region}" for area in manifest.areas))
            self._stale = [self._simulator.span(name, write=True) for name in names]
            self._allow = [
                self._context,
                self._simulator.span("ec_main_memory", write=False),
                *self._stale,
                *self._simulator.read_only_spans(),
            ]
            if manifest.state_bytes:
                self._allow.append(self._simulator.span("ec_main_state", write=True))
            memory = self._simulator.symbols["ec_main_memory"]
            self.call("init", self._context.address, memory)
            self._inputs, self._outputs = self._find_addresses()
            self._arguments = self._make_arguments()
        except BaseException:
            self.close()
            raise

    def call(self, name: str, *args: int) -> CallResult:
        result = self._simulator.call(f"{self._manifest.model}_{name}", *args, allow=self._allow)
        status = _signed(result.value)
        if name != "selftest" and status != 0:
            raise RunFailed(
                f"{self._manifest.model}_{name} failed on the simulated core with ec_status "
                f"{status} ({STATUS_NAMES.get(status, 'unknown')})"
            )
        return result

    def status(self, name: str) -> int:
        """Call a function that takes only the context and return its ec_status."""
        return _signed(self.call(name, self._context.address).value)

    def set_size(self, number: int, value: int) -> None:
        """Choose a size. Raises RunFailed where it may not have this value."""
        self.call("set_size", self._context.address, number, value)

    def run(self, inputs: Sequence[Array]) -> tuple[CallResult, list[bytes]]:
        if self._manifest.io != "rows":  # with rows, the arena holds what was fed
            for span in self._stale:
                self._simulator.write(span.address, b"\x5a" * span.size)
        for address, array in zip(self._inputs, inputs, strict=True):
            self._simulator.write(address, array.tobytes())
        result = self.call("run", self._context.address, *self._arguments)
        outputs = [
            self._simulator.read(address, port.bytes)
            for address, port in zip(self._outputs, self._manifest.outputs, strict=True)
        ]
        return result, outputs

    def _find_addresses(self) -> tuple[list[int], list[int]]:
        """Return the addresses of the inputs and of the outputs."""
        addresses: list[list[int]] = []
        for kind, ports in (("input", self._manifest.inputs), ("output", self._manifest.outputs)):
            if self._manifest.io == "caller" or (self._manifest.io, kind) == ("rows", "input"):
                spans = [
                    self._simulator.allocate(f"{kind} {i}", port.bytes, write=kind == "output")
                    for i, port in enumerate(ports)
                ]
                self._allow += spans
                self._stale += spans if kind == "output" else []
                addresses.append([span.address for span in spans])
                continue
            addresses.append([])
            for index in range(len(ports)):
                function = f"{self._manifest.model}_{kind}"
                address = self._simulator.call(
                    function, self._context.address, index, allow=self._allow
                ).value
                if not address:
                    raise RunFailed(f"{function}({index}) returned a null pointer")
                addresses[-1].append(address)
        return addresses[0], addresses[1]

    def _make_arguments(self) -> tuple[int, int]:
        """Return the pointers to the tables of inputs and outputs that `run` takes."""
        if self._manifest.io == "arena":
            return 0, 0
        tables = []
        for name, addresses in (("inputs", self._inputs), ("outputs", self._outputs)):
            table: Span = self._simulator.allocate(f"the table of {name}", 4 * len(addresses))
            data = b"".join(address.to_bytes(4, "little") for address in addresses)
            self._simulator.write(table.address, data)
            self._allow.append(Span(table.name, table.address, table.size, False))
            tables.append(table.address)
        return tables[0], tables[1] if self._manifest.io == "caller" else 0

    @property
    def image(self) -> Image:
        return self._simulator.image

    def close(self) -> None:
        self._simulator.close()


class CoreSession(ModelSession[CoreModel]):
    """A session on a simulated core of the project's board."""

    engine = "core"
    chooses_sizes = True

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        assert project.board is not None  # `open_session` has checked
        self._core = project.board.core.name
        self._model(False)

    def _open(self, trace: bool) -> CoreModel:
        return CoreModel(self.artefact(trace), self._core, self.manifest)

    def _run(self, inputs: list[Array], stops: Stops) -> RunResult:
        model = self._model(bool(stops))
        for number, value in enumerate(self.sizes):
            model.set_size(number, value)
        result, outputs = model.run(inputs)
        cycles = self._cycles(model, result)
        traces, layers = collect_traces(
            self.manifest, (Traced(e.id, e.row, e.data, e.instructions) for e in result.trace)
        )
        return RunResult(
            self._outputs(outputs),
            instructions=result.instructions,
            cycles=None if cycles is None else round(cycles.usual),
            cycles_range=None if cycles is None else (round(cycles.least), round(cycles.most)),
            cycles_source=None if cycles is None else "modelled",
            stack_bytes=result.stack_bytes,
            layers=tuple(RunCost(count, None) for count in layers) if stops else (),
            traces=traces,
        )

    def _cycles(self, model: CoreModel, result: CallResult) -> Cycles | None:
        """The cycles on the board, with the time that it waits for its flash."""
        board = self._project.board
        if result.core_cycles is None or board is None or board.flash_waits is None:
            return result.core_cycles
        waited = waiting_cycles(model.image, result.counts, board.flash_waits)
        return result.core_cycles.plus(waited)

    def reset(self) -> None:
        for model in self._models.values():
            model.status("reset")

    def selftest(self) -> int:
        return self._model(False).status("selftest")

    def close(self) -> None:
        for model in self._models.values():
            model.close()


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word

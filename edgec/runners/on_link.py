"""Base of the engines over a serial link: a session whose model answers by the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from edgec.build.elf import read_elf
from edgec.codegen.manifest import Manifest
from edgec.errors import RunFailed
from edgec.link.client import LinkClient, Progress
from edgec.link.commands import Done, Identity, Kind, Stopped, Stops
from edgec.link.errors import DeviceFault
from edgec.link.trace_limits import TraceLimits
from edgec.runners.engine import (
    Array,
    ModelSession,
    Project,
    RunCost,
    RunResult,
    Traced,
    Transfer,
    collect_traces,
)

# One inference of the largest models on the slowest emulation, with room.
RUN_TIMEOUT_S = 600.0
# The wait for a crashed program is limited. The limit is large because emulators may be much slower
# than the time that they emulate, and a busy computer may pause for long.
_EMULATOR_SLOWNESS = 100.0
_LEAST_TIMEOUT_S = 60.0
# Of plain loops on the smallest cores; before the first run there is nothing better.
_CYCLES_PER_MAC = 8


def trace_limits(manifest: Manifest) -> TraceLimits:
    """The limits of one traced run; a value inside a body is shown in each of its runs."""
    events = sum(layer.hook_calls for layer in manifest.layers)
    most = {e.id: e.bytes * (events if e.is_inside else 1) for e in manifest.traces}
    return TraceLimits(most, events)


class LinkModel:
    """A program that answered on a link and holds the model of a manifest.

    `key` is the project's. Raises WrongModel if it holds another one, NotProven if it does not hold
    the key, and all that `LinkClient.hello` raises.
    """

    def __init__(
        self,
        client: LinkClient,
        manifest: Manifest,
        *,
        hello_patience_s: float = 4.0,
        transfer: Transfer | None = None,
        key: bytes | None = None,
    ) -> None:
        self.client = client
        self._manifest = manifest
        self._transfer = transfer
        self._values = {entry.id: entry.value for entry in manifest.traces}
        self.identity: Identity = client.hello(hello_patience_s)
        client.expect_model(self.identity, manifest.model, manifest.build_hash, manifest.board)
        client.prove(self.identity, key)
        self._expect_s = 0.0
        self._patience_s = _patience_s(manifest.macs * _CYCLES_PER_MAC / self.identity.clock_hz)

    def run(self, inputs: Sequence[Array]) -> tuple[Done, list[bytes]]:
        """Run once; returns the run state and the bytes of the outputs."""
        self._write(inputs)
        done = self.client.run(timeout_s=self._patience_s, expect_s=self._expect_s)
        # On an emulator that is slower than its own time this is less than the run will take.
        self._expect_s = done.most / self.identity.ticks_hz
        self._patience_s = max(self._patience_s, _patience_s(self._expect_s))
        return done, self._read(done)

    def traced_run(
        self, inputs: Sequence[Array], stops: Stops
    ) -> tuple[Done, list[bytes], list[Traced]]:
        """Run once, stopping at events of `stops`. Raises RunFailed where tracing is absent."""
        if not self.identity.has_trace:
            raise RunFailed(
                f"the program on the {self.identity.board} was built without tracing",
                hint="flash the traced build of the project",
            )
        events: list[Traced] = []

        def visit(stop: Stopped, data: bytes) -> None:
            events.append(Traced(stop.id, stop.row, data, stop.ticks))

        def progress(stop: Stopped, done: int, total: int) -> None:
            if self._transfer is not None:
                self._transfer(self._values.get(stop.id, "value"), done, total)

        self._write(inputs)
        done = self.client.traced_run(
            visit, stops=stops, timeout_s=self._patience_s, progress=progress,
            limits=trace_limits(self._manifest),
        )  # fmt: skip
        return done, self._read(done), events

    def _write(self, inputs: Sequence[Array]) -> None:
        for index, array in enumerate(inputs):
            name = self._manifest.inputs[index].name
            self.client.write_input(index, array.tobytes(), self._progress(name))

    def _read(self, done: Done) -> list[bytes]:
        if done.status != 0:
            return []
        return [
            self.client.read(Kind.OUTPUT, index, port.bytes, self._progress(port.name))
            for index, port in enumerate(self._manifest.outputs)
        ]

    def _progress(self, name: str) -> Progress | None:
        return None if self._transfer is None else partial(self._transfer, name)


def _patience_s(expect_s: float) -> float:
    """Timeout in seconds of a command that should take `expect_s`."""
    return min(RUN_TIMEOUT_S, _LEAST_TIMEOUT_S + _EMULATOR_SLOWNESS * expect_s)


class LinkSession(ModelSession[LinkModel]):
    def __init__(self, project: Project) -> None:
        super().__init__(project)
        if self.manifest.harness == "own":
            raise RunFailed(
                f"the main program of {self.manifest.model} is your own, and serves no link",
                hint="run it with --engine core, or flash it and use `edgec monitor`",
            )
        if self.manifest.harness != "link":
            raise RunFailed(
                f"the program of {self.manifest.model} speaks the protocol of "
                f"{self.manifest.harness}, not the link's",
                hint="drive it with `edgec bench --suite mlperf-tiny`, or build it without "
                "--harness",
            )

    def _cost(self, ticks: int, identity: Identity) -> RunCost:
        """Return the cost for `ticks` of the device's clock."""
        raise NotImplementedError

    def _run(self, inputs: list[Array], stops: Stops) -> RunResult:
        model = self._model(bool(stops))
        events: list[Traced] = []
        try:
            if stops:
                done, outputs, events = model.traced_run(inputs, stops)
            else:
                done, outputs = model.run(inputs)
        except DeviceFault as error:
            raise self._located(error, model.identity) from error
        self._finished(done.status)
        cost = self._cost(done.fewest, model.identity)
        traces, ticks = collect_traces(self.manifest, events)
        unknown = RunCost(None, None)
        layers = [unknown if t is None else self._cost(t, model.identity) for t in ticks]
        one = self._cost(1, model.identity)
        return RunResult(
            self._outputs(outputs),
            instructions=cost.instructions,
            cycles=cost.cycles,
            cycles_source="measured" if cost.cycles is not None else None,
            resolution=float(one.instructions or one.cycles or 1),
            clock_overhead=self._cost(done.overhead, model.identity),
            stack_bytes=model.client.stack().used_bytes,
            layers=tuple(layers) if stops else (),
            traces=traces,
        )

    def _located(self, error: DeviceFault, identity: Identity) -> DeviceFault:
        """The same with the names of functions, where the program's ELF is here."""
        elf = self._project.traced if identity.has_trace else self._project.artefact
        locate = read_elf(elf).describe_address if elf is not None and elf.is_file() else None
        return DeviceFault(error.where, error.fault, locate)

    def reset(self) -> None:
        for model in [*self._models.values()] or [self._model(False)]:
            self._finished(model.client.reset())

    def selftest(self) -> int:
        return self._model(False).client.selftest(timeout_s=RUN_TIMEOUT_S)

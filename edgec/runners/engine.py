"""Engines: where a built project can run, behind one interface.

| engine | runs | reports |
|---|---|---|
| `host`   | the shared library, in this process    | outputs, every traced value               |
| `gpu_emulation` | a model for a GPU without one, likewise | the same                          |
| `core`   | the firmware's functions, simulated    | also instructions, modelled cycles, stack |
| `qemu`   | the whole firmware on an emulated board | also instructions, over the serial link  |
| `serial` | the whole firmware on a real board     | also measured cycles                      |

`open_session` opens a project in an engine; the session then runs any number of inputs without
starting again. A traced run uses the project's traced artefact, which is opened when first needed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from edgec.boards.board import Board
from edgec.codegen.manifest import Manifest
from edgec.errors import RunFailed, ToolMissing
from edgec.graph.interpret import in_use as answers_in_use
from edgec.link.commands import Stops
from edgec.runners.emulator import missing_emulator
from edgec.runners.sizes import at_largest, chosen_sizes, in_use, shape_of
from edgec.targets.core import is_this_computer

Array = npt.NDArray[Any]
CyclesSource = Literal["measured", "modelled"]

Transfer = Callable[[str, int, int], None]
"""Called while a tensor moves: with its name, its bytes done and all its bytes."""

ENGINES = ("host", "gpu_emulation", "core", "qemu", "serial")
"""Names of the engines, the nearest first."""


@dataclass(frozen=True)
class RunCost:
    """The cost of a run or of one layer; None if the engine does not count it."""

    instructions: int | None
    cycles: int | None


@dataclass(frozen=True)
class RunResult:
    """One inference.

    `outputs` are the manifest's answers, with its dtypes and shapes, or their used parts.
    `instructions` and `cycles` are the inference's, without start-up and input; `resolution` is the
    clock's resolution in instructions (or in cycles, if there are no instructions). `cycles_range`
    bounds the true value of modelled cycles (`edgec.sim.timing`, `edgec.sim.waits`).
    `clock_overhead` is the cost of reading the clock once, which the device has subtracted.
    `stack_bytes` is the most stack used: by the call (core), or since start-up (qemu, serial).
    `layers` has one entry for each layer of the manifest and `traces` maps trace ids to bytes
    (uint8, one dimension, rows in order); both are empty unless the run asked for them.
    """

    outputs: tuple[Array, ...]
    instructions: int | None = None
    cycles: int | None = None
    cycles_source: CyclesSource | None = None
    cycles_range: tuple[int, int] | None = None
    resolution: float = 1.0
    clock_overhead: RunCost | None = None
    stack_bytes: int | None = None
    layers: tuple[RunCost, ...] = ()
    traces: Mapping[int, npt.NDArray[np.uint8]] = field(default_factory=dict)


class Project(Protocol):
    """The parts of a built project that a session needs; `edgec.deploy.project.Built` has them.

    `artefact` is an ELF or the host's shared library, `traced` the same, built with EC_TRACE_HOOK.
    """

    @property
    def project(self) -> Path: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def board(self) -> Board | None: ...
    @property
    def artefact(self) -> Path | None: ...
    @property
    def traced(self) -> Path | None: ...


class Session:
    """A project that is ready to run; a context manager. Keeps the model's state between runs."""

    engine = ""
    #: Whether open sizes can be chosen; else each run is at the largest.
    chooses_sizes = False

    def __init__(self, project: Project) -> None:
        self.manifest = project.manifest
        self._project = project
        #: The open sizes of the next run.
        self.sizes = tuple(size.maximum for size in self.manifest.sizes)

    def run(
        self, inputs: Sequence[Array], *, trace: bool = False, profile: bool = False
    ) -> RunResult:
        """Run one inference on `inputs`, in the manifest's order, of its shapes and dtypes.

        trace: also return every traced value and the cost of each layer; profile: the cost of
        each layer alone, which over a serial link is much quicker. Raises RunFailed for wrong
        inputs, or when the model does not run to its end; LinkError when a board is lost.
        """
        wanted = Stops.NOWHERE
        if trace or profile:
            wanted = Stops.STEPS | (Stops.VALUES if trace else Stops.NOWHERE)
        arrays = self._check(inputs)
        largest = [at_largest(p, a) for p, a in zip(self.manifest.inputs, arrays, strict=True)]
        result = self._run(largest, wanted)
        if trace:
            self._check_traces(result)
        shapes = (shape_of(self.manifest, port, self.sizes) for port in self.manifest.outputs)
        outputs = tuple(map(in_use, result.outputs, shapes))
        if self.manifest.versions:
            result = replace(result, layers=self._layers_that_ran(result))
        if self.manifest.counts:
            return replace(result, outputs=answers_in_use(outputs, self.manifest.counts))
        return result if not self.sizes else replace(result, outputs=outputs)

    def reset(self) -> None:
        """Reset the model's state to its initial values."""
        raise NotImplementedError

    def selftest(self) -> int:
        """Run the model's own self-test and return its ec_status, 0 for good."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the session's resources; harmless when called twice."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, inputs: list[Array], stops: Stops) -> RunResult:
        """Run once; `stops` says which trace events are wanted."""
        raise NotImplementedError

    def artefact(self, trace: bool) -> Path:
        """Return the file to run. Raises RunFailed if the project was not built that way."""
        path = self._project.traced if trace else self._project.artefact
        if path is None or not path.is_file():
            kind = "traced build" if trace else "build"
            raise RunFailed(
                f"the project of {self.manifest.model} has no {kind}",
                hint="build it with tracing" if trace else "build it for a board",
            )
        return path

    def _check(self, inputs: Sequence[Array]) -> list[Array]:
        ports = self.manifest.inputs
        if len(inputs) != len(ports):
            raise RunFailed(
                f"{self.manifest.model} takes {len(ports)} inputs, {len(inputs)} were given"
            )
        arrays = []
        if self.manifest.sizes:
            self.sizes = chosen_sizes(self.manifest, list(map(np.asarray, inputs)))
            self._require_sizes()
        for port, value in zip(ports, inputs, strict=True):
            array = np.asarray(value)
            shape = shape_of(self.manifest, port, self.sizes)
            if array.dtype != np.dtype(port.dtype) or array.shape != shape:
                raise RunFailed(
                    f"input '{port.name}' of {self.manifest.model} is {port.dtype} "
                    f"{list(shape)}, was given {array.dtype} {list(array.shape)}"
                )
            arrays.append(np.asarray(array, order="C"))
        return arrays

    def _require_sizes(self) -> None:
        if not self.chooses_sizes and self.sizes != tuple(
            size.maximum for size in self.manifest.sizes
        ):
            raise RunFailed(
                f"the {self.engine} engine runs {self.manifest.model} at its largest sizes only",
                hint="use --engine host or core",
            )

    def _layers_that_ran(self, result: RunResult) -> tuple[RunCost, ...]:
        """The costs of the layers; layers for other sizes cost nothing."""
        running = self.manifest.steps_at(self.sizes)
        pairs = zip(self.manifest.layers, result.layers, strict=False)
        return tuple(
            cost if self.manifest.step_of(layer) in running else RunCost(0, 0)
            for layer, cost in pairs
        )

    def _check_traces(self, result: RunResult) -> None:
        for entry in self.manifest.traces_shown(self.sizes, result.traces):
            found = result.traces.get(entry.id)
            if entry.is_inside and (found is None or found.nbytes % entry.bytes == 0):
                continue  # of a body that did not run, or ran several times
            if found is None or found.nbytes != entry.bytes:
                raise RunFailed(
                    f"the traced run of {self.manifest.model} gave "
                    f"{'nothing' if found is None else f'{found.nbytes} bytes'} for "
                    f"'{entry.value}', not {entry.bytes} bytes",
                    hint="the project and its manifest are of different builds: build again",
                )

    def _outputs(self, data: Sequence[bytes]) -> tuple[Array, ...]:
        return tuple(
            np.frombuffer(raw, dtype=np.dtype(port.dtype)).reshape(port.shape).copy()
            for port, raw in zip(self.manifest.outputs, data, strict=True)
        )

    def _finished(self, status: int) -> None:
        """Raise RunFailed unless an ec_status is good."""
        if status != 0:
            raise RunFailed(
                f"{self.manifest.model}_run failed on the {self.engine} engine with ec_status "
                f"{status} ({STATUS_NAMES.get(status, 'unknown')})"
            )


M = TypeVar("M")


class ModelSession(Session, Generic[M]):
    """A session on the plain program and the traced one, each opened when it is first needed."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._models: dict[bool, M] = {}

    def _open(self, trace: bool) -> M:
        raise NotImplementedError

    def _model(self, trace: bool) -> M:
        if trace not in self._models:
            self._models[trace] = self._open(trace)
        return self._models[trace]


# The codes of runtime_c/include/edgec/ec_status.h; a test compares the two.
STATUS_NAMES: Mapping[int, str] = {
    0: "EC_OK",
    -1: "EC_ERR_NULL",
    -2: "EC_ERR_SIZE",
    -3: "EC_ERR_ALIGNMENT",
    -4: "EC_ERR_NOT_INITIALIZED",
    -5: "EC_ERR_SELFTEST",
    -6: "EC_ERR_RANGE",
    -7: "EC_ERR_WEIGHTS",
    -8: "EC_ERR_CPU",
    -9: "EC_ERR_GPU",
    -10: "EC_ERR_NPU",
}


@dataclass(frozen=True)
class Traced:
    """One trace event as any engine sees it; `counted` is its clock when the event came."""

    id: int
    row: int
    data: bytes
    counted: int | None


def collect_traces(
    manifest: Manifest, events: Iterable[Traced]
) -> tuple[dict[int, npt.NDArray[np.uint8]], list[int | None]]:
    """Return the bytes of each traced value, and the clock's advance in each layer.

    An event without data whose id is a step's or a part's marks an end: of the step, or of one
    row of the part. The clock starts at 0.
    """
    layer_of = {layer.id: position for position, layer in enumerate(manifest.layers)}
    for part in manifest.parts:  # a step ends with its last part
        layer_of[part.step] = layer_of[part.id]
    costs: list[int | None] = [None] * len(manifest.layers)
    values: dict[int, list[bytes]] = {}
    before = 0
    for event in events:
        if event.data or event.id not in layer_of:
            values.setdefault(event.id, []).append(event.data)
        elif event.counted is not None:
            position = layer_of[event.id]
            costs[position] = (costs[position] or 0) + event.counted - before
            before = event.counted
    joined = {key: np.frombuffer(b"".join(rows), np.uint8) for key, rows in values.items()}
    return joined, costs


def default_engine(board: Board | None, port: str | None = None) -> str:
    """Return the engine that `edgec run` takes when none is named.

    A named port means a real board; else QEMU where it is installed and can be the board; else
    the simulated core, or the host for the host's own board.
    """
    if port is not None:
        return "serial"
    if board is None or board.is_host:
        return "host"
    if missing_emulator(board) is None or not board.core.is_simulated:
        return "qemu"
    return "core"


def _require_gpu(board: Board | None) -> None:
    if board is not None and not board.core.has_gpu:
        raise RunFailed(
            f"{board.name} has no GPU to emulate", hint="use --board cuda_host or a Jetson"
        )


def _require_simulator(board: Board) -> None:
    if importlib.util.find_spec("unicorn") is None:
        raise ToolMissing(
            "the core simulator needs the Python package unicorn",
            hint="pip install 'edgec[sim]', or use --engine qemu",
        )
    if not board.core.is_simulated:
        raise RunFailed(
            f"the core engine does not simulate the {board.core.name} of {board.name}",
            hint="use --engine qemu, or a real board" if board.qemu else "use a real board",
        )


def require_engine(engine: str, board: Board | None, *, what: str = "") -> None:
    """Raise unless an engine can run a board's program.

    `what` is shown instead of the board's name. Raises RunFailed for an engine that cannot run it,
    ToolMissing if the engine's program or package is not installed.
    """
    if engine not in ENGINES:
        raise RunFailed(f"no engine is called '{engine}'", hint=f"known: {', '.join(ENGINES)}")
    on_host = board is None or board.is_host
    board_name = "no board" if board is None else board.name
    if engine == "gpu_emulation":
        return _require_gpu(board)
    if on_host != (engine == "host"):
        raise RunFailed(
            f"the {engine} engine cannot run a project built for {what or board_name}",
            hint="build for the board 'host'" if engine == "host" else "use --engine host",
        )
    if engine == "host" and board is not None and not is_this_computer(board.core):
        raise RunFailed(
            f"a build for {board.name} runs on a computer with {board.core.title}",
            hint="copy the project there and run it there, or "
            + (
                "use --engine gpu_emulation" if board.core.has_gpu else "build for the board 'host'"
            ),
        )
    if engine == "qemu" and board is not None:
        problem = missing_emulator(board)
        if problem is not None:
            raise problem
    if engine == "core" and board is not None:
        _require_simulator(board)


def open_session(
    engine: str, project: Project, *, port: str | None = None, transfer: Transfer | None = None
) -> Session:
    """Open a built project in an engine; `port` is the serial port of a real board, `transfer`
    hears of every tensor that moves over it.

    Raises RunFailed when the engine cannot run this project, ToolMissing when a program or
    package is absent, LinkError when a board does not answer.
    """
    board = project.board
    require_engine(engine, board, what=project.manifest.target if board is None else "")
    # One engine's missing package must not break the others.
    if engine == "serial":
        from edgec.runners.serial import SerialSession

        return SerialSession(project, port, transfer)
    module = importlib.import_module(f"edgec.runners.{engine}")
    name = "".join(word.capitalize() for word in engine.split("_"))
    session: Session = getattr(module, f"{name}Session")(project)
    return session

"""The host engine: a model's shared library in this process, called through ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
from edgec.targets.core import is_gpu

# Filled around the arena and the state, and looked at after every run.
_GUARD_BYTES = 256
_GUARD_VALUE = 0xA5
# Fills the arena and the outputs before each run, so that nothing of the run before can pass.
_STALE_VALUE = 0x5A
# More than any generated context: a few pointers and a hash.
_CONTEXT_BYTES = 1024

_TRACE_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32
)


class _Region(ctypes.Structure):
    """One pointer and its size, as in <model>_memory; the compiler's padding is ctypes'."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32))


class _Guarded:
    """Aligned memory with known bytes on both sides."""

    def __init__(self, name: str, size: int, alignment: int) -> None:
        self.name = name
        self.size = size
        room = np.full(size + 2 * _GUARD_BYTES + alignment, _GUARD_VALUE, dtype=np.uint8)
        start = _GUARD_BYTES + (-(room.ctypes.data + _GUARD_BYTES)) % alignment
        self._room = room
        self._start = start
        self.view: npt.NDArray[np.uint8] = room[start : start + size]
        self.view[:] = 0
        self.address = room.ctypes.data + start

    def check(self) -> None:
        """Raise RunFailed if a byte outside has changed."""
        before = self._room[: self._start]
        after = self._room[self._start + self.size :]
        for side, guard in (("before", before), ("after", after)):
            if np.any(guard != _GUARD_VALUE):
                raise RunFailed(
                    f"the model wrote {side} the {self.name} of {self.size} bytes",
                    hint="this is a bug in edgec",
                )


def _pointers(arrays: Sequence[Array]) -> Any:
    """A C array of where these begin."""
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])


_FUNCTIONS = ("init", "input", "output", "run", "reset", "selftest")


def _functions(manifest: Manifest) -> tuple[str, ...]:
    """The endings of the names of the functions that a model has."""
    more = {
        "feed_row": manifest.io == "rows", "set_size": bool(manifest.sizes),
        "output_extent": bool(manifest.sizes or manifest.counts), "close": is_gpu(manifest.target),
    }  # fmt: skip
    return (*_FUNCTIONS, *(name for name, is_there in more.items() if is_there))


def _init_failed(manifest: Manifest, status: int) -> RunFailed:
    name = STATUS_NAMES.get(status, "unknown")
    hint = ""
    if is_gpu(manifest.target):
        hint = "without a CUDA driver and a GPU, use --engine gpu_emulation; see `edgec doctor`"
        needed = {"ec_cudnn.h": "libcudnn.so.9 or .8", "ec_tensorrt.h": "libedgec_tensorrt.so"}
        wanted = [what for name, what in needed.items() if name in manifest.files]
        hint += f"; this build needs {' and '.join(wanted)}, too" if wanted else ""
    return RunFailed(f"{manifest.model}_init failed with ec_status {status} ({name})", hint=hint)


class HostModel:
    """One loaded library, its context, arena and state."""

    def __init__(self, library: Path, manifest: Manifest) -> None:
        self._manifest = manifest
        try:
            self._library = ctypes.CDLL(str(library))
            self._functions = {
                name: getattr(self._library, f"{manifest.model}_{name}")
                for name in _functions(manifest)
            }
        except (OSError, AttributeError) as error:
            raise RunFailed(
                f"cannot load {library}", details=(str(error),), hint="build the project again"
            ) from error
        for name, function in self._functions.items():
            function.restype = ctypes.c_void_p if name in ("input", "output") else ctypes.c_int
        alignment = manifest.arena_alignment
        self._context = _Guarded("context", _CONTEXT_BYTES, 16)
        self._arena = _Guarded("arena", manifest.arena_bytes, alignment)
        self._state = _Guarded("state", manifest.state_bytes, alignment)
        self._areas = [
            _Guarded(f"arena of {area.region}", area.bytes, alignment) for area in manifest.areas
        ]
        states = [self._state] if manifest.state_bytes else []
        regions = [self._arena, *self._areas, *states]
        memory = (_Region * len(regions))(*[_Region(r.address, r.size) for r in regions])
        status = self._functions["init"](
            ctypes.c_void_p(self._context.address), ctypes.byref(memory)
        )
        if status != 0:
            raise _init_failed(manifest, status)
        self._events: list[Traced] = []
        self._hook: Any = None

    def record_traces(self) -> None:
        """Point the library's trace hook here. Raises RunFailed if it was built without."""
        self._hook = _TRACE_FUNCTION(self._trace)  # kept: C holds no reference
        try:
            slot = ctypes.c_void_p.in_dll(self._library, "ec_trace_callback")
        except ValueError as error:
            raise RunFailed(
                "the host library was built without its trace hook", hint="build it again"
            ) from error
        slot.value = ctypes.cast(self._hook, ctypes.c_void_p).value

    def _trace(self, context: int, id_: int, data: int, row: int, size: int) -> None:
        copied = ctypes.string_at(data, size) if size else b""
        self._events.append(Traced(id_, row, copied, None))

    def call(self, name: str) -> int:
        status: int = self._functions[name](ctypes.c_void_p(self._context.address))
        self.check()
        return status

    def set_size(self, number: int, value: int) -> int:
        """Choose a size; returns the ec_status."""
        status: int = self._functions["set_size"](
            ctypes.c_void_p(self._context.address), ctypes.c_uint32(number), ctypes.c_uint32(value)
        )
        self.check()
        return status

    def output_extent(self, output: int, axis: int) -> int:
        """Extent of an output's dimension after a run, if it may change."""
        places = (ctypes.c_uint32(number) for number in (output, axis))
        extent: int = self._functions["output_extent"](
            ctypes.c_void_p(self._context.address), *places
        )
        return extent

    def run(self, inputs: Sequence[Array]) -> tuple[int, list[bytes], list[Traced]]:
        """Run once; returns the ec_status, the bytes of the outputs and the trace events."""
        self._events.clear()
        for region in (self._arena, *self._areas):
            region.view[:] = _STALE_VALUE
        context = ctypes.c_void_p(self._context.address)
        manifest = self._manifest
        if manifest.io == "caller":
            taken = self._stale_outputs()
            status: int = self._functions["run"](context, _pointers(inputs), _pointers(taken))
            outputs = [a.tobytes()[: p.bytes] for a, p in zip(taken, manifest.outputs, strict=True)]
        else:
            if manifest.io == "rows":
                self._feed(inputs[0])
            else:
                for index, array in enumerate(inputs):
                    ctypes.memmove(self._place("input", index), array.ctypes.data, array.nbytes)
            status = self._functions["run"](context, None, None)
            outputs = [
                ctypes.string_at(self._place("output", index), port.bytes)
                for index, port in enumerate(manifest.outputs)
            ]
        self.check()
        return status, outputs, list(self._events)

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        """Run once on memory at these addresses; returns the ec_status.

        The model must be built with `io="caller"`. Nothing is checked, so that little time passes.
        """
        status: int = self._functions["run"](
            ctypes.c_void_p(self._context.address),
            (ctypes.c_void_p * len(inputs))(*inputs),
            (ctypes.c_void_p * len(outputs))(*outputs),
        )
        return status

    def repeated(self, inputs: Sequence[Array]) -> Callable[[], int]:
        """A call that runs on these inputs again and checks nothing, for measurements.

        The model must be built with `io="caller"`, so that no run destroys its inputs.
        """
        taken = self._stale_outputs()
        run, context = self._functions["run"], ctypes.c_void_p(self._context.address)
        sources, targets = _pointers(inputs), _pointers(taken)
        kept = (inputs, taken)  # C holds no reference

        def call(_: object = kept) -> int:
            status: int = run(context, sources, targets)
            return status

        return call

    def clocked(
        self, clock: Any, inputs: Sequence[Array], rounds: int, least: npt.NDArray[np.uint64]
    ) -> None:
        """Let `ec_clock_runs` of `runtime_c/host/ec_layer_clock.c` run the model so often.

        It fills `least`: by trace id, the nanoseconds of the run that took the fewest. The model
        must be built with `io="caller"`.
        """
        taken = self._stale_outputs()
        run = ctypes.cast(self._functions["run"], ctypes.c_void_p)
        clock(
            run, ctypes.c_void_p(self._context.address), _pointers(inputs), _pointers(taken),
            ctypes.c_uint32(rounds), ctypes.c_void_p(least.ctypes.data),
            ctypes.c_uint32(least.size),
        )  # fmt: skip

    def _stale_outputs(self) -> list[Array]:
        ports = self._manifest.outputs
        return [np.full(max(port.bytes, 1), _STALE_VALUE, np.uint8) for port in ports]

    def _feed(self, image: Array) -> None:
        """Feed the rows of an image one by one, each from the same memory."""
        row = np.empty(image[0, 0].shape, image.dtype)
        for values in image[0]:
            row[...] = values
            status = self._functions["feed_row"](
                ctypes.c_void_p(self._context.address), ctypes.c_void_p(row.ctypes.data)
            )
            if status != 0:
                raise RunFailed(f"{self._manifest.model}_feed_row failed with ec_status {status}")
            row[...] = 0  # the model has taken its copy

    def _place(self, kind: str, index: int) -> int:
        address = self._functions[kind](
            ctypes.c_void_p(self._context.address), ctypes.c_uint32(index)
        )
        if not address:
            raise RunFailed(f"{self._manifest.model}_{kind}({index}) returned a null pointer")
        place: int = address
        return place

    def check(self) -> None:
        """Raise RunFailed if the model wrote outside of its memory."""
        for region in (self._context, self._arena, *self._areas, self._state):
            region.check()

    def close(self) -> None:
        if self._library is not None:
            import _ctypes

            if "close" in self._functions:
                self._functions["close"](ctypes.c_void_p(self._context.address))

            # Private names, but the only way; without it Windows cannot delete the project.
            free = getattr(_ctypes, "FreeLibrary" if sys.platform == "win32" else "dlclose")
            self._functions.clear()
            free(self._library._handle)
            self._library = None  # type: ignore[assignment]


class HostSession(ModelSession[HostModel]):
    """A session in this process. A crash of the model is a crash of this process."""

    engine = "host"
    chooses_sizes = True

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._model(False)

    def _open(self, trace: bool) -> HostModel:
        model = HostModel(self.artefact(trace), self.manifest)
        if trace:
            model.record_traces()
        return model

    def _run(self, inputs: list[Array], stops: Stops) -> RunResult:
        model = self._model(bool(stops))
        for number, value in enumerate(self.sizes):
            self._finished(model.set_size(number, value))
        status, outputs, events = model.run(inputs)
        self._finished(status)
        if not stops:
            return RunResult(self._outputs(outputs))
        traces, _ = collect_traces(self.manifest, events)
        layers = tuple(RunCost(None, None) for _ in self.manifest.layers)
        return RunResult(self._outputs(outputs), layers=layers, traces=traces)

    def reset(self) -> None:
        for model in self._models.values():
            self._finished(model.call("reset"))

    def selftest(self) -> int:
        return self._model(False).call("selftest")

    def close(self) -> None:
        for model in self._models.values():
            model.close()

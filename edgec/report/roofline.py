"""The time of each layer on this computer, and how near that comes to the core's peak.

A library with the trace hook of `runtime_c/host/ec_layer_clock.c` runs many times; a layer's time
is the shortest of all runs, less the time that reading the clock takes. The same file measures the
core's peak by loops of independent instructions: int8 products, fused float products, and reads of
256 KB, which fit in the second-level cache. A layer with few products for each byte is limited by
the reads: the roofline of Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model", CACM 52 (2009).
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.toolchain import FREE_SUMS, find_toolchain
from edgec.build.host import build_host_library, library_name
from edgec.codegen.manifest import Manifest
from edgec.passes.lower_groups import Variant
from edgec.pipeline import Compiled
from edgec.report.host_bench import Setup, ours
from edgec.resources import resource_dir
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs
from edgec.targets.core import CORES

#: Number of calls in one measurement, in a C loop.
ROUNDS = 20
PEAK_SECONDS = 0.05


@dataclass(frozen=True)
class Peak:
    """The peak of one core, in billions a second: int8 products, float products, bytes read."""

    int8_gmacs: float
    float_gmacs: float
    gbytes: float

    def limit(self, dtype: str, macs_per_byte: float) -> float:
        """The most billions of products a second for a layer of this dtype and intensity."""
        return min(self.gmacs(dtype), self.gbytes * macs_per_byte)

    def gmacs(self, dtype: str) -> float:
        """The peak for products of a dtype, in billions a second."""
        return self.int8_gmacs if "int" in dtype else self.float_gmacs


@dataclass(frozen=True)
class LayerTime:
    """A layer: microseconds, products, bytes of its inputs, constants and outputs, output dtype."""

    title: str
    us: float
    macs: int
    bytes: int
    dtype: str

    @property
    def gmacs(self) -> float:
        """Billions of products a second; 0 where the clock saw no time."""
        return self.macs / self.us / 1e3 if self.us else 0.0

    @property
    def macs_per_byte(self) -> float:
        """Products for each byte."""
        return self.macs / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Roofline:
    """A model's layers in their order, and the limits of its core."""

    model: str
    core: str
    peak: Peak
    layers: tuple[LayerTime, ...]


def measure_layers(model: Path, setup: Setup | None = None) -> Roofline:
    """Time each layer, on one thread. Raises EdgecError where the model cannot be compiled."""
    setup = setup or Setup()
    with ours(model, setup) as (compiled, built):
        core = CORES[compiled.program.target]
        runtime = resource_dir("runtime_c")
        library = build_host_library(
            [*sorted(built.project.glob("*.c")), runtime / "host" / "ec_layer_clock.c"],
            built.project / "clocked" / library_name(built.manifest.model),
            toolchain=find_toolchain(core, compiled.options.compiler), optimize="-O3",
            include_dirs=[built.project, runtime, runtime / "include"],
            defines=("EC_TRACE_HOOK",),
            flags=FREE_SUMS if compiled.options.float_sums == "free" else (),
        )  # fmt: skip
        seconds = 1.0 if setup.seconds is None else setup.seconds
        clocked = ctypes.CDLL(str(library))
        spent = _least_ns(clocked, library, built.manifest, seconds)
        layers = _layers(compiled, built.manifest, spent)
        return Roofline(model.name, core.name, measure_peak(clocked), layers)


def measure_peak(library: ctypes.CDLL) -> Peak:
    """Measure the core by the library's loops."""
    return Peak(*(_rate(library, f"ec_peak_{kind}") for kind in ("s8", "f32", "bytes")))


def _rate(library: ctypes.CDLL, name: str) -> float:
    """The highest rate of several runs of a loop, in billions a second."""
    loop = getattr(library, name)
    loop.restype, loop.argtypes = ctypes.c_uint64, (ctypes.c_uint32,)
    rounds, best = 1, 0.0
    end = time.perf_counter() + PEAK_SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        done = loop(rounds)
        taken = time.perf_counter() - began
        best = max(best, done / taken / 1e9)
        if taken < 1e-3:  # so short that the call counts
            rounds *= 2
    return best


def _least_ns(library: ctypes.CDLL, path: Path, manifest: Manifest, seconds: float) -> list[int]:
    """The shortest time of each trace id, in nanoseconds."""
    loaded = HostModel(path, manifest)
    inputs = generate_inputs(1, [(port.shape, port.dtype) for port in manifest.inputs])
    ids = 1 + max(entry.id for entry in (*manifest.layers, *manifest.steps))
    found = np.full(ids, np.iinfo(np.uint64).max, np.uint64)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        least = np.zeros(ids, np.uint64)
        loaded.clocked(library.ec_clock_runs, inputs, ROUNDS, least)
        found = np.minimum(found, least)
    return [int(value) for value in found]


def _layers(compiled: Compiled, manifest: Manifest, spent: Sequence[int]) -> tuple[LayerTime, ...]:
    """The layers; a step that streams is one layer with the bytes of all its parts."""
    dtypes = {trace.step: trace.dtype for trace in manifest.traces}
    nanoseconds = Counter({step.id: spent[step.id] for step in manifest.steps})
    for part in manifest.parts:
        nanoseconds[part.step] += spent[part.id]
    return tuple(
        LayerTime(step.title, nanoseconds[step.id] / 1e3, step.macs, _bytes_of(variant),
                  dtypes.get(step.id, "float32"))
        for step, variant in zip(manifest.steps, compiled.chosen, strict=True)
    )  # fmt: skip


def _bytes_of(variant: Variant) -> int:
    """Bytes of the arrays that a layer reads and writes, without scratch."""
    stored = sum(array.nbytes for array in variant.constants.values())
    moved: Any = sum(
        param.elements * np.dtype(param.dtype).itemsize
        for param in variant.function.params if param.scope == "arena"
    )  # fmt: skip
    return int(stored + moved)

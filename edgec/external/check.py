"""Each use of a function of the user's is compared with the nest that it stands for.

1. The nest is evaluated as the operators define it, with the constants of the model, on random
   inputs and on the smallest and the largest that there are.
2. The C runs on the same inputs: on this computer in a process of its own, or on the simulated
   core. For a core that nothing here simulates it is compiled for this computer, if it is plain C.
3. Integers must have every bit, and so must floats; with free sums they may differ by rounding.

A use is compared only once in a process.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.compiler_name import level_of
from edgec.boards.toolchain import find_toolchain
from edgec.build import call_library
from edgec.build.bare_function import c_text
from edgec.build.bare_image import build_image
from edgec.build.host import build_host_library, library_name
from edgec.build.staging import work_folder
from edgec.codegen.foreign_text import copies_for
from edgec.errors import BuildFailed, EdgecError, KernelRefused
from edgec.graph.types import Array
from edgec.loop.dtype import is_float, is_integer
from edgec.loop.foreign import Foreign, find_source, library_call
from edgec.loop.ir import Call
from edgec.loop.rewrite import statements
from edgec.ops.custom import is_accelerated
from edgec.options import Options
from edgec.passes.fuse_groups import Group
from edgec.passes.lower_groups import LoweredGroup, Variant, lowering_of
from edgec.sim.arguments import Argument, call_with
from edgec.sim.core import CORES, CoreSimulator, simulated_as
from edgec.targets.core import Core, host_core, is_this_computer
from edgec.targets.external import kernels_of

#: The C name of the function to run.
NAME = "edgec_use"
#: Seconds that a call may take on this computer, and instructions on the simulated core.
MOST_SECONDS, MOST_INSTRUCTIONS = 120, 2_000_000_000
#: With free sums, of the largest result: by how much floats may differ.
FREE_TOLERANCE = 1e-5
_STALE = 0x5A
_checked: set[str] = set()


def check_uses(
    groups: Sequence[LoweredGroup], chosen: Sequence[Variant], core: Core, options: Options
) -> None:
    """Compare every user's function among the chosen variants with the nest that it replaces.

    Raises KernelRefused with the first difference, ToolMissing without a compiler or simulator.
    """
    if any(is_accelerated(each.group.nodes[0]) for each in groups):
        _require_cortex_m(core)
    for lowered, variant in zip(groups, chosen, strict=True):
        if not variant.is_theirs or library_call(variant.function):
            continue  # kernels of a GPU's library run on one alone: `edgec verify` compares them
        if options.kernels and not lowered.group.nodes[0].op.is_foreign:
            _Use(lowered.group, variant, core, options).check()


def _require_cortex_m(core: Core) -> None:
    if core.isa != "thumb" or core.has("v7ar"):
        raise EdgecError(
            f"{core.name} has no Ethos-U: this accelerator needs a Cortex-M core",
            hint="build for a board or a core that has one, such as mps3_an547 or cortex-m55",
        )


@dataclass(frozen=True)
class _Use:
    """One group, run by a function of the user's."""

    group: Group
    variant: Variant
    core: Core
    options: Options

    @property
    def calls(self) -> list[Call]:
        body = self.variant.function.body
        return [s for s in statements(body) if isinstance(s, Call) and find_source(s.callee)]

    @property
    def sources(self) -> list[Foreign]:
        return [found for call in self.calls if (found := find_source(call.callee))]

    @property
    def title(self) -> str:
        names = ", ".join(dict.fromkeys(foreign.symbol for foreign in self.sources))
        return f"the kernel {names} for {self.group.nodes[0].name!r}"

    def check(self) -> None:
        text = c_text(self.variant, NAME)
        files = {copy.name: copy.text for copy in copies_for(self.calls, "kernel")}
        lowering, _ = lowering_of(self.group)
        constants = {**lowering.tables, **self.variant.constants}
        parts = [text, *files.values(), self.core.name, str(self.options.compiler)]
        parts += [str(self.options.float_sums), str([(n, a.shape) for n, a in constants.items()])]
        key = hashlib.sha256("\0".join(parts).encode())
        for array in constants.values():
            key.update(array.tobytes())
        if key.hexdigest() in _checked:
            return
        cases = self.inputs()
        found = self.run(text, files, cases)
        for inputs, made in zip(cases, found, strict=True):
            self.compare(lowering.definition.evaluate({**inputs, **lowering.tables}), made)
        _checked.add(key.hexdigest())

    def inputs(self) -> list[dict[str, Array]]:
        """Random ones, the smallest and the largest."""
        function = lowering_of(self.group)[0].build()
        reads = [p for p in function.params if p.scope == "arena" and not _is_output(p.name)]
        rng = np.random.default_rng(7)
        kinds = ("random", "random", "smallest", "largest")
        return [{p.name: array_of(p.shape, p.dtype, kind, rng) for p in reads} for kind in kinds]

    def run(
        self, text: str, files: Mapping[str, str], cases: Sequence[Mapping[str, Array]]
    ) -> list[dict[str, Array]]:
        """The results of the C for each case, by output."""
        arguments = [self.arguments(case) for case in cases]
        with work_folder("kernel") as folder:
            try:
                return self.run_in(folder, text, files, arguments)
            except BuildFailed as error:
                raise KernelRefused(
                    f"{self.title} does not compile: {error.message}",
                    details=error.details,
                    hint=f"it comes from {', '.join(str(s.source) for s in self.sources)}",
                ) from error

    def run_in(
        self, folder: Path, text: str, files: Mapping[str, str],
        arguments: Sequence[Mapping[str, Array]],
    ) -> list[dict[str, Array]]:  # fmt: skip
        """Build in a folder and run there, on this computer or a simulated core."""
        if is_this_computer(self.core):
            return self.on_host(self.core, folder, text, files, arguments)
        if simulated_as(self.core.name) in CORES:
            return self.simulated(folder, text, files, arguments)
        needed = frozenset().union(*(self.needs(foreign) for foreign in self.sources))
        if needed:
            raise KernelRefused(
                f"{self.title} cannot be compared with the nest that it replaces: nothing here runs"
                f" {self.core.name}, and it needs {', '.join(sorted(needed))}",
                hint="omit --kernels for this core",
            )
        return self.on_host(host_core(), folder, text, files, arguments)

    def needs(self, foreign: Foreign) -> frozenset[str]:
        """Features of the core that a function needs, and its instruction set."""
        found = (k for k in kernels_of(self.options.kernels) if k.symbol == foreign.symbol)
        return frozenset().union(*(k.needs | ({k.isa} if k.isa else set()) for k in found))

    def arguments(self, case: Mapping[str, Array]) -> dict[str, Array]:
        """The array of each parameter; the names of written ones end in `_out`."""
        found: dict[str, Array] = {}
        for param in self.variant.function.params:
            if param.scope == "constant":
                found[param.name] = self.variant.constants[param.name]
            elif param.name in case:
                found[param.name] = case[param.name].reshape(param.shape)
            else:
                size = int(np.prod(param.shape)) * np.dtype(param.dtype).itemsize
                stale = np.full(size, _STALE, np.uint8).view(param.dtype).reshape(param.shape)
                found[f"{param.name}_out"] = stale
        return found

    def on_host(
        self, core: Core, folder: Path, text: str, files: Mapping[str, str],
        cases: Sequence[Mapping[str, Array]],
    ) -> list[dict[str, Array]]:  # fmt: skip
        """Run it in a separate process, which the function may crash."""
        for name, content in {**files, f"{NAME}.c": text}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, "utf-8")
        prefer = self.options.compiler if is_this_computer(self.core) else None
        library = build_host_library(
            sorted(folder.glob("*.[cS]")), folder / library_name(NAME),
            toolchain=find_toolchain(core, prefer), include_dirs=[folder],
            libraries=sorted({name for foreign in self.sources for name in foreign.libraries}),
        )  # fmt: skip
        return self.called(folder, library, cases)

    def called(
        self, folder: Path, library: Path, cases: Sequence[Mapping[str, Array]]
    ) -> list[dict[str, Array]]:
        """A library function's result for each case. Raises KernelRefused."""
        given, made = folder / "given.npz", folder / "made.npz"
        named: dict[str, Any] = {
            f"{number}_{name}": array
            for number, case in enumerate(cases)
            for name, array in case.items()
        }
        np.savez(given, **named)
        command = [sys.executable, call_library.__file__, str(library), NAME, str(given), str(made)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise KernelRefused(f"{self.title} did not end in {MOST_SECONDS} s") from None
        if done.returncode or not made.is_file():
            why = f"signal {-done.returncode}" if done.returncode < 0 else done.stderr[-300:]
            raise KernelRefused(f"{self.title} crashed: {why.strip()}")
        with np.load(made) as results:
            if not all(results[f"guard_{number}"] for number in range(len(cases))):
                raise KernelRefused(
                    f"{self.title} writes outside of its outputs and its scratch memory"
                )
            return [
                {name[:-4]: results[f"{number}_{name}"] for name in case if name.endswith("_out")}
                for number, case in enumerate(cases)
            ]

    def simulated(
        self, folder: Path, text: str, files: Mapping[str, str],
        cases: Sequence[Mapping[str, Array]],
    ) -> list[dict[str, Array]]:  # fmt: skip
        """On the simulated core, which sees every access outside."""
        toolchain = find_toolchain(self.core, self.options.compiler)
        elf = build_image(folder, toolchain, level_of(self.options), [text], files=files)
        results = []
        with CoreSimulator(elf, simulated_as(self.core.name)) as core:
            for case in cases:
                given = [Argument(a.tobytes(), name.endswith("_out")) for name, a in case.items()]
                try:
                    _, made = call_with(core, NAME, given, MOST_INSTRUCTIONS)
                except EdgecError as error:
                    raise KernelRefused(
                        f"{self.title} failed on the simulated core: {error.message}",
                        details=error.details,
                    ) from error
                pairs = zip(case.items(), made, strict=True)
                results.append(
                    {name[:-4]: np.frombuffer(data, array.dtype).reshape(array.shape)
                     for (name, array), data in pairs if name.endswith("_out")}
                )  # fmt: skip
                core.release()
        return results

    def compare(self, expected: Mapping[str, Array], made: Mapping[str, Array]) -> None:
        """Raises KernelRefused with the first element that differs."""
        for name, array in expected.items():
            if not _is_output(name):
                continue
            wrong = self.differences(array, made[name].reshape(array.shape))
            if not wrong.any():
                continue
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise KernelRefused(
                f"{self.title} answers wrongly: element {list(place)} is"
                f" {made[name].reshape(array.shape)[place]},"
                f" but the nest that it replaces gives {array[place]}",
                details=(f"{int(wrong.sum())} of {array.size} elements differ",),
                hint="correct the kernel, or let its `use` refuse such nests",
            )

    def differences(self, expected: Array, made: Array) -> Array:
        """Which elements differ."""
        if is_float(expected.dtype.name) and self.options.float_sums == "free":
            finite = expected[np.isfinite(expected)]
            most = FREE_TOLERANCE * max(float(np.abs(finite).max(initial=0.0)), 1e-30)
            return ~np.isclose(made, expected, rtol=0, atol=most, equal_nan=True)
        different: Array = (_bytes(made) != _bytes(expected)).any(axis=-1)
        return different


def _bytes(array: Array) -> Array:
    """The bytes of each element, along a new last axis."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.itemsize)


def _is_output(name: str) -> bool:
    return name.startswith("out")


def array_of(shape: tuple[int, ...], dtype: str, kind: str, rng: np.random.Generator) -> Array:
    """Random numbers, or all the smallest or largest. Of wide integers 16 bits are in use."""
    if is_integer(dtype):
        info = np.iinfo(dtype)
        low, high = max(info.min, -(1 << 15)), min(info.max, (1 << 15) - 1)
        if kind != "random":
            return np.full(shape, low if kind == "smallest" else high, dtype)
        return rng.integers(low, high + 1, shape).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    return rng.standard_normal(shape).astype(dtype)

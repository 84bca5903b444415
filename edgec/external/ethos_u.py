"""Arm's Ethos-U: groups of a TFLite model that Vela compiles to command streams.

    TFLite file -> Vela -> TFLite file with an operator for each group: its command stream, its
    constants, its memory (scratch), its inputs and outputs, and where in scratch these lie
    -> a foreign function for each group, whose meaning is the group in the file that was given

Vela decides which operators the accelerator takes; all others are compiled for the processor as
usual. The C of a group copies its inputs into scratch, calls Arm's driver and copies its outputs
out of it. `runtime_c/external/edgec_ethos_u.h` has the common code of groups. See docs/ethos_u.md.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgec.build.staging import work_folder
from edgec.errors import BuildFailed, EdgecError, ImportFailed, ToolMissing
from edgec.frontends.tflite_reader import (
    Meaning,
    RawGraph,
    RawModel,
    RawOperator,
    RawTensor,
    metadata,
    read_model,
)
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function
from edgec.graph.types import Array
from edgec.loop.foreign import Foreign
from edgec.ops.custom import declare_group
from edgec.resources import resource_dir
from edgec.targets.external import Accelerator

#: The names in Vela's files of a group's operator, and of the offsets of tensors in its memory.
KIND, OFFSETS = "CUSTOM:ethos-u", "OfflineMemoryAllocation"
#: The operator that begins a model's variables.
SET_UP = "CALL_ONCE"
#: Numbers before the offsets: version, subgraph, how many there are.
OFFSETS_HEAD = 3
#: The driver wants regions at multiples of this many bytes; buffers of the arena are.
ALIGN_BYTES = 16
#: Seconds that Vela may take.
MOST_SECONDS = 600
#: Approximate processor instructions of one call: the driver's, and one per copied word.
CALL, WORD = 500, 1.0
HEADER = "edgec_ethos_u.h"


def ethos_u(
    accelerator: str, driver: Sequence[str | Path] = (), options: Sequence[str] = ()
) -> tuple[Accelerator, ...]:
    """An Ethos-U, which takes all operators of a TFLite model that it supports.

    accelerator: Vela's name of it, such as "ethos-u55-128". driver: C files and headers with the
    functions of Arm's ethos-u-core-driver, which are copied into every build; without them the
    program that links the model must have them. options: further arguments of Vela. Raises
    EdgecError for files that cannot be read.
    """
    try:
        files = tuple((Path(file).name, Path(file).read_text("utf-8")) for file in driver)
    except (OSError, UnicodeDecodeError) as error:
        raise EdgecError(f"cannot read the driver of {accelerator}: {error}") from error
    return (EthosU(accelerator, files, tuple(options)),)


@dataclass(frozen=True)
class EthosU(Accelerator):
    """See `ethos_u`. driver: names and texts of files."""

    accelerator: str
    driver: tuple[tuple[str, str], ...]
    options: tuple[str, ...]
    #: Vela's results by the bytes of the input files.
    made: dict[bytes, bytes] = field(default_factory=dict, compare=False, repr=False)

    def partition(self, model: RawModel, data: bytes, meaning: Meaning) -> RawModel:
        """The model with a foreign operator instead of each group.

        Raises ToolMissing without Vela, BuildFailed where it fails, ImportFailed for groups that
        keep a state, and where it takes nothing.
        """
        key = hashlib.sha256(data).digest()
        if key not in self.made:
            self.made[key] = self.compiled(data)
        compiled = self.made[key]
        file = f"Vela's result for {self.accelerator}"
        shared = read_model(compiled, file)
        offsets = np.frombuffer(metadata(compiled, OFFSETS), "<i4")[OFFSETS_HEAD:]
        if not any(operator.kind == KIND for operator in shared.main.operators):
            raise ImportFailed(
                f"{self.accelerator} can run no part of this model",
                hint="it takes int8 and int16: see `edgec quantize`",
            )
        operators = [
            _Group(self, shared.main, operator, offsets, model, meaning).operator()
            if operator.kind == KIND
            else operator
            for operator in shared.main.operators
        ]
        # Vela writes the initialisation of variables after their readers.
        operators.sort(key=lambda operator: operator.kind != SET_UP)
        main = replace(shared.main, operators=tuple(operators))
        return RawModel((main, *shared.graphs[1:]))

    def compiled(self, data: bytes) -> bytes:
        """Vela's TFLite file for one."""
        if find_spec("ethosu") is None:
            raise ToolMissing(
                "Vela, the compiler for Ethos-U, is not installed",
                hint="pip install 'edgec[ethos-u]'",
            )
        with work_folder("vela") as folder:
            (folder / "model.tflite").write_bytes(data)
            command = [
                sys.executable, "-m", "ethosu.vela", str(folder / "model.tflite"),
                "--accelerator-config", self.accelerator, "--output-dir", str(folder),
                *self.options,
            ]  # fmt: skip
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, check=False,
                    timeout=MOST_SECONDS,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise BuildFailed(f"Vela did not end in {MOST_SECONDS} s") from None
            made = folder / "model_vela.tflite"
            if done.returncode or not made.is_file():
                said = (done.stdout + done.stderr).strip().splitlines()[-10:]
                raise BuildFailed(
                    f"Vela cannot compile the model for {self.accelerator}", details=tuple(said)
                )
            return made.read_bytes()


@dataclass(frozen=True)
class _Group:
    """One of Vela's operators: a command stream, regions of memory, then the group's inputs."""

    target: EthosU
    graph: RawGraph
    vela: RawOperator
    offsets: Array
    model: RawModel
    meaning: Meaning

    def tensors(self, numbers: Sequence[int]) -> list[RawTensor]:
        return [self.graph.tensors[number] for number in numbers]

    @cached_property
    def commands(self) -> RawTensor:
        return self.graph.tensors[self.vela.inputs[0]]

    @cached_property
    def regions(self) -> tuple[RawTensor, ...]:
        """The driver's base addresses: constants, scratch, and fast scratch."""
        return tuple(self.tensors(self.vela.inputs[1:4]))

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """The data of the regions, each once; Vela omits empty regions."""
        given = self.vela.inputs[1:4]
        return tuple(dict.fromkeys(n for n in given if _bytes(self.graph.tensors[n]).size))

    @cached_property
    def room(self) -> dict[int, int]:
        """Offset of each region without data in the group's memory; at -1 the end of all."""
        offsets, end = {}, 0
        for number in dict.fromkeys(self.vela.inputs[1:4]):
            if number not in self.constants:
                offsets[number] = end
                end += -(-_size(self.graph.tensors[number]) // ALIGN_BYTES) * ALIGN_BYTES
        return {**offsets, -1: end}

    @cached_property
    def reads(self) -> tuple[int, ...]:
        return self.vela.inputs[4:]

    def operator(self) -> RawOperator:
        """The operator that stands for the group, whose C function is declared."""
        function = self.function()
        types = [value.type for value in function.outputs]
        copied = sum(map(_size, self.tensors((*self.reads, *self.vela.outputs))))
        symbol = self.symbol()
        files = ((HEADER, (resource_dir("runtime_c") / "external" / HEADER).read_text("utf-8")),)

        def reference(*arrays: Array) -> tuple[Array, ...]:
            return tuple(Interpretation(function).run(arrays[1 + len(self.constants) :]))

        foreign = Foreign(
            symbol, Path(f"{symbol}.c"), self.text(symbol), reference, CALL + copied / 4 * WORD,
            (*files, *self.target.driver), can_fail=True, alignment=ALIGN_BYTES,
        )  # fmt: skip
        kind = declare_group(foreign, types, self.room[-1], function.macs)
        inputs = (self.vela.inputs[0], *self.constants, *self.reads)
        return replace(self.vela, kind=kind, inputs=inputs, attributes={}, problem="")

    def symbol(self) -> str:
        """A C name that describes the group."""
        key = hashlib.sha256(_bytes(self.commands).tobytes())
        for number in self.constants:
            key.update(_bytes(self.graph.tensors[number]).tobytes())
        key.update(self.offsets.tobytes())
        return f"ethos_u_{key.hexdigest()[:8]}"

    def function(self) -> Function:
        """The group's meaning: the operators between its tensors in the original file."""
        graph = self.model.main
        inputs = [self.number(tensor) for tensor in self.tensors(self.reads)]
        outputs = [self.number(tensor) for tensor in self.tensors(self.vela.outputs)]
        wanted, operators = set(outputs), []
        for operator in reversed(graph.operators):
            if wanted.intersection(operator.outputs) - set(inputs):
                operators.append(operator)
                wanted.update(operator.inputs)
        variable = [n for n in wanted if n >= 0 and graph.tensors[n].variable]
        if variable:
            raise ImportFailed(
                f"{self.target.accelerator} would keep '{graph.tensors[variable[0]].name}' from one"
                " run to the next, and edgec plans such values itself",
                hint="compile this model for the processor",
            )
        part = RawGraph(graph.tensors, tuple(reversed(operators)), tuple(inputs), tuple(outputs))
        return self.meaning(RawModel((part, *self.model.graphs[1:])))

    def number(self, tensor: RawTensor) -> int:
        """The number, in the model's file, of a tensor that Vela's has."""
        found = [t.index for t in self.model.main.tensors if t.name == tensor.name]
        if len(found) != 1:
            raise ImportFailed(
                f"{len(found)} tensors of the model are called '{tensor.name}', and Vela says by"
                " name where its groups begin and end",
                hint="give the tensors of the file names of their own",
            )
        return found[0]

    def text(self, symbol: str) -> str:
        """The C function: copies in, the driver's call, copies out."""
        names = {number: f"constants{n}" for n, number in enumerate(self.constants)}
        bases = [names.get(n) or f"room + {self.room[n]}" for n in self.vela.inputs[1:4]]
        sizes = [f"{_size(tensor)}u" for tensor in self.regions]
        pointers = [f"const uint8_t *{name}" for name in ("commands", *names.values())]
        to_scratch, from_scratch = [], []
        for name, tensor, at in self.places_of("in", self.reads):
            pointers.append(f"const {_C_TYPE[tensor.dtype]} *{name}")
            to_scratch.append(f"    (void)memcpy({at}, {name}, {_size(tensor)}u);")
        for name, tensor, at in self.places_of("out", self.vela.outputs):
            pointers.append(f"{_C_TYPE[tensor.dtype]} *{name}")
            from_scratch.append(f"    (void)memcpy({name}, {at}, {_size(tensor)}u);")
        return "\n".join((
            f"/* A group of operators on {self.target.accelerator}, compiled by Vela. */",
            f'#include "{HEADER}"', "",
            f"int {symbol}(", *(f"        {pointer}," for pointer in pointers),
            "        uint8_t *room) {",
            "    uint64_t bases[] = {",
            *(f"        (uint64_t)(uintptr_t)({base})," for base in bases),
            "    };",
            f"    static const size_t sizes[] = {{{', '.join(sizes)}}};",
            "    int failed;",
            *to_scratch,
            f"    failed = edgec_ethos_u_invoke(commands, {_size(self.commands)}, bases, sizes);",
            *from_scratch,
            "    return failed;", "}", "",
        ))  # fmt: skip

    def places_of(self, way: str, numbers: Sequence[int]) -> Iterator[tuple[str, RawTensor, str]]:
        """Names of parameters, tensors, and where these lie in the group's memory."""
        scratch = self.room[self.vela.inputs[2]]
        for n, number in enumerate(numbers):
            at = scratch + self.offsets[number]
            yield f"{way}{n}", self.graph.tensors[number], f"room + {at}"


_C_TYPE = {"INT8": "int8_t", "UINT8": "uint8_t", "INT16": "int16_t", "INT32": "int32_t"}


def _bytes(tensor: RawTensor) -> Array:
    return np.zeros(0, np.uint8) if tensor.data is None else tensor.data


def _size(tensor: RawTensor) -> int:
    """Bytes of a tensor."""
    return int(np.prod(tensor.shape)) * np.dtype(tensor.dtype.lower()).itemsize

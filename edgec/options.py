"""One table of compiler options; it feeds the command line, `compile` and the docs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgec.numerics.fixed_point import Rounding

Optimize = Literal["time", "ram", "size", "balanced"]
Io = Literal["arena", "caller", "rows"]
Compiler = Literal["gcc", "clang"]
Harness = Literal["link", "mlperf-tiny"]


@dataclass(frozen=True)
class Options:
    """How a model is compiled. Sizes in bytes; None means no limit or the default.

    optimize: what to prefer when variants differ. match: whose rounding to follow instead of the
    source format's own. io: whether inputs and outputs live in the arena or in the caller's
    memory; "rows": outputs in the arena, and the caller feeds the input row by row. unfused: every
    node becomes a function of its own, so that all values exist.
    no_asm: C without assembly, for compilers that do not take GNU's.
    compiler: gcc or clang; None takes what is installed. c_optimize: the C compiler's level.
    trace: build with the EC_TRACE hook. max_*: budgets; over them a build fails with status 3.
    harness: which program of a board serves the model. input_shapes: (name, shape) of inputs whose
    extents an ONNX file leaves open. input_values: (name, number) of its inputs that are no inputs
    of the program, but always this number. places: (what, region) of a board, see
    `edgec.memory.pins`.
    """

    optimize: Optimize = "balanced"
    match: Rounding | None = None
    io: Io = "arena"
    unfused: bool = False
    no_asm: bool = False
    compiler: Compiler | None = None
    c_optimize: str = "-O2"
    trace: bool = False
    model_name: str | None = None
    max_ram_bytes: int | None = None
    max_flash_bytes: int | None = None
    max_stack_bytes: int | None = None
    max_instructions: int | None = None
    verify: bool = False
    harness: Harness = "link"
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    input_values: tuple[tuple[str, float], ...] = ()
    places: tuple[tuple[str, str], ...] = ()

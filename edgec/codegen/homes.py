"""Place a program's states, weights and code in a board's regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from edgec.codegen.model_text import make_text
from edgec.codegen.program import Program, ProgramHomes
from edgec.loop.traffic import Traffic, add_traffic, traffic
from edgec.memory.homes import Homes
from edgec.memory.statics import Static, place_statics


def place_program(
    program: Program,
    homes: Homes,
    *,
    copies: bool,
    function_bytes: Mapping[str, int] | None = None,
) -> Program:
    """The program with the homes of what does not lie where the linker would put it.

    copies: see `place_statics`. Raises PlanError as that does.
    """
    board = homes.board
    state = homes.pins.region("state", ()) or ""
    peaks = {area.region: area.nbytes for area in program.areas}
    peaks[board.data] = peaks.get(board.data, 0) + program.arena_bytes
    peaks[state or board.data] = peaks.get(state or board.data, 0) + program.state_bytes
    statics: list[Static] = []
    if homes.has_choice(copies=copies):
        statics = [*_weights(program), *_code(program, homes, function_bytes)]
    found = place_statics(statics, homes, peaks, copies=copies)
    return replace(
        program,
        homes=ProgramHomes(
            constants={name: region for (kind, name), region in found.items() if kind == "weights"},
            functions={name: region for (kind, name), region in found.items() if kind == "code"},
            state="" if state == board.data else state,
            ram=frozenset(r.name for r in board.memory.values() if r.kind == "ram"),
        ),
    )


def _weights(program: Program) -> list[Static]:
    counted: dict[str, Traffic] = defaultdict(dict)
    for step in program.steps:
        counts = traffic(step.function, program.callees)
        for param, arg in zip(step.function.params, step.args, strict=True):
            if arg in program.constants:
                add_traffic(counted[arg], counts[param.name])
    return [
        Static("weights", (name,), array.nbytes, counted[name])
        for name, array in program.constants.items()
    ]


def _code(program: Program, homes: Homes, function_bytes: Mapping[str, int] | None) -> list[Static]:
    """The functions that can be placed; none without pins, since sizes are not known yet."""
    if not any(what.startswith("code") for what, _ in homes.pins.entries):
        return []
    emitted = make_text(program)
    sizes = function_bytes or {}
    numbers: dict[str, list[str]] = defaultdict(list)
    for number, name in enumerate(emitted.step_functions):
        numbers[name].append(str(number))
    return [
        Static("code", (name, *numbers[name]), sizes.get(name, 0), {}) for name in emitted.functions
    ]

"""Place a program's states, weights and code in a board's regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from edgec.codegen.model_text import EmittedModel, make_text
from edgec.codegen.program import Program, ProgramRegions
from edgec.codegen.runtime_source import runtime_functions
from edgec.loop.cost import OWN, instructions_by_callee
from edgec.loop.traffic import Traffic, add_traffic, traffic
from edgec.memory.board_regions import BoardRegions
from edgec.memory.placements import Placements
from edgec.memory.statics import Static, place_statics


def place_program(program: Program, regions: BoardRegions, *, copies: bool) -> Program:
    """The program with the regions of constants and functions that are not in the default place.

    copies, and PlanError: see `place_statics`.
    """
    board = regions.board
    state = regions.placements.region("state", ()) or ""
    peaks = {area.region: area.nbytes for area in program.areas}
    peaks[board.data] = peaks.get(board.data, 0) + program.arena_bytes
    peaks[state or board.data] = peaks.get(state or board.data, 0) + program.state_bytes
    statics: list[Static] = []
    if regions.has_choice(copies=copies):
        statics = _weights(program)
        if any(what.startswith("code") for what, _ in regions.placements.entries):
            statics += _code(make_text(program), {}, {})  # placed by hand: sizes are unknown yet
    found = place_statics(statics, regions, peaks, copies=copies)
    return replace(
        program,
        regions=ProgramRegions(
            constants={name: region for (kind, name), region in found.items() if kind == "weights"},
            functions={name: region for (kind, name), region in found.items() if kind == "code"},
            state="" if state == board.data else state,
            ram=frozenset(r.name for r in board.memory.values() if r.kind == "ram"),
        ),
    )


def place_hot_code(
    program: Program, regions: BoardRegions, function_bytes: Mapping[str, int]
) -> Program | None:
    """The program with its hottest functions in RAM that instructions are fetched faster from.

    function_bytes: of each C function, as it was built. `regions.reserved` has all that
    lies in each region. None where nothing can be gained.
    """
    usual = regions.board.memory[regions.board.code]
    if not any(r.fetch_wait_states < usual.fetch_wait_states for r in regions.rams):
        return None
    emitted = make_text(program)
    statics = [
        static
        for static in _code(emitted, function_bytes, _instructions(program, emitted))
        if static.size_bytes and static.name not in program.regions.functions
    ]
    found = place_statics(statics, replace(regions, placements=Placements()), {}, copies=True)
    if not found:
        return None
    functions = {**program.regions.functions, **{name: r for (_, name), r in found.items()}}
    return replace(program, regions=replace(program.regions, functions=functions))


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


def _code(
    emitted: EmittedModel, sizes: Mapping[str, int], instructions: Mapping[str, float]
) -> list[Static]:
    """The functions that can be placed, with the numbers of the steps that they are for."""
    numbers: dict[str, list[str]] = defaultdict(list)
    for number, name in enumerate(emitted.step_functions):
        numbers[name].append(str(number))
    return [
        Static("code", (name, *numbers[name]), sizes.get(name, 0), {}, instructions.get(name, 0.0))
        for name in emitted.functions
    ]


def _instructions(program: Program, emitted: EmittedModel) -> dict[str, float]:
    """Instructions of one inference by C function."""
    total: dict[str, float] = defaultdict(float)
    for step, name in zip(program.steps, emitted.step_functions, strict=True):
        by_callee = instructions_by_callee(step.function, program.callees)
        for callee, count in by_callee.items():
            total[name if callee == OWN else emitted.callees.get(callee, callee)] += count
    known = runtime_functions()
    for kernel in [name for name in total if name in known]:
        for callee in _called_by(kernel, total.keys()):  # a kernel's callees are parts of it
            total[callee] = total[kernel]
    return total


def _called_by(kernel: str, counted: Collection[str]) -> list[str]:
    """Functions of the runtime that a kernel reaches, without those counted by themselves."""
    known = runtime_functions()
    found: dict[str, None] = {}
    pending = list(known[kernel].calls)
    while pending:
        callee = pending.pop()
        if callee in known and callee not in counted and callee not in found:
            found[callee] = None
            pending += known[callee].calls
    return [*found]

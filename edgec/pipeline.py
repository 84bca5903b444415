"""The way of the data, stage by stage: start reading here.

    model file -> frontends -> passes -> loops -> memory -> codegen -> build

Every stage ends in a contract that a separate checker verifies, and can be dumped as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVarTuple

from edgec.boards.board import Board
from edgec.codegen.assemble import Identity, assemble, output_crc
from edgec.codegen.homes import place_program
from edgec.codegen.names import checked_model_name, model_identifier
from edgec.codegen.program import Golden, Program
from edgec.errors import BuildFailed, PlanError
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function, Module
from edgec.graph.limits import check_limits
from edgec.graph.printer import print_module
from edgec.graph.types import Array
from edgec.graph.verify import verify_module
from edgec.loop.printer import print_func
from edgec.memory.bodies import LoweredBody, lower_bodies
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.choose import Choice, choose, peak_bytes, streamed_if_smaller
from edgec.memory.homes import Homes, homes_of, with_homes
from edgec.memory.layout import placement_problem, with_states
from edgec.memory.places import settle_places
from edgec.memory.problem import Plan, Problem
from edgec.memory.reorder import orders
from edgec.memory.select import BALANCED_SLOWDOWN, choose_variants
from edgec.memory.short_weights import MOST_GROWTH, with_short_weights
from edgec.memory.solve import plan_memory
from edgec.memory.spare_kernels import (
    spare_bytes,
    spare_float_kernels,
    spare_kernels,
    take_small_kernels,
)
from edgec.numerics.fixed_point import Rounding
from edgec.options import Io, Optimize, Options
from edgec.passes.accumulator_ranges import Overflow, find_overflows
from edgec.passes.copy_outputs import copy_outputs
from edgec.passes.copy_states import copy_states
from edgec.passes.fuse_groups import Group, fuse_groups
from edgec.passes.idle_clamps import IdleClamp, drop_idle_clamps
from edgec.passes.lower_groups import LoweredGroup, Variant, lower_group
from edgec.passes.merge_duplicates import merge_duplicates
from edgec.passes.pair_channels import pair_channels
from edgec.passes.sequence import PASSES
from edgec.passes.shrink_channels import Shrinkage, shrink_channels
from edgec.runners.samples import generate_steps
from edgec.targets.core import Core
from edgec.targets.target import Target, target_for

#: Seed of the input that a model's self-test runs.
GOLDEN_SEED = 1
#: Of a model with state: the third reads what the second made of what the first left.
GOLDEN_STEPS = 3
#: Placements that are tried for the final plan, some seconds: the same plan on every machine.
PLAN_NODES = 40_000

Printed = TypeVarTuple("Printed")


@dataclass(frozen=True)
class Compiled:
    """Everything that compiling one model gave, stage by stage.

    imported: the graph as the file has it. module: after all passes. shrinkage: channels that
    were removed. idle_clamps: those that can never fire. groups, chosen: the menus and the variant
    taken from each. problem, plan: the memory. program: what codegen writes. homes: the board's
    regions, None without a board.
    """

    imported: Module
    module: Module
    shrinkage: tuple[Shrinkage, ...]
    idle_clamps: tuple[IdleClamp, ...]
    choice: Choice
    problem: Problem
    plan: Plan
    program: Program
    options: Options
    overflows: tuple[Overflow, ...] = ()
    homes: Homes | None = None

    @property
    def groups(self) -> tuple[LoweredGroup, ...]:
        """What runs, in order: groups of nodes, of which streaming segments are one each."""
        return self.choice.groups

    @property
    def chosen(self) -> tuple[Variant, ...]:
        """The variant of each group."""
        return self.choice.variants

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference of the model as it came, as the field counts."""
        return self.imported.main.macs

    def reference(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """What our integer reference answers in the first run."""
        return Interpretation(self.module.main).run(inputs)


def compile_model(
    path: Path,
    core: Core,
    options: Options | None = None,
    *,
    board: Board | None = None,
    board_name: str = "",
    dump: Path | None = None,
    arena_limit_bytes: int | None = None,
    reserved: Mapping[str, int] | None = None,
) -> Compiled:
    """Stages 1 to 6: from a model file to a program that codegen can write.

    board: in whose regions things are placed; without one there is one arena. dump: a folder that
    gets one text file per stage. arena_limit_bytes: what the arena should not exceed, if that can
    be chosen. reserved: by region of the board, bytes that something else takes. Raises
    ImportFailed for a file that cannot be read or uses what is not supported, PlanError when no
    memory plan exists.
    """
    options = options or Options()
    return compile_module(
        read_model(path, options), core, options, board=board, board_name=board_name, dump=dump,
        arena_limit_bytes=arena_limit_bytes, reserved=reserved,
    )  # fmt: skip


def read_model(path: Path, options: Options) -> Module:
    """Stage 1: a model file as the options have it. Raises ImportFailed."""
    return import_model(
        path, match=options.match, shapes=dict(options.input_shapes),
        values=dict(options.input_values),
    )  # fmt: skip


def compile_module(
    imported: Module,
    core: Core,
    options: Options,
    *,
    board: Board | None = None,
    board_name: str = "",
    dump: Path | None = None,
    arena_limit_bytes: int | None = None,
    reserved: Mapping[str, int] | None = None,
) -> Compiled:
    """Stages 2 to 6, of a module as a frontend makes it. Raises PlanError as `compile_model`."""
    stages = _Dump(dump)
    if core.has("avx2") and options.optimize == "balanced":  # RAM is not scarce there
        options = replace(options, optimize="time")
    verify_module(imported)
    check_limits(imported.main)
    stages.write("import", print_module, imported)

    module = imported
    rounding: Rounding = options.match or (
        "onnx" if imported.format in ("onnx", "torch") else "tflm"
    )
    for name, run in PASSES:
        module = module.with_every(run, rounding)
        verify_module(module)
        stages.write(name, print_module, module)

    function, equal = merge_duplicates(module.main)
    function, shrinkage = shrink_channels(function, equal)
    function, idle_clamps = drop_idle_clamps(function)
    module = module.with_main(copy_outputs(function, options.io))
    verify_module(module)
    stages.write("shrink_channels", print_module, module)

    policy = target_for(core, options)
    if policy.pairs_channels:
        module = module.with_main(pair_channels(module.main))
        verify_module(module)
        stages.write("pair_channels", print_module, module)
    groups = _lower(module.main, policy, options)
    copied = copy_states(module.main, groups)
    if copied is not module.main:
        module = module.with_main(copied)
        verify_module(module)
        stages.write("copy_states", print_module, module)
        groups = _lower(copied, policy, options, groups)
    limit_bytes = arena_limit_bytes
    if options.optimize == "size" and limit_bytes is not None:
        # What needs the least code, unless its arena is over the limit.
        alone = _choose(module.main, groups, options, policy)
        if peak_bytes(module.main, groups, alone, options) <= limit_bytes:
            limit_bytes = None
    if options.optimize == "ram" or options.io == "rows" or limit_bytes is not None:
        choice = choose(module.main, groups, policy, options, limit_bytes=limit_bytes)
    else:
        alone = _choose(module.main, groups, options, policy)
        if options.optimize != "time":
            groups, alone = _in_best_order(module.main, groups, alone, options, policy)
        choice = Choice(groups, alone, (), None)
        # Where code is plain loops throughout, that of rows is half as much again.
        if options.optimize == "balanced" and policy.trades_scratch:
            choice = streamed_if_smaller(module.main, groups, policy, options, alone)
    groups, chosen = choice.groups, choice.variants
    if options.optimize == "balanced":
        most_growth = MOST_GROWTH if arena_limit_bytes is None else 0.0
        chosen = with_short_weights(
            module.main, groups, chosen, io=options.io, most_growth=most_growth
        )
        choice = replace(choice, variants=chosen)
    stages.write("loops", _loops_text, chosen)

    problem = placement_problem(module.main, groups, chosen, io=options.io)
    problem = with_states(problem, module.main)
    homes = homes_of(board, options.places, reserved or {})
    if homes is not None:
        problem = with_homes(problem, module.main, groups, chosen, homes, options.io)
    plan = plan_memory(problem, node_limit=PLAN_NODES)
    stages.write("plan", _plan_text, problem, plan)

    name = checked_model_name(options.model_name or model_identifier(imported.source))
    program = assemble(
        module,
        groups,
        chosen,
        problem,
        plan,
        Identity(name, board.name if board else board_name, core.name),
        io=options.io,
        golden=golden_run(module.main),
        merge=options.optimize == "size",
    )
    program = replace(program, no_asm=options.no_asm)
    if homes is not None:
        program = place_program(program, homes, copies=options.optimize == "time")
    program.check()
    overflows = find_overflows(module.main)
    return Compiled(
        imported, module, shrinkage, idle_clamps, choice, problem, plan, program, options,
        overflows, homes,
    )  # fmt: skip


def _lower(
    function: Function, policy: Target, options: Options, known: tuple[LoweredGroup, ...] = ()
) -> tuple[LoweredGroup, ...]:
    """The menu of every group; groups of the same nodes as known ones keep theirs."""
    menus = {lowered.group.nodes: lowered for lowered in known}

    def menu(group: Group) -> LoweredGroup:
        if group.nodes[0].bodies:
            return lower_bodies(group, partial(_lower_body, policy=policy, options=options))
        return lower_group(group, policy)

    return tuple(
        menus.get(group.nodes) or menu(group)
        for group in fuse_groups(function, fuse=not options.unfused, is_whole=policy.is_whole)
    )


def _lower_body(body: Function, policy: Target, options: Options) -> LoweredBody:
    """A body of a node, as a function whose inputs and outputs are its caller's."""
    options = replace(options, io="caller")
    function = copy_outputs(body, options.io)
    groups = _lower(function, policy, options)
    copied = copy_states(function, groups)
    if copied is not function:
        groups = _lower(copied, policy, options, groups)
    return LoweredBody(copied, groups, _choose(copied, groups, options, policy))


def _in_best_order(
    function: Function,
    groups: tuple[LoweredGroup, ...],
    chosen: tuple[Variant, ...],
    options: Options,
    policy: Target,
) -> tuple[tuple[LoweredGroup, ...], tuple[Variant, ...]]:
    """The groups in the order in which the arena is smallest, with a choice of their own."""
    known = orders(function, groups)
    if len(known) == 1:
        return groups, chosen
    choices = [chosen, *(_choose(function, o, options, policy) for o in known[1:])]
    pairs = list(zip(known, choices, strict=True))
    return min(pairs, key=lambda pair: peak_bytes(function, pair[0], pair[1], options))


def _choose(
    function: Function, groups: tuple[LoweredGroup, ...], options: Options, policy: Target
) -> tuple[Variant, ...]:
    """A variant of each group. `balanced` takes the fastest that fit where values alone would lie.

    What values need that lie apart, without any scratch, is then the limit. Where fast variants
    take much scratch or code, it takes what is almost the fastest with less of them.
    """
    io = options.io
    trades = options.optimize == "balanced" and policy.trades_scratch
    chosen = _choose_by_live_bytes(function, groups, options, io, trades)
    if options.optimize == "size":
        chosen = take_small_kernels(groups, chosen)
    if options.optimize == "balanced":
        chosen = spare_float_kernels(groups, chosen)
        chosen = spare_bytes(function, groups, chosen, io=io)
    most = math.inf if options.optimize == "ram" else 0.0
    if trades:
        chosen = spare_kernels(function, groups, chosen, io=io)
        fewest = sum(min(v.instructions for v in lowered.variants) for lowered in groups)
        most = BALANCED_SLOWDOWN * fewest
    return settle_places(function, groups, chosen, io=io, most_instructions=most)


def _choose_by_live_bytes(
    function: Function,
    groups: tuple[LoweredGroup, ...],
    options: Options,
    io: Io,
    trades_scratch: bool,
) -> tuple[Variant, ...]:
    if options.optimize != "balanced":
        return choose_variants(groups, options.optimize, function, io=io)
    plain = [min(lowered.variants, key=lambda v: v.scratch_bytes) for lowered in groups]
    apart = placement_problem(function, groups, plain, io=io).buffers
    limit = lower_bound_bytes(apart)
    menus = groups
    if trades_scratch:
        menus = tuple(_without_slow_variants(lowered) for lowered in groups)
    optimize: Optimize = "balanced" if trades_scratch else "time"
    try:
        return choose_variants(menus, optimize, function, io=io, capacity_bytes=limit)
    except PlanError:
        return choose_variants(groups, "ram", function, io=io)


def _without_slow_variants(lowered: LoweredGroup) -> LoweredGroup:
    """The fastest variant, and those that need less scratch.

    A place in memory below an input is worth less than time, as long as values fit apart.
    """
    fastest = min(lowered.variants, key=lambda v: v.instructions)
    kept = [v for v in lowered.variants if v is fastest or v.scratch_bytes < fastest.scratch_bytes]
    return LoweredGroup(lowered.group, tuple(kept))


def golden_run(function: Function) -> Golden | None:
    """Generated inputs and the CRC of what the reference answers: several runs if it has state.

    None for a model with a loop that may not end on inputs that mean nothing.
    """
    nodes = (node for each in function.walk() for node in each.nodes)
    if not all(node.op.ends(node.attrs) for node in nodes):
        return None
    steps = GOLDEN_STEPS if function.states else 1
    types = [(value.type.shape, value.type.dtype) for value in function.inputs]
    reference = Interpretation(function)
    outputs = [
        array
        for inputs in generate_steps(GOLDEN_SEED, types, steps)
        for array in reference.run(inputs)
    ]
    return Golden(GOLDEN_SEED, output_crc(outputs), steps)


def _loops_text(chosen: Sequence[Variant]) -> str:
    return "\n".join(print_func(variant.function) for variant in chosen)


def _plan_text(problem: Problem, plan: Plan) -> str:
    lines = ["buffer,region,offset,size_bytes,start,stop"]
    for buffer in problem.buffers:
        lines.append(
            f'"{buffer.name}",{plan.region_of[buffer.name]},{plan.offsets[buffer.name]},'
            f"{buffer.size_bytes},{buffer.start},{buffer.stop}"
        )
    return "\n".join(lines) + "\n"


class _Dump:
    """Writes `01_import.txt`, `02_…` into a folder, or nothing at all. Raises BuildFailed."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.count = 0
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self.failure(folder, error) from None

    def write(self, stage: str, text: Callable[[*Printed], str], *what: *Printed) -> None:
        """Print a stage, if there is a folder: that takes as long as the stage."""
        self.count += 1
        if self.folder is None:
            return
        path = self.folder / f"{self.count:02d}_{stage}.txt"
        try:
            path.write_text(text(*what), encoding="utf-8")
        except OSError as error:
            raise self.failure(path, error) from None

    @staticmethod
    def failure(path: Path, error: OSError) -> BuildFailed:
        return BuildFailed(
            f"cannot write the dump {path}: {error.strerror}", hint="choose another --dump"
        )

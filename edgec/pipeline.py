"""The way of the data, stage by stage: start reading here.

    model file -> frontends -> passes -> loops -> memory -> codegen -> build

Every stage ends in a contract that a separate checker verifies, and can be dumped as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVarTuple

import numpy as np

from edgec.boards.board import Board
from edgec.boards.compiler_name import with_usable
from edgec.codegen.assemble import Identity, assemble, output_crc
from edgec.codegen.names import checked_model_name, model_identifier
from edgec.codegen.placement import place_program
from edgec.codegen.program import Golden, Program
from edgec.codegen.versions import (
    WITHOUT_GPU,
    Special,
    fix_offsets,
    has_same_outputs,
    with_versions,
    without_gpu,
)
from edgec.errors import BuildFailed, EdgecError, PlanError
from edgec.frontends import import_model, import_shared_out
from edgec.graph.extents import function_at
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function, Module
from edgec.graph.limits import DEFAULT_BUDGET, Budget, check_limits
from edgec.graph.operator import Fusion
from edgec.graph.printer import print_module
from edgec.graph.special_sizes import special_sizes, words_of
from edgec.graph.types import Array
from edgec.graph.verify import verify_module
from edgec.loop.printer import print_func
from edgec.memory.board_regions import BoardRegions, board_regions_of, with_board_regions
from edgec.memory.choose import Choice
from edgec.memory.decide import decide
from edgec.memory.layout import placement_problem, with_states
from edgec.memory.problem import Plan, Problem
from edgec.memory.raise_outputs import smallest_plan
from edgec.numerics.fit_term import Sizes
from edgec.numerics.fixed_point import Rounding
from edgec.numerics.narrow_float import STORED_IN
from edgec.options import Options
from edgec.passes.accumulator_ranges import Overflow, find_overflows
from edgec.passes.copy_outputs import copy_outputs
from edgec.passes.fuse_groups import storage
from edgec.passes.idle_clamps import IdleClamp, drop_idle_clamps
from edgec.passes.lower_groups import LoweredGroup, Variant
from edgec.passes.merge_duplicates import merge_duplicates
from edgec.passes.sequence import PASSES
from edgec.passes.shrink_channels import Shrinkage, shrink_channels
from edgec.runners.samples import generate_steps
from edgec.targets.common.threads import worth_threads
from edgec.targets.core import Core, processor_of
from edgec.targets.external import accelerator_of

#: Seed of the input that a model's self-test runs.
GOLDEN_SEED = 1
#: Runs of a model with state: the third reads the second's result from the first's state.
GOLDEN_STEPS = 3

Printed = TypeVarTuple("Printed")


@dataclass(frozen=True)
class Compiled:
    """All results of compiling one model, stage by stage.

    imported: the graph as the file has it. module: after all passes. shrinkage: channels that were
    removed. idle_clamps: those that can never fire. groups, chosen: the menus and the variant taken
    from each. problem, plan: the memory. program: what codegen writes. regions: None without a
    board. specials: the same for each special choice of sizes; `program` has all code.
    tuned_left_out: nests of the options' file that are tuned for other cores or compilers.
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
    regions: BoardRegions | None = None
    specials: tuple[Compiled, ...] = ()
    tuned_left_out: int = 0

    @property
    def groups(self) -> tuple[LoweredGroup, ...]:
        """The groups of nodes in the order in which they run; a streaming segment is one group."""
        return self.choice.groups

    @property
    def chosen(self) -> tuple[Variant, ...]:
        """The variant of each group."""
        return self.choice.variants

    @property
    def every_group(self) -> tuple[tuple[LoweredGroup, Variant], ...]:
        """Group and variant of each step of the program, including special sizes."""
        every = (self, *self.specials)
        return tuple(p for each in every for p in zip(each.groups, each.chosen, strict=True))

    @property
    def special_functions(self) -> tuple[tuple[str, Function], ...]:
        """The functions of special sizes after all passes, with the sizes as words."""
        choices = special_sizes(self.imported.main, self.options.specialize)
        words = [WITHOUT_GPU] if self.program.without_gpu else map(words_of, choices)
        mains = (each.module.main for each in self.specials)
        return tuple(zip(words, mains, strict=True))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference of the model as it came, as the field counts."""
        return self.imported.main.macs

    def reference(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs of the integer reference in the first run."""
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

    board: has the regions for placement; without a board there is one arena. dump: a folder that
    gets one text file per stage. arena_limit_bytes: of the arena, if the choice allows it.
    reserved: by region of the board, bytes for other uses. Raises ImportFailed for a file that
    cannot be read or is not supported, PlanError when no memory plan exists.
    """
    options = options or Options()
    with _budget(options).work():
        return compile_module(
            read_model(path, options), core, options, board=board, board_name=board_name,
            dump=dump, arena_limit_bytes=arena_limit_bytes, reserved=reserved,
        )  # fmt: skip


def _budget(options: Options) -> Budget:
    """The limits of the compile's work."""
    return DEFAULT_BUDGET.times(options.compile_budget)


def read_model(path: Path, options: Options) -> Module:
    """Stage 1: a model file as the options have it. Raises ImportFailed."""
    budget = _budget(options)
    accelerator = accelerator_of(options.kernels)
    with budget.work():
        if accelerator is not None:
            return import_shared_out(path, accelerator.partition, options.match, budget)
        return import_model(
            path, match=options.match, shapes=dict(options.input_shapes),
            values=dict(options.input_values), budget=budget,
        )  # fmt: skip


def _offloaded(core: Core, options: Options) -> tuple[Core, Options]:
    """The core that runs the model, and the options for it."""
    if core.has_gpu and options.offload == "none":
        return processor_of(core), options.on_processor()
    return core, options


def _for_core(options: Options, core: Core) -> Options:
    """The options with the core's defaults. Raises EdgecError for one that the core has not."""
    if options.float_sums == "free" and core.is_embedded:
        raise EdgecError(
            f"{core.name} cannot reorder sums of floats",
            hint="only PCs, 64-bit Arm and GPUs can: omit the option",
        )
    if options.threads > 1 and core.is_embedded:
        raise EdgecError(
            f"{core.name} runs one thread",
            hint="threads are for this computer and Linux boards: omit the option",
        )
    if core.has_gpu:
        return _for_gpu(options, core)
    if (options.offload, options.driver) != ("all", "auto"):
        raise EdgecError(
            f"--offload and --driver need a GPU, and {core.name} has none",
            hint="use --board cuda_host or a Jetson",
        )
    has_plenty = not core.features.isdisjoint({"avx2", "neon"})
    return options.where_ram_is_plenty() if has_plenty else options


def with_float_sums(options: Options, core: Core, module: Module) -> Options:
    """The options with "free" or "ordered" instead of the default.

    Free are sums for cores of PCs and 64-bit Arm with vectors, of a model (after all passes) that
    computes with floats. Others keep the bits of every machine and the self-test of their outputs:
    microcontrollers, GPUs, models of integers, and features of sounds, which training computes too.
    """
    if options.float_sums is not None:
        return options
    has_vectors = not core.features.isdisjoint({"sse4", "neon"})
    is_free = has_vectors and module.format != "features" and _computes_floats(module.main)
    return replace(options, float_sums="free" if is_free else "ordered")


def _computes_floats(function: Function) -> bool:
    """Whether a node makes floats of floats, other than by moving them."""
    return any(
        node.op.fusion not in (Fusion.VIEW, Fusion.INJECTIVE)
        and any(value.type.is_float for value in node.activations)
        and any(value.type.is_float for value in node.outputs)
        for each in function.walk()
        for node in each.nodes
    )


def _for_gpu(options: Options, core: Core) -> Options:
    """The options as a GPU has them: rows that stream would leave most of its threads idle."""
    wrong = {
        f"--io {options.io}": options.io != "arena",
        f"{options.threads} threads": options.threads > 1,
        "code of its own for certain sizes": bool(options.specialize),
    }
    for what, is_given in wrong.items():
        if is_given:
            raise EdgecError(
                f"{core.name} runs the model on its GPU, which has no {what}",
                hint="omit the option, or build for the processor",
            )
    return replace(options, optimize="time")


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
    known, offload = len(options.tuned.groups), options.offload
    core, options = _offloaded(core, options)
    options = with_usable(_for_core(options, core), core)
    if options.specialize and options.io == "rows":
        raise EdgecError("--specialize runs whole inputs, --io rows feeds them row by row")
    # Streaming, which saves memory, is slow on a GPU.
    limit_bytes = None if core.has_gpu else arena_limit_bytes
    job = _Job(core, options, board, board_name, limit_bytes, reserved or {})
    choices = special_sizes(imported.main, options.specialize)
    with _budget(options).work():
        compiled = job.shared_out(imported, job.compiled(imported, _Dump(dump)))
        specials = tuple(job.special(imported, sizes, compiled) for sizes in choices)
    program = _with_specials(compiled.program, choices, specials)
    if compiled.regions is not None:
        program = place_program(program, compiled.regions, copies=compiled.options.prices.is_fast)
    program.check()
    return replace(
        compiled, program=program, specials=specials or compiled.specials,
        options=replace(compiled.options, offload=offload),
        tuned_left_out=known - len(options.tuned.groups),
    )  # fmt: skip


def _with_specials(
    program: Program, choices: Sequence[Sizes], specials: Sequence[Compiled]
) -> Program:
    """The program with functions for chosen sizes; the same if there are none."""
    found = [
        Special({var.name: value for var, value in sizes.items()}, words_of(sizes), each.program)
        for sizes, each in zip(choices, specials, strict=True)
    ]
    return with_versions(program, found) if found else program


@dataclass(frozen=True)
class _Job:
    """The data that all versions of a model share; see `compile_module`."""

    core: Core
    options: Options
    board: Board | None
    board_name: str
    arena_limit_bytes: int | None
    reserved: Mapping[str, int]

    def shared_out(self, imported: Module, compiled: Compiled) -> Compiled:
        """Add the steps that run without a GPU; return only these if no layer gains on a GPU."""
        if not (self.core.has_gpu and self.options.shares_out):
            return compiled
        alone = replace(self, core=processor_of(self.core), options=self.options.on_processor())
        program = compiled.program
        if all(step.on_processor for step in program.steps):
            found = alone.compiled(imported, _Dump(None))
            return replace(found, program=replace(found.program, beside_gpu=True))
        found = alone.beside(imported, compiled, "without a GPU")
        joined = without_gpu(program, found.program)
        return replace(
            compiled, program=replace(joined, processor=alone.core.name), specials=(found,)
        )

    def special(self, imported: Module, sizes: Sizes, general: Compiled) -> Compiled:
        """The model at certain sizes, its inputs and states where the general plan has them."""
        module = imported.with_main(function_at(imported.main, sizes))
        found = self.beside(module, general, f"at {words_of(sizes)}")
        is_largest = all(value == var.stop - 1 for var, value in sizes.items())
        golden = golden_run(found.module.main) if is_largest else None
        if general.program.golden is None or golden is None:
            return found
        return replace(found, program=replace(found.program, golden=golden))

    def beside(self, module: Module, general: Compiled, where: str) -> Compiled:
        """Another version of a model, with inputs, outputs and states at the general plan's places.

        Raises PlanError if its outputs cannot be placed there; `where` names the version.
        """
        try:
            found = self.compiled(module, _Dump(None), general)
        except PlanError:
            found = None
        if found is not None and has_same_outputs(general.program, found.program):
            return found
        found = self.compiled(module, _Dump(None), general, copies=True)
        if not has_same_outputs(general.program, found.program):
            raise PlanError(
                f"the outputs {where} cannot lie at the addresses that the general code uses",
                hint="build with --io caller",
            )
        return found

    def compiled(
        self,
        imported: Module,
        stages: _Dump,
        beside: Compiled | None = None,
        *,
        copies: bool = False,
    ) -> Compiled:
        """One version, before placement in a board's flash.

        beside: the version whose inputs, outputs and states determine the places of this one's.
        """
        core = self.core
        stages.check("import", imported)
        check_limits(imported.main, _budget(self.options))
        module, shrinkage, idle_clamps = _simplify(imported, self.options, stages, copies=copies)
        options = with_float_sums(self.options, core, module)
        decided = decide(module.main, core, options, self.arena_limit_bytes)
        choice = _on_threads(decided.choice, options)
        _check_theirs(choice, core, options)
        module = module.with_main(decided.function)
        stages.check("order_channels", module)
        stages.write("loops", _loops_text, choice.variants)
        regions = board_regions_of(self.board, options.placements, self.reserved)

        def problem_of(variants: Sequence[Variant]) -> Problem:
            chosen = replace(choice, variants=tuple(variants))
            problem = _placement(module.main, chosen, regions, options)
            if beside is None:
                return problem
            return fix_offsets(problem, beside.plan, _same_places(module.main, beside))

        found = smallest_plan(module.main, choice.groups, choice.variants, options, problem_of)
        choice, problem, plan = replace(choice, variants=found.variants), found.problem, found.plan
        stages.write("plan", _plan_text, problem, plan)
        name = checked_model_name(options.model_name or model_identifier(imported.source))
        board_name = self.board.name if self.board else self.board_name
        identity = Identity(name, board_name, core.name)
        # The results of free sums depend on the C compiler.
        has_golden = beside is None and options.float_sums == "ordered"
        golden = golden_run(module.main) if has_golden else None
        program = _emit(module, choice, problem, plan, identity, options, golden)
        return Compiled(
            imported, module, shrinkage, idle_clamps, choice, problem, plan, program, options,
            find_overflows(module.main), regions,
        )  # fmt: skip


def _check_theirs(choice: Choice, core: Core, options: Options) -> None:
    """Compare the user's functions with what they replace. Raises KernelRefused."""
    if any(variant.is_theirs for variant in choice.variants):
        # Few models need it, and it brings the simulator and all that builds programs.
        from edgec.external.check import check_uses

        check_uses(choice.groups, choice.variants, core, options)


def _on_threads(choice: Choice, options: Options) -> Choice:
    """Run loops that are long enough in the model on several threads."""
    if options.threads == 1:
        return choice
    functions, callees = worth_threads(
        [variant.function for variant in choice.variants],
        [variant.callees for variant in choice.variants],
    )
    chosen = zip(choice.variants, functions, callees, strict=True)
    return replace(
        choice, variants=tuple(replace(v, function=f, callees=called) for v, f, called in chosen)
    )


def _same_places(function: Function, beside: Compiled) -> dict[str, str]:
    """The buffers of a function that share the places of another one's."""
    other, roots, known = beside.module.main, storage(function), beside.problem.buffers
    names = {
        param.name: same.name for param, same in zip(function.params, other.params, strict=True)
    }
    for value, port in zip(function.outputs, beside.program.outputs, strict=True):
        if any(port.buffer == buffer.name for buffer in known):
            names.setdefault(roots.get(value, value).name, port.buffer)
    return names


def simplified(module: Module, options: Options) -> Module:
    """Stages 2 to 4 without fusion: the integer graph that an exporter writes."""
    return _simplify(module, options, _Dump(None))[0]


def _simplify(
    module: Module, options: Options, stages: _Dump, *, copies: bool = False
) -> tuple[Module, tuple[Shrinkage, ...], tuple[IdleClamp, ...]]:
    """Stages 2 to 4 without fusion, and the channels and clamps that were removed.

    copies: every output is made by a copy, which can be made anywhere.
    """
    framework = options.match or ("onnx" if module.format in ("onnx", "torch") else "tflm")
    rounding: Rounding = "single" if framework == "litert" else framework
    for name, run in PASSES:
        module = module.with_every(run, rounding)
        stages.check(name, module)
    function, equal = merge_duplicates(module.main)
    function, shrinkage = shrink_channels(function, equal)
    function, idle_clamps = drop_idle_clamps(function)
    module = module.with_main(copy_outputs(function, options.io, every=copies))
    stages.check("shrink_channels", module)
    return module, shrinkage, idle_clamps


def _placement(
    function: Function, choice: Choice, regions: BoardRegions | None, options: Options
) -> Problem:
    """Stage 6: the buffers to place, and their allowed regions."""
    groups, chosen = choice.groups, choice.variants
    problem = placement_problem(function, groups, chosen, io=options.io)
    problem = with_states(problem, function)
    if regions is None:
        return problem
    return with_board_regions(problem, function, groups, chosen, regions, options.io)


def _emit(
    module: Module,
    choice: Choice,
    problem: Problem,
    plan: Plan,
    identity: Identity,
    options: Options,
    golden: Golden | None,
) -> Program:
    """Stage 7: the program that codegen writes."""
    program = assemble(
        module,
        choice.groups,
        choice.variants,
        problem,
        plan,
        identity,
        io=options.io,
        golden=golden,
    )
    return replace(
        program,
        merges_functions=options.prices.is_small,
        no_asm=options.no_asm,
        threads=options.threads,
        float_sums=options.float_sums or "ordered",
        weights_form=options.weights_form,
        driver=options.driver,
    )


def golden_run(function: Function) -> Golden | None:
    """Generated inputs and the CRC of the reference's outputs: several runs if it has state.

    None for a model with a loop that may not end on random inputs, and for inputs that are floats
    of 8 or 16 bits: generated C has no numbers of these types. Also None if an output is NaN, whose
    bits differ between cores.
    """
    if any(value.type.dtype in STORED_IN for value in function.inputs):
        return None
    nodes = (node for each in function.walk() for node in each.nodes)
    if not all(node.op.ends(node.attrs) for node in nodes):
        return None
    steps = GOLDEN_STEPS if function.states else 1
    types = [(value.type.shape, value.type.dtype) for value in function.inputs]
    reference = Interpretation(function)
    outputs = [
        array
        for inputs in generate_steps(GOLDEN_SEED, types, steps)
        for array in reference.run_whole(inputs)
    ]
    if any(np.isnan(array).any() for array in outputs if _is_float(array)):
        return None
    return Golden(GOLDEN_SEED, output_crc(outputs), steps)


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fc" or "float" in array.dtype.name


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

    def check(self, stage: str, module: Module) -> None:
        """Verify the module as a stage left it, and print it."""
        verify_module(module)
        self.write(stage, print_module, module)

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

"""Tune a model: each distinct nest of its groups, by its share of the model's cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.boards.compiler_name import compiler_of, level_of, shipped
from edgec.errors import EdgecError
from edgec.graph.ir import Module
from edgec.loop.tuned import Figures, Tuned, TunedGroup
from edgec.options import Options
from edgec.passes.fuse_groups import Group, fuse_groups
from edgec.passes.open_groups import is_open
from edgec.pipeline import compile_module
from edgec.targets.core import Core
from edgec.targets.target import Target, target_for
from edgec.tune.candidates import Candidates, Found
from edgec.tune.measure import Job, Outcome
from edgec.tune.prove import is_proven
from edgec.tune.search import GroupSearch
from edgec.tune.workers import MOST_CANDIDATES, Workers

#: The fewest trials of a group that gets any.
FEWEST_TRIALS = 8


@dataclass(frozen=True)
class Layers:
    """Groups of a model that are one nest: the first, and how many there are."""

    group: Group
    count: int

    @property
    def title(self) -> str:
        """The layer's title: operators, the first one's name, shapes."""
        nodes = "+".join(node.op.name for node in self.group.nodes)
        shapes = [list(v.type.shape) for v in (*self.group.activations, *self.group.outputs)]
        *inputs, output = (str(shape).replace(" ", "") for shape in shapes)
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f'{nodes} "{self.group.name}"{more}, {", ".join(inputs)} -> {output}'


@dataclass(frozen=True)
class Plan:
    """The options of a search. trials: of all nests together; seed: of random decisions.

    lean: also search for schedules with no more bytes of any kind than the default. takes_shipped:
    nests whose schedules ship with edgec are not searched again.
    """

    core: Core
    options: Options
    trials: int
    seed: int = 0
    lean: bool = False
    takes_shipped: bool = True


@dataclass(frozen=True)
class Event:
    """The progress of a nest's search: the finished trials, and the best one so far."""

    layers: Layers
    trials: int
    best: Figures | None
    default: Figures | None


#: Called after each batch, and the function that stores the figures so far.
Watch = Callable[[Event], None]
Save = Callable[[Tuned], None]


@dataclass(frozen=True)
class TunedLayers:
    """The result of one nest. offered: the digests of the rules' schedules."""

    layers: Layers
    group: TunedGroup
    default: Figures | None
    best: Figures | None
    measured: int
    offered: tuple[str, ...]


def require_measurable(core: Core) -> None:
    """Raise EdgecError for a core that the simulator has not."""
    if not core.is_simulated:
        raise EdgecError(
            f"edgec tune cannot measure on {core.name}: the core simulator has no such core",
            hint="it measures on Cortex-M without Helium, Cortex-A7, R5 and RV32IMC",
        )


def distinct_layers(module: Module, core: Core, options: Options) -> tuple[Target, list[Layers]]:
    """The nests of a model as `edgec build` has them, the first in the model first.

    Left out are groups whose sizes are open, that run bodies, or that call a user's function.
    """
    compiled = compile_module(module, core, options)
    target = replace(target_for(core, compiled.options), only_ours=True)
    groups = [
        group
        for group in fuse_groups(
            compiled.module.main, fuse=not options.unfused, is_whole=target.is_whole
        )
        if not (is_open(group) or group.nodes[0].bodies or group.nodes[0].op.is_foreign)
    ]
    counted: dict[str, list[Group]] = {}
    for group in groups:
        counted.setdefault(Candidates(group, target).nest, []).append(group)
    return target, [Layers(each[0], len(each)) for each in counted.values()]


def tune(
    module: Module, plan: Plan, workers: Workers, known: Tuned, watch: Watch, save: Save
) -> tuple[Tuned, list[TunedLayers]]:
    """Search each nest of a model. known: figures of before, which are not measured again.

    save: is called with everything after each measured batch. Raises EdgecError for a core that is
    not simulated, and as `compile_module`.
    """
    require_measurable(plan.core)
    alone = Tuned(is_alone=True)
    plan = replace(plan, options=replace(plan.options, tuned=alone))  # the rules' schedules
    target, layers = distinct_layers(module, plan.core, plan.options)
    searched = [(each, Candidates(each.group, target)) for each in layers]
    key = plan.core.name, compiler_of(plan.core, plan.options)
    results = []
    for (each, candidates), trials in zip(searched, _shares(searched, plan.trials), strict=True):
        group = _known_group(TunedGroup(candidates.nest, *key, each.title), known, plan)
        search = GroupSearch(candidates, group, seed=plan.seed, trials=trials, lean=plan.lean)
        measured = 0
        while not (search.is_done or search.is_settled):
            unknown = search.unknown
            found = measure_found(candidates, unknown, search.budget, plan, workers)
            measured += len(unknown)
            search.learn(found)
            if unknown:
                known = known.with_group(search.group)
                save(known)
            watch(Event(each, search.trials_done, search.best(), _figures(search, search.default)))
        result = _finished(each, search, group, measured)
        known = known.with_group(result.group)
        results.append(result)
    save(known)
    return known, results


def _known_group(empty: TunedGroup, known: Tuned, plan: Plan) -> TunedGroup:
    """The tuned schedules of a nest from the user's files, or from edgec's."""
    if not plan.takes_shipped:
        return replace(known.groups.get(empty.key, empty), trials=0)
    return known.groups.get(empty.key) or shipped(plan.core).groups.get(empty.key, empty)


def _figures(search: GroupSearch, found: Found | None) -> Figures | None:
    return None if found is None else search.figures_of(found)


def _finished(
    layers: Layers, search: GroupSearch, before: TunedGroup, measured: int
) -> TunedLayers:
    """The group with its winners; earlier winners stay where they are better."""
    default = search.default
    found = () if search.is_settled else search.winners()
    proven = [f for f in found if is_proven(search.candidates, f)]
    fresh = [f.winner for f in proven if f.winner is not None]
    figures = search.group.figures
    base = _figures(search, default)

    def takes(made: str) -> float:
        found = figures.get(made)
        return float("inf") if found is None else found.instructions

    best = min((takes(w.made) for w in fresh), default=float("inf"))
    older = [w for w in before.winners if takes(w.made) < best]
    group = replace(
        search.group, default="" if default is None else default.digest,
        winners=(*older, *fresh),
    )  # fmt: skip
    ranked = [figures[w.made] for w in group.winners if figures.get(w.made)]
    fastest = min((f for f in ranked if f), key=lambda f: f.instructions, default=base)
    offered = tuple(f.digest for f in search.candidates.defaults)
    return TunedLayers(layers, group, base, fastest, measured, offered)


def measure_found(
    candidates: Candidates, found: Sequence[Found], budget: int, plan: Plan, workers: Workers
) -> Mapping[str, Figures | None]:
    """The figures of candidates, by digest; None for rejected ones."""
    size = max(1, min(MOST_CANDIDATES, -(-len(found) // workers.count)))
    parts = [found[i : i + size] for i in range(0, len(found), size)]
    options = plan.options
    jobs = [
        Job(
            plan.core.name, options.compiler, level_of(options),
            tuple(candidates.candidate(each, i) for i, each in enumerate(part)), budget,
        )
        for part in parts
    ]  # fmt: skip
    outcomes: list[Outcome] = [o for each in workers.measure(jobs) for o in each]
    return {f.digest: o.figures for f, o in zip(found, outcomes, strict=True)}


def _shares(searched: Sequence[tuple[Layers, Candidates]], trials: int) -> list[int]:
    """Trials of each nest, by the estimated cost of its layers; the largest first, if there are not
    enough for all.
    """
    costs = [
        each.count * min(f.variant.instructions for f in candidates.defaults)
        if candidates.has_space
        else 0
        for each, candidates in searched
    ]
    shares, left, total = [0] * len(costs), trials, sum(costs)
    order = sorted((i for i, cost in enumerate(costs) if cost), key=lambda i: -costs[i])
    for i in reversed(order):
        enough = left // (order.index(i) + 1)
        share = max(trials * costs[i] // max(total, 1), FEWEST_TRIALS)
        shares[i] = min(share, enough)
        left -= shares[i]
    if order:
        shares[order[0]] += left
    return shares

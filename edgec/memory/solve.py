"""`plan_memory`: regions, then offsets, then the certificate; every plan is checked.

1. Each buffer goes to the cheapest of its regions, as far as capacities allow (regions.py).
2. Each region is solved alone: first-fit incumbents, then exact searches for a peak between the
   lower bound and the incumbent, with node budgets that grow until the gap is closed. Only the
   time limit makes the result depend on the clock, and then the certificate shows a gap.
3. `check_plan` verifies the whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from edgec.errors import PlanError
from edgec.memory.bound import instance_bound_bytes, stacks_bound_bytes
from edgec.memory.certificate import Certificate, certify_region
from edgec.memory.check import check_plan
from edgec.memory.conflict import capacity_error
from edgec.memory.greedy import best_greedy, first_fit, greedy_order
from edgec.memory.instance import Instance, IntArray, make_instance
from edgec.memory.problem import Buffer, Overlap, Plan, Problem
from edgec.memory.regions import assign_regions, spill
from edgec.memory.search import Search, Verdict
from edgec.memory.strategy import Breeder, Strategy, plain_strategies
from edgec.memory.window import WindowProver

SOLVERS = ("own", "greedy")
DEFAULT_TIME_LIMIT_S = 5.0
_FEW_NODES = 500  # nearly free, and enough for networks of common size
_SOME_NODES = 2500
_TRIAL_NODES = 1000  # of a changed strategy: successful searches backtrack little


@dataclass(frozen=True)
class RegionSolution:
    """Offsets in bytes of one region's buffers; `peak_bytes` None if no plan was found.

    No plan ends below `lower_bound_bytes`; `proof` says why.
    """

    offsets: dict[str, int]
    peak_bytes: int | None
    lower_bound_bytes: int
    proof: str
    nodes: int


def plan_memory(
    problem: Problem,
    *,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    node_limit: int | None = None,
    solver: str = "own",
) -> Plan:
    """Return a legal plan with the smallest peak found in each region, and its certificate.

    `solver`: "own" (exact) or "greedy" (largest first, as TensorFlow Lite Micro). `node_limit`:
    placements that "own" tries in each region, instead of a time: plans that others depend on
    must not depend on how fast the machine is. Raises PlanError, naming the buffers that
    conflict, when a region's capacity cannot be met or was not met within the limit.
    """
    if solver not in SOLVERS:
        raise PlanError(f"no memory solver is called {solver}", hint="one of " + ", ".join(SOLVERS))
    deadline_s = time.process_time() + time_limit_s if node_limit is None else math.inf
    most_nodes = math.inf if node_limit is None else node_limit
    assignment = assign_regions(problem)
    region_of = assignment.region_of
    solutions: dict[str, RegionSolution] = {}
    while len(solutions) < len(problem.regions):
        for region in problem.regions:
            if region.name in solutions:
                continue
            inside = [b for b in problem.buffers if region_of[b.name] == region.name]
            solution = solve_region(
                inside, problem.overlaps, region.capacity_bytes, deadline_s, solver, most_nodes
            )
            if solution.peak_bytes is not None:
                solutions[region.name] = solution
                continue
            spilled = spill(problem, region_of, region.name)
            if spilled is None:
                raise capacity_error(
                    inside, problem.overlaps, region, solution.lower_bound_bytes, solution.proof
                )
            changed = {region_of[n] for n in region_of if region_of[n] != spilled[n]}
            changed |= {spilled[n] for n in region_of if region_of[n] != spilled[n]}
            region_of = spilled
            solutions = {name: s for name, s in solutions.items() if name not in changed}
    offsets = {b.name: solutions[region_of[b.name]].offsets.get(b.name, 0) for b in problem.buffers}
    for b in problem.buffers:
        if b.fixed_offset is not None:
            offsets[b.name] = b.fixed_offset
    check_plan(problem, offsets, region_of)
    certificates = tuple(
        certify_region(problem, offsets, region_of, name, s.lower_bound_bytes, s.proof)
        for name, s in ((region.name, solutions[region.name]) for region in problem.regions)
    )
    nodes = sum(solution.nodes for solution in solutions.values())
    return Plan(
        offsets=offsets,
        region_of=region_of,
        peak_bytes={c.region: c.peak_bytes for c in certificates},
        certificate=Certificate(
            solver,
            nodes,
            certificates,
            cost=sum(b.cost_in(region_of[b.name]) for b in problem.buffers),
            is_cheapest=assignment.is_exact and region_of == assignment.region_of,
        ),
    )


#: Solutions found without a clock, by problem and node limit: tried variants share many problems,
#: and the chosen plan was made when it was compared.
_SOLVED: dict[object, tuple[RegionSolution, float]] = {}
_MOST_SOLVED = 512


def solve_region(
    buffers: Sequence[Buffer],
    overlaps: Sequence[Overlap],
    capacity_bytes: int | None,
    deadline_s: float,
    solver: str = "own",
    most_nodes: float = math.inf,
) -> RegionSolution:
    """Minimize the peak of one region; see RegionSolution for what comes back."""
    placed = tuple(
        (b.name, b.size_bytes, b.start, b.stop, b.align_bytes, b.fixed_offset) for b in buffers
    )
    key = placed, tuple(overlaps), capacity_bytes, solver
    known, within = _SOLVED.get(key, (None, math.nan))
    # More nodes change nothing where there was no need of them.
    if known is not None and (
        within == most_nodes
        or (within < most_nodes and known.peak_bytes == known.lower_bound_bytes)
    ):
        return known
    found = _solve(buffers, overlaps, capacity_bytes, deadline_s, solver, most_nodes)
    if deadline_s == math.inf:
        if len(_SOLVED) == _MOST_SOLVED:
            _SOLVED.clear()
        _SOLVED[key] = found, most_nodes
    return found


def _solve(
    buffers: Sequence[Buffer],
    overlaps: Sequence[Overlap],
    capacity_bytes: int | None,
    deadline_s: float,
    solver: str,
    most_nodes: float,
) -> RegionSolution:
    instance = make_instance(buffers, overlaps)
    bound = max(instance_bound_bytes(instance), stacks_bound_bytes(buffers, overlaps))
    _check_placements(instance)
    if capacity_bytes is not None and bound > capacity_bytes:
        return RegionSolution({}, None, bound, "live bytes", 0)
    if solver == "greedy":
        offsets = first_fit(instance, greedy_order(instance, "size"))
        best = _Best(instance, capacity_bytes)
        best.offer(offsets)
        return best.solution(bound, bound, 0)
    return _solve_exactly(instance, overlaps, bound, capacity_bytes, deadline_s, most_nodes)


class _Best:
    def __init__(self, instance: Instance, capacity_bytes: int | None) -> None:
        self.instance = instance
        self.capacity_bytes = capacity_bytes
        self.offsets: IntArray | None = None
        self.peak_bytes: int | None = None

    @property
    def limit_bytes(self) -> int:
        """The size that a better plan must not exceed; needs a plan or a capacity."""
        if self.peak_bytes is not None:
            return self.peak_bytes - 1
        assert self.capacity_bytes is not None, "without capacity, every first fit is a plan"
        return self.capacity_bytes

    def offer(self, offsets: IntArray) -> None:
        """Keep `offsets` if they are legal and better."""
        peak = self.instance.peak_bytes(offsets)
        fits = self.capacity_bytes is None or peak <= self.capacity_bytes
        is_better = self.peak_bytes is None or peak < self.peak_bytes
        if fits and is_better and is_legal(self.instance, offsets):
            self.offsets, self.peak_bytes = offsets, peak

    def solution(self, bound: int, proven: int, nodes: int) -> RegionSolution:
        """Return the outcome: `bound` from live bytes, `proven` by whatever means."""
        offsets: dict[str, int] = {}
        if self.offsets is not None:
            names = [b.name for b in self.instance.buffers]
            offsets = dict(zip(names, (self.offsets * self.instance.granule).tolist(), strict=True))
        proof = "search" if proven > bound else "live bytes"
        return RegionSolution(offsets, self.peak_bytes, proven, proof, nodes)


def _solve_exactly(
    instance: Instance,
    overlaps: Sequence[Overlap],
    bound: int,
    capacity_bytes: int | None,
    deadline_s: float,
    most_nodes: float = math.inf,
) -> RegionSolution:
    best = _Best(instance, capacity_bytes)
    best.offer(best_greedy(instance))
    proven = bound
    nodes = 0

    def is_over() -> bool:
        looked_at = nodes + (prover.nodes if prover is not None else 0)
        return looked_at >= most_nodes or time.process_time() > deadline_s

    search: Search | None = None
    prover: WindowProver | None = None
    plain_ones = plain_strategies(instance)
    breeder = Breeder(plain_ones)
    for effort in _efforts(plain_ones):
        if proven > best.limit_bytes or is_over():
            break
        search = search or Search(instance)
        low = proven
        target = low if best.peak_bytes is not None else best.limit_bytes
        gave_up = False
        while low <= best.limit_bytes and not is_over():
            verdict = Verdict.GAVE_UP
            for plain, node_limit in effort:
                strategy = plain or breeder.make()
                result = search.run(target, strategy, node_limit, deadline_s)
                nodes += result.nodes
                verdict = result.verdict
                breeder.learn(strategy, result.waiting)
                if result.offsets is not None:
                    best.offer(result.offsets)
                if verdict is not Verdict.GAVE_UP or is_over():
                    break
            if verdict is Verdict.GAVE_UP and instance.is_exact:
                prover = prover or WindowProver(instance, overlaps)
                if prover.excludes(target, _FEW_NODES, deadline_s, most_nodes - nodes):
                    verdict = Verdict.NONE
            if verdict is Verdict.GAVE_UP:
                gave_up = True
            if verdict is not Verdict.FOUND:
                low = target + 1
            if verdict is Verdict.NONE and instance.is_exact:
                proven = low
            # Most often the bound can be met, so it is the first target once there is a plan.
            is_first_plan = verdict is Verdict.FOUND and target > best.limit_bytes and low == proven
            target = low if is_first_plan else (low + best.limit_bytes) // 2
        if not gave_up and not instance.is_exact:
            break  # the search was complete; a proof for the raised separations is not a bound
    return best.solution(bound, proven, nodes)


def _efforts(plain: Sequence[Strategy]) -> Iterator[list[tuple[Strategy | None, int]]]:
    """Yield lists of (strategy, node limit) to spend on each target, growing without end.

    None stands for a strategy that is then bred from the successful ones.
    """
    yield [(strategy, _FEW_NODES) for strategy in plain[:2]]
    yield [(strategy, _SOME_NODES) for strategy in plain]
    for growth in count(1):
        # Changed orders find plans, mostly with hardly a step back; only a long search can prove
        # that there is none.
        yield [
            *([(None, _TRIAL_NODES)] * (len(plain) * 2**growth)),
            (plain[0], _SOME_NODES * 4**growth),
        ]


def _check_placements(instance: Instance) -> None:
    """Raise PlanError if two buffers with fixed offsets collide: then no capacity helps."""
    fixed = [i for i, b in enumerate(instance.buffers) if b.fixed_offset is not None]
    for a in fixed:
        for b in fixed:
            gap = int(instance.lo[b] - instance.lo[a])
            if b in instance.gaps[a] and gap < instance.gaps[a][b] and -gap < instance.gaps[b][a]:
                first, second = instance.buffers[a], instance.buffers[b]
                raise PlanError(
                    f"{first.name} and {second.name} are live together at one fixed place",
                    details=tuple(
                        f"{x.name}: {x.size_bytes:,} bytes at {x.fixed_offset}"
                        for x in (first, second)
                    ),
                )


def is_legal(instance: Instance, offsets: IntArray) -> bool:
    """Whether offsets in granules obey all separations, alignments and pins."""
    at = offsets.tolist()
    is_separate = all(
        at[b] - at[a] >= gap or at[a] - at[b] >= instance.gaps[b][a]
        for a, gaps in enumerate(instance.gaps)
        for b, gap in gaps.items()
    )
    return bool(
        is_separate
        and (offsets % instance.align == 0).all()
        and (offsets >= 0).all()
        and all(
            b.fixed_offset is None or o * instance.granule == b.fixed_offset
            for b, o in zip(instance.buffers, offsets.tolist(), strict=True)
        )
    )

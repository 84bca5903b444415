"""Measures candidates on a simulated core: instructions, modelled cycles, bytes of code.

A job is self-contained, as plain bytes and text, so that any process on any computer with the same
compiler can do it. Every candidate's outputs are compared with the reference: a function that
differs by one bit, accesses memory outside of its buffers or does not compile is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.boards.toolchain import find_toolchain
from edgec.build.bare_image import build_image, code_bytes
from edgec.build.staging import work_folder
from edgec.errors import BuildFailed, EdgecError, RunFailed
from edgec.loop.tuned import Figures
from edgec.sim.arguments import Argument, call_with
from edgec.sim.core import CallResult, CoreSimulator, simulated_as
from edgec.targets.core import find_core

#: The function of candidate i of a job.
NAME = "candidate_{}"


@dataclass(frozen=True)
class Candidate:
    """A function's C file and its arguments; scratch_bytes: in addition to the outputs."""

    text: str
    arguments: tuple[Argument, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class Job:
    """Candidates for one image. core, compiler, level: as of `Options`. budget: instructions."""

    core: str
    compiler: str | None
    level: str
    candidates: tuple[Candidate, ...]
    budget: int


@dataclass(frozen=True)
class Outcome:
    """figures of a candidate, or why it has none."""

    figures: Figures | None
    error: str = ""


def measure(job: Job) -> tuple[Outcome, ...]:
    """Build and run the candidates of a job, in order.

    Raises ToolMissing where the compiler or the simulator is not installed.
    """
    with work_folder("tune") as folder:
        toolchain = find_toolchain(find_core(job.core), job.compiler)
        texts = [c.text for c in job.candidates]
        try:
            elf = build_image(folder, toolchain, job.level, texts)
        except BuildFailed as error:
            return _one_by_one(job, str(error))
        with CoreSimulator(elf, simulated_as(job.core)) as core:
            return tuple(
                _outcome(core, NAME.format(i), candidate, job.budget, code_bytes(folder, i))
                for i, candidate in enumerate(job.candidates)
            )


def _one_by_one(job: Job, error: str) -> tuple[Outcome, ...]:
    """Some candidate does not compile: the others are measured without it."""
    if len(job.candidates) == 1:
        return (Outcome(None, error),)
    alone = []
    for number, candidate in enumerate(job.candidates):
        text = candidate.text.replace(NAME.format(number), NAME.format(0))
        single = Candidate(text, candidate.arguments, candidate.scratch_bytes)
        alone.append(Job(job.core, job.compiler, job.level, (single,), job.budget))
    return tuple(outcome for each in alone for outcome in measure(each))


def _outcome(
    core: CoreSimulator, name: str, candidate: Candidate, budget: int, size: int
) -> Outcome:
    try:
        done = _run(core, name, candidate, budget)
        taken = done.instructions, done.cycles, size, candidate.scratch_bytes, done.stack_bytes
        return Outcome(Figures(*taken))
    except EdgecError as error:
        return Outcome(None, error.message)
    finally:
        core.release()


def _run(core: CoreSimulator, name: str, candidate: Candidate, budget: int) -> CallResult:
    """One run of a candidate. Raises RunFailed if its results differ from the reference."""
    done, made = call_with(core, name, candidate.arguments, budget)
    for number, (found, given) in enumerate(zip(made, candidate.arguments, strict=True)):
        if given.expected is not None and found != given.expected:
            raise RunFailed(f"argument {number} of {name} differs from the reference")
    return done

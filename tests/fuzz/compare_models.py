"""Random valid models against the frameworks: reference, passes and C, with a shrinker.

    python tests/fuzz/compare_models.py --seconds 3600 --out /tmp/findings
    python tests/fuzz/compare_models.py --reproduce 12345      # one seed again, made small

A run goes on where the one before ended; each has a file of what it tried and found.

Each seed is a model, inputs and options of a compile. It is checked that

1. each node of the imported graph gives what the framework gives for the framework's own operands
   (`Operator.tolerance`; integers in every bit),
2. what the passes make of the graph gives the framework's outputs: in every bit where all operators
   are exact, near to them where they are floats and nothing decides on them,
3. the C gives the reference's bytes on this computer; other cores' C runs here without assembly.
   One C compiler runs for a batch of models: mostly tcc where it is installed, else gcc.

What edgec refuses with words is counted and is no finding.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
REPO_ROOT = HERE.parents[1]
for folder in (HERE, HERE.parent / "models", HERE.parent / "ops", HERE.parent, REPO_ROOT):
    sys.path.insert(0, str(folder))

from against_frameworks import Wrong, check_nodes, check_outputs, compare  # noqa: E402
from random_models import Array, Model, random_array  # noqa: E402
from random_onnx import random_onnx  # noqa: E402
from random_tflite import random_tflite  # noqa: E402

#: Models that one C compiler gets.
BATCH = 32
#: Runs of each model, each with new inputs; a model with state takes them as one sequence.
RUNS = 2
OPTIMIZE = ("balanced", "time", "ram", "size")
#: Code for other cores runs here, too: without assembly it is plain C.
CORES = ("host",) * 4 + (
    "cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "rv32imc",
)  # fmt: skip
#: The C compiler for most batches, where it is installed: fifty times as fast as gcc. What differs
#: is a finding only if it differs with gcc, too.
FAST_COMPILER = ("tcc", "-std=c99")
SAFE_COMPILER = ("gcc", "-std=c99", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-fopenmp")
#: One batch of this many has gcc alone.
SAFE_EVERY = 12


#: `omp_pause_hard` of OpenMP 5.0, section 6.1.
OMP_PAUSE_HARD = 2
#: 1 while a framework runs, for who looks at a process that has crashed.
IN_FRAMEWORK = mmap.mmap(-1, 1)


@dataclass
class Case:
    """A seed's model and how it is compiled."""

    seed: int
    model: Model
    inputs: list[list[Array]]
    options: dict[str, Any]
    core: str = "host"
    percent: int = 100

    def text(self) -> str:
        how = {**self.options, "core": self.core, "arena percent": self.percent}
        return f"seed {self.seed} {how}\n{self.model.text()}"


@dataclass
class Ready:
    """A compiled case, its C and what the C must give."""

    case: Case
    manifest: Any
    sources: list[Path]
    expected: list[tuple[Array, ...]]


@dataclass
class Tally:
    """What a run found."""

    results: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Count what another has counted, too."""
        self.results += other.results
        self.refused += other.refused
        self.kinds += other.kinds
        self.findings |= other.findings


def case_of(seed: int) -> Case:
    """The case that a seed stands for, on every machine with the same frameworks."""
    rng = np.random.default_rng(seed)
    model = (random_tflite if seed % 2 else random_onnx)(rng)
    core = str(rng.choice(CORES))
    options: dict[str, Any] = {
        "optimize": str(rng.choice(OPTIMIZE)), "unfused": bool(rng.random() < 0.2),
        "io": str(rng.choice(["arena", "arena", "caller", "rows"])),
        "threads": int(rng.choice([1, 1, 1, 3])) if core == "host" else 1,
        "no_asm": core != "host" or bool(rng.random() < 0.2),
    }  # fmt: skip
    if options["io"] == "rows" and not may_feed(model):
        options["io"] = "arena"
    percent = int(rng.choice([100] * 8 + [80, 50]))
    return Case(seed, model, inputs_of(model, rng), options, core, percent)


def may_feed(model: Model) -> bool:
    """Whether rows of the only input can be fed; edgec may still refuse."""
    shapes = [model.tensors[name].shape for name in model.inputs]
    return len(shapes) == 1 and len(shapes[0]) in (3, 4) and model.format == "tflite"


def inputs_of(model: Model, rng: np.random.Generator) -> list[list[Array]]:
    """RUNS lists of arrays for the inputs of a model."""
    types = [model.tensors[name] for name in model.inputs]
    return [[random_array(rng, t.shape, t.dtype, t.within) for t in types] for _ in range(RUNS)]


# ---- 1 and 2: in Python ----


def prepare(
    case: Case, folder: Path, number: int, check: Callable[..., None] | None = None
) -> Ready:
    """Check a case in Python and write its C. Raises Wrong, or EdgecError if edgec refuses it.

    check: of the outputs alone, instead of points 1 and 2.
    """
    from edgec.codegen.project import write_project
    from edgec.graph.interpret import Interpretation, in_use
    from edgec.graph.verify import verify_module
    from edgec.options import Options

    path = folder / f"m{number}.{case.model.format}"
    path.write_bytes(case.model.write())
    module, answers, match = imported(path, case.inputs)
    verify_module(module)
    if check is None:
        check_nodes(module.main, case.inputs, answers, is_litert=match == "litert")
    options = Options(**case.options, model_name=f"m{number}", match=match)
    compiled = compiled_case(case, module, options)
    reference = Interpretation(compiled.module.main)
    whole = [reference.run_whole(inputs) for inputs in case.inputs]
    outputs = [in_use(each, compiled.module.main.counts) for each in whole]
    (check or check_outputs)(
        compiled.module.main, outputs, answers, case.model, is_litert=match == "litert"
    )
    project = folder / f"p{number}"
    project.mkdir()
    manifest = write_project(compiled.program, project)
    return Ready(case, manifest, sorted(project.glob("*.c")), whole)


def imported(path: Path, inputs: Sequence[Sequence[Array]]) -> tuple[Any, list[Any], Any]:
    """A file's module, its framework's answers, and whose rounding is followed.

    That is None for the format's own. What TFLite Micro does not run, LiteRT may.
    """
    from edgec.errors import RunFailed
    from edgec.frontends import import_model
    from edgec.oracle.frameworks import open_oracle

    def answers(name: str | None = None) -> list[Any]:
        IN_FRAMEWORK[0] = 1
        oracle = open_oracle(path, name)
        found = [oracle.run(arrays, tensors=True) for arrays in inputs]
        IN_FRAMEWORK[0] = 0
        return found

    module = import_model(path)
    try:
        return module, answers(), None
    except RunFailed:
        if path.suffix != ".tflite":
            raise
    return import_model(path, match="litert"), answers("litert"), "litert"


def compiled_case(case: Case, module: Any, options: Any) -> Any:
    """Stages 2 to 6 as the case has them; what cannot be fed by rows is not."""
    from edgec.errors import EdgecError
    from edgec.pipeline import compile_module
    from edgec.targets.core import find_core

    core = find_core(case.core)
    try:
        compiled = compile_module(module, core, options)
    except EdgecError:
        if options.io != "rows":
            raise
        options = replace(options, io="arena")
        compiled = compile_module(module, core, options)
    if case.percent == 100:
        return compiled
    limit = compiled.program.arena_bytes * case.percent // 100
    return compile_module(module, core, options, arena_limit_bytes=limit)


# ---- 3: in C ----


def run_batch(
    ready: Sequence[Ready], folder: Path, compiler: Sequence[str] = SAFE_COMPILER
) -> Iterator[tuple[Ready, str]]:
    """Build all models into one library and compare; yields those that differ, and how.

    Those that differ with another compiler than gcc are built again with it.
    """
    if not ready:
        return
    is_safe = compiler == SAFE_COMPILER
    library = folder / f"{compiler[0]}{ready[0].manifest.model}_{len(ready)}.so"
    sources = [str(path) for each in ready for path in each.sources]
    runtime = REPO_ROOT / "runtime_c" / "link"
    done = subprocess.run(
        [*compiler, "-w", "-shared", "-fPIC", f"-I{runtime}", *sources, "-o", str(library)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and is_safe and len(ready) == 1:
        yield ready[0], done.stderr[-2000:]
    elif done.returncode:
        for each in ready:
            yield from run_batch([each], folder)
    else:
        for each in ready:
            how = how_it_differs(each, library)
            if how and is_safe:
                yield each, how
            elif how:
                yield from run_batch([each], folder)


def how_it_differs(ready: Ready, library: Path) -> str:
    """How the C gives other bytes than the reference; "" if it gives the same."""
    from edgec.runners.host import HostModel

    try:
        model = HostModel(library, ready.manifest)
        for inputs, expected in zip(ready.case.inputs, ready.expected, strict=True):
            status, found, _ = model.run(inputs)
            if status:
                raise Wrong(f"run gave ec_status {status}")
            for number, (want, raw) in enumerate(zip(expected, found, strict=True)):
                mine = np.frombuffer(raw, want.dtype).reshape(want.shape)
                if want.tobytes() != mine.tobytes():
                    compare(f"C output {number}", want, mine, 0.0)
    except Exception as error:  # all that is no result is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def compiler_of(batch: int) -> Sequence[str]:
    """The compiler for a batch by its number."""
    is_fast = shutil.which(FAST_COMPILER[0]) and batch % SAFE_EVERY
    return FAST_COMPILER if is_fast else SAFE_COMPILER


# ---- A run ----


def run_seeds(seeds: Sequence[int], tally: Tally) -> None:
    """Check a batch of seeds."""
    with _folder() as folder:
        ready: list[Ready] = []
        for number, seed in enumerate(seeds):
            case = None
            try:
                case = case_of(seed)
                tally.kinds.update(step.kind for step in case.model.steps)
                ready.append(prepare(case, folder, number))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                note(tally, seed, case, error)
        for each, how in run_batch(ready, folder, compiler_of(seeds[0] // BATCH)):
            tally.findings[each.case.seed] = f"{how}\n{each.case.text()}"
        tally.results["compared"] += len(ready)


def end_threads() -> None:
    """End the threads that OpenMP keeps: a forked process has none of them and waits for them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libgomp.so.1").omp_pause_resource_all(OMP_PAUSE_HARD)


def run_apart(seeds: Sequence[int], tally: Tally) -> None:
    """The same in a process of its own, so that one that crashes does not end all.

    The seeds of a batch that does are tried one by one; that which crashes is a finding, unless
    its framework has crashed.
    """
    IN_FRAMEWORK[0] = 0
    end_threads()
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                mine = Tally()
                run_seeds(seeds, mine)
                pickle.dump(mine, answer)
                answer.flush()
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            answer.seek(0)
            tally.add(pickle.load(answer))
        elif len(seeds) > 1:
            for seed in seeds:
                run_apart([seed], tally)
        elif IN_FRAMEWORK[0]:
            tally.results["framework crashed"] += 1
        else:
            tally.findings[seeds[0]] = f"a process ends with {status}\n{case_of(seeds[0]).text()}"


def note(tally: Tally, seed: int, case: Case | None, error: BaseException) -> None:
    """Count a refusal, or keep a finding."""
    from edgec.errors import ContractError, EdgecError, RunFailed

    if isinstance(error, RunFailed):  # the framework's own
        tally.results["framework refused"] += 1
        tally.refused[error.render()[:300]] += 1
    elif isinstance(error, EdgecError) and not isinstance(error, ContractError):
        tally.results["refused"] += 1
        tally.refused[(error.details or (error.message,))[0].split(":")[-1][:100]] += 1
    else:
        why = str(error) if isinstance(error, Wrong) else traceback.format_exc()[-1500:]
        tally.findings[seed] = f"{why}\n{case.text() if case else ''}"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="edgec_random_", dir=place) as name:
        yield Path(name)


# ---- Shrinking ----


def failure(case: Case, check: Callable[..., None] | None = None) -> str:
    """How a case fails, without numbers; "" if it does not."""
    tally = Tally()
    with _folder() as folder:
        try:
            ready = prepare(case, folder, 0, check)
        except BaseException as error:
            note(tally, 0, None, error)
            first = tally.findings.get(0, "")
            last = [line for line in first.splitlines() if line.strip()][-1:]
            return f"{type(error).__name__} {last[0].split(':')[0]}" if first else ""
        for _, how in run_batch([ready], folder):
            return f"C {how.split(':')[0]}"
    return ""


def shrink(case: Case, failure: Callable[[Case], str] = failure) -> Case:
    """The smallest case that fails, too: fewer outputs and steps, plainer options."""
    if not failure(case):
        return case
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in smaller_cases(case):
            try:
                fails = bool(failure(smaller))
            except Exception:  # a cut that is no model any more
                fails = False
            if fails:
                case, is_smaller = smaller, True
                break
    return case


def smaller_cases(case: Case) -> Iterator[Case]:
    """Cases with one part less, the largest cuts first."""
    model, rng = case.model, np.random.default_rng(case.seed)

    def of(changed: Model) -> Case:
        changed = changed.live()
        return replace(case, model=changed, inputs=inputs_of(changed, rng))

    made = [name for step in model.steps for name in step.outputs]
    if len(model.outputs) > 1:
        yield from (of(replace(model, outputs=(name,))) for name in model.outputs)
    for name in made[:-1]:  # end at an inner value
        if model.outputs != (name,):
            yield of(replace(model, outputs=(name,)))
    for position, step in enumerate(model.steps):  # begin at an inner value
        if len(model.steps) > 1:
            steps = model.steps[:position] + model.steps[position + 1 :]
            yield of(replace(model, steps=steps, inputs=(*model.inputs, *step.outputs)))
    plain = {
        "optimize": "balanced", "unfused": False, "io": "arena", "threads": 1, "no_asm": False,
    }  # fmt: skip
    for key, value in plain.items():
        if case.options[key] != value:
            yield replace(case, options={**case.options, key: value})
    if case.core != "host":
        yield replace(case, core="host")
    if case.percent < 100:
        yield replace(case, percent=100)


def say(tally: Tally, start: float) -> None:
    count = sum(tally.results.values()) + len(tally.findings)
    print(f"{count} models in {time.monotonic() - start:.0f} s: {dict(tally.results)}, "
          f"{len(tally.findings)} findings {sorted(tally.findings)[:20]}", flush=True)  # fmt: skip


def run(
    first: int, count: int, seconds: float, *, quiet: bool = False, kept: Path | None = None
) -> Tally:
    """Check `count` seeds from `first` on, for at most `seconds`.

    kept: a file of what was found so far, which is written each minute.
    """
    tally, start = Tally(), time.monotonic()
    said = start
    for at in range(first, first + count, BATCH):
        if time.monotonic() - start > seconds:
            break
        run_apart(range(at, min(at + BATCH, first + count)), tally)
        if kept is not None:
            keep(tally, at + BATCH, kept)
        if not quiet and time.monotonic() - said > 60:
            say(tally, start)
            said = time.monotonic()
    if not quiet:
        say(tally, start)
    return tally


def keep(tally: Tally, following: int, path: Path) -> None:
    """Write how far a run is, so that another goes on there: `next` is its first seed."""
    found = {
        "next": following, "results": tally.results, "findings": tally.findings,
        "refused": dict(tally.refused.most_common(60)), "operators": tally.kinds,
    }  # fmt: skip
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(found, indent=1), "utf-8")
    fresh.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, help="0, or where the run in --out has ended")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=Path("build/random_models"))
    parser.add_argument("--reproduce", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.reproduce is not None:
        small = shrink(case_of(args.reproduce))
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / f"seed{args.reproduce}.{small.model.format}"
        path.write_bytes(small.model.write())
        print(small.text(), failure(small), path, sep="\n")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    first = args.first
    if first is None:
        ends = [json.loads(path.read_text("utf-8"))["next"] for path in args.out.glob("*.json")]
        first = max(ends, default=0)
    kept = args.out / f"from_{first}.json"
    tally = run(first, args.count, args.seconds, kept=kept)
    for seed, why in sorted(tally.findings.items()):
        print(f"--- seed {seed}: {why}\n")
    for reason, count in tally.refused.most_common(40):
        print(f"{count:6} refused: {reason}")
    print(json.dumps(dict(tally.kinds.most_common())))
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random valid models against the frameworks: reference, passes and C, with a shrinker.

    python tests/fuzz/compare_models.py --seconds 3600 --out /tmp/findings
    python tests/fuzz/compare_models.py --reproduce 12345      # one seed again, made small

Each seed is a model, inputs and options of a compile. It is checked that

1. each node of the imported graph gives what the framework gives for the framework's own operands
   (`Operator.tolerance`; integers in every bit),
2. what the passes make of the graph gives the framework's outputs: in every bit where all operators
   are exact, near to them where they are floats and nothing decides on them,
3. the C on this computer gives the reference's bytes. One C compiler runs for a batch of models.

What edgec refuses with words is counted and is no finding.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
REPO_ROOT = HERE.parents[1]
for folder in (HERE, HERE.parent, REPO_ROOT):
    sys.path.insert(0, str(folder))

from random_models import Array, Model, random_array  # noqa: E402
from random_onnx import random_onnx  # noqa: E402
from random_tflite import random_tflite  # noqa: E402

from edgec.graph.operator import Fusion  # noqa: E402

#: Models that one C compiler gets.
BATCH = 16
#: Runs of each model with inputs of their own; those of a model with state are one sequence.
RUNS = 2
#: How far floats may be apart after many operators, as a part of the largest magnitude.
FAR = 1e-3
OPTIMIZE = ("balanced", "time", "ram", "size")
CORES = ("cortex-m0plus", "cortex-m4", "cortex-m7", "cortex-m55", "rv32imc")


class Wrong(AssertionError):
    """A model is computed otherwise than its framework says."""


@dataclass
class Case:
    """A seed's model and how it is compiled."""

    seed: int
    model: Model
    inputs: list[list[Array]]
    options: dict[str, Any]
    core: str | None = None
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


def case_of(seed: int) -> Case:
    """The case that a seed stands for, on every machine with the same frameworks."""
    rng = np.random.default_rng(seed)
    model = (random_tflite if seed % 2 else random_onnx)(rng)
    options: dict[str, Any] = {
        "optimize": str(rng.choice(OPTIMIZE)), "unfused": bool(rng.random() < 0.2),
        "io": "caller" if rng.random() < 0.3 else "arena",
    }  # fmt: skip
    core = str(rng.choice(CORES)) if rng.random() < 0.3 else None
    percent = int(rng.choice([100, 100, 80, 50]))
    return Case(seed, model, inputs_of(model, rng), options, core, percent)


def inputs_of(model: Model, rng: np.random.Generator) -> list[list[Array]]:
    """RUNS lists of arrays for the inputs of a model."""
    types = [model.tensors[name] for name in model.inputs]
    return [[random_array(rng, t.shape, t.dtype) for t in types] for _ in range(RUNS)]


# ---- 1 and 2: in Python ----


def prepare(case: Case, folder: Path, number: int) -> Ready:
    """Check a case in Python and write its C. Raises Wrong, or EdgecError if edgec refuses it."""
    from edgec.codegen.project import write_project
    from edgec.frontends import import_model
    from edgec.graph.interpret import Interpretation, in_use
    from edgec.graph.verify import verify_module
    from edgec.options import Options
    from edgec.oracle.frameworks import open_oracle
    from edgec.pipeline import compile_module
    from edgec.targets.core import find_core, host_core

    path = folder / f"m{number}.{case.model.format}"
    path.write_bytes(case.model.write())
    module = import_model(path)
    verify_module(module)
    oracle = open_oracle(path)
    answers = [oracle.run(inputs, tensors=True) for inputs in case.inputs]
    check_nodes(module.main, case.inputs, answers)
    options = Options(**case.options, model_name=f"m{number}")
    compiled = compile_module(module, host_core(), options)
    if case.percent < 100:
        compiled = compile_module(
            module, host_core(), options,
            arena_limit_bytes=compiled.program.arena_bytes * case.percent // 100,
        )  # fmt: skip
    reference = Interpretation(compiled.module.main)
    whole = [reference.run_whole(inputs) for inputs in case.inputs]
    outputs = [in_use(each, compiled.module.main.counts) for each in whole]
    if case.core is not None:
        other = compile_module(module, find_core(case.core), options)
        reference = Interpretation(other.module.main)
        again = [reference.run(inputs) for inputs in case.inputs]
        check_outputs(other.module.main, again, answers)
    check_outputs(compiled.module.main, outputs, answers)
    project = folder / f"p{number}"
    project.mkdir()
    manifest = write_project(compiled.program, project)
    return Ready(case, manifest, sorted(project.glob("*.c")), whole)


def check_nodes(function: Any, inputs: Sequence[Sequence[Array]], answers: Sequence[Any]) -> None:
    """Point 1: each node on the framework's operands, without what depends on state."""
    from edgec.graph.interpret import initial_state, interpret
    from edgec.graph.ir import Constant

    for arrays, answer in list(zip(inputs, answers, strict=True))[:1]:
        known = dict(zip(function.params, [*arrays, *initial_state(function)], strict=True))
        drift: dict[Any, float] = {}  # of floats that are our own so far
        sizes: dict[Any, float] = {}  # what errors of these are small beside
        for node in function.nodes:
            given = [v.data if isinstance(v, Constant) else known[v] for v in node.inputs]
            has_nan = any(x.dtype.kind == "f" and np.isnan(x).any() for x in given)
            with np.errstate(all="ignore"):
                found = node.evaluate(given, interpret)
            tolerance = 4 * node.op.tolerance_of(node.input_types)
            tolerance += max((drift.get(value, 0.0) for value in node.inputs), default=0.0)
            magnitude = max((float(np.max(np.abs(x[np.isfinite(x)]), initial=0)) for x in given
                             if x.dtype.kind == "f"), default=0.0)  # fmt: skip
            magnitude = max(magnitude, *(sizes.get(value, 0.0) for value in node.inputs), 0.0)
            magnitude = node.op.scale(node.attrs, *([magnitude] * len(given)))
            for value, array in zip(node.outputs, found, strict=True):
                known[value], drift[value], sizes[value] = array, tolerance, magnitude
                if array.shape != value.type.shape or array.dtype != value.type.dtype:
                    raise Wrong(f"{node.op.name} gave {array.dtype}{array.shape}, not {value.type}")
                want = _source(value, answer)
                if want is None or value.origin.permutation or want.size != array.size:
                    continue
                want = want.reshape(array.shape)
                if has_nan and node.op.fusion in UNORDERED:  # no framework says which
                    known[value] = want.astype(array.dtype)
                    continue
                compare(f"{node.op.name} {value.name}", want, array, tolerance, magnitude,
                        steps=_steps(value, answer, node))  # fmt: skip
                known[value] = want.astype(array.dtype)
                drift[value] = sizes[value] = 0.0


#: Of what operators are that order elements: a NaN has no place in it.
UNORDERED = (Fusion.REDUCTION, Fusion.OPAQUE)


def _source(value: Any, answer: Any) -> Array | None:
    if value.origin is None:
        return None
    found: Array | None = answer.tensors.get(value.origin.tensor)
    if value.origin.index is not None:
        found = answer.indexed.get(value.origin.index)
    return (found ^ 128).view(np.int8) if found is not None and value.origin.is_moved else found


def _steps(value: Any, answer: Any, node: Any) -> int:
    """Steps that a QuantizeLinear of floats may differ by: the runtime's floats are fused ones."""
    from edgec.graph.traits import Storage

    is_quantize = node.op.storage is Storage.QUANTIZE and value.origin.index is None
    return int(is_quantize)


def compare(
    what: str, want: Array, found: Array, tolerance: float, least: float = 0.0, steps: int = 0
) -> None:
    """Raise Wrong with the first element that differs by more than is allowed."""
    if (want.dtype, want.shape) != (found.dtype, found.shape):
        raise Wrong(f"{what}: {found.dtype}{list(found.shape)}, not {want.dtype}{list(want.shape)}")
    same = want == found
    if want.dtype.kind == "f":
        same |= np.isnan(want) & np.isnan(found)
        finite = np.abs(want[np.isfinite(want)])
        allowed = tolerance * max(float(np.max(finite, initial=0)), least, 1e-30)
        with np.errstate(invalid="ignore"):
            same |= np.abs(want.astype(np.float64) - found) <= allowed
    elif steps:
        same |= np.abs(want.astype(np.int64) - found) <= steps
    wrong = np.flatnonzero(~np.asarray(same).reshape(-1))
    if wrong.size:
        at = wrong[0]
        raise Wrong(
            f"{what}: {wrong.size} of {want.size} differ, first at {at}:"
            f" {found.reshape(-1)[at]} instead of {want.reshape(-1)[at]}"
        )


def check_outputs(
    function: Any, outputs: Sequence[Sequence[Array]], answers: Sequence[Any]
) -> None:
    """Point 2."""
    exact, near = _exactness(function)
    for found, answer in zip(outputs, answers, strict=True):
        values = function.outputs[: len(found)]  # how much is in use comes after
        for value, mine, want in zip(values, found, answer.outputs, strict=True):
            want = np.asarray(want)
            if value in exact:
                compare(f"output {value.name}", want, mine, 0.0)
            elif value in near and mine.dtype.kind == "f" and np.isfinite(want).all():
                compare(f"output {value.name}", want, mine, FAR, 1.0)


def _exactness(function: Any) -> tuple[set[Any], set[Any]]:
    """Values that are the framework's bits, and floats that nothing has decided on."""
    exact, near = set(function.params), set(function.params)
    exact |= set(function.constants())
    near |= set(function.constants())
    for node in function.nodes:
        is_exact = exact.issuperset(node.inputs) and not node.op.tolerance_of(node.input_types)
        if is_exact:
            exact.update(node.outputs)
        if is_exact or (near.issuperset(node.inputs) and node.op.name in SMOOTH):
            near.update(node.outputs)
    return exact, near


#: Operators that small differences of operands change little.
SMOOTH = {
    "add", "sub", "mul", "conv2d", "depthwise_conv2d", "dense", "max_pool2d", "avg_pool2d",
    "reduce", "relu", "clip", "tanh", "logistic", "softmax", "transpose", "reshape", "concat",
    "slice", "pad", "maximum_or_nan", "minimum_or_nan", "copy", "neg", "abs",
}  # fmt: skip


# ---- 3: in C ----


def run_batch(ready: Sequence[Ready], folder: Path) -> Iterator[tuple[Ready, str]]:
    """Build all models into one library and compare; yields those that differ, and how."""
    from edgec.runners.host import HostModel

    if not ready:
        return
    library = folder / "batch.so"
    sources = [str(path) for each in ready for path in each.sources]
    runtime = REPO_ROOT / "runtime_c" / "link"
    done = subprocess.run(
        ["gcc", "-std=c99", "-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-shared",
         "-fPIC", f"-I{runtime}", *sources, "-o", str(library)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        if len(ready) == 1:
            yield ready[0], done.stderr[-2000:]
        for each in ready if len(ready) > 1 else ():
            yield from run_batch([each], folder)
        return
    for each in ready:
        try:
            model = HostModel(library, each.manifest)
            for inputs, expected in zip(each.case.inputs, each.expected, strict=True):
                status, found, _ = model.run(inputs)
                if status:
                    raise Wrong(f"run gave ec_status {status}")
                for number, (want, raw) in enumerate(zip(expected, found, strict=True)):
                    mine = np.frombuffer(raw, want.dtype).reshape(want.shape)
                    if want.tobytes() != mine.tobytes():
                        compare(f"C output {number}", want, mine, 0.0)
        except Exception as error:  # all that is no result is a finding
            yield each, f"{type(error).__name__}: {error}"


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
        for each, how in run_batch(ready, folder):
            tally.findings[each.case.seed] = f"{how}\n{each.case.text()}"
        tally.results["compared"] += len(ready)


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


def failure(case: Case) -> str:
    """How a case fails, without numbers; "" if it does not."""
    tally = Tally()
    with _folder() as folder:
        try:
            ready = prepare(case, folder, 0)
        except BaseException as error:
            note(tally, 0, None, error)
            first = tally.findings.get(0, "")
            last = [line for line in first.splitlines() if line.strip()][-1:]
            return f"{type(error).__name__} {last[0].split(':')[0]}" if first else ""
        for _, how in run_batch([ready], folder):
            return f"C {how.split(':')[0]}"
    return ""


def shrink(case: Case) -> Case:
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
    plain = {"optimize": "balanced", "unfused": False, "io": "arena"}
    for key, value in plain.items():
        if case.options[key] != value:
            yield replace(case, options={**case.options, key: value})
    if case.core is not None:
        yield replace(case, core=None)
    if case.percent < 100:
        yield replace(case, percent=100)


def say(tally: Tally, start: float) -> None:
    count = sum(tally.results.values()) + len(tally.findings)
    print(f"{count} models in {time.monotonic() - start:.0f} s: {dict(tally.results)}, "
          f"{len(tally.findings)} findings {sorted(tally.findings)[:20]}", flush=True)  # fmt: skip


def run(first: int, count: int, seconds: float, *, quiet: bool = False) -> Tally:
    """Check `count` seeds from `first` on, for at most `seconds`."""
    tally, start = Tally(), time.monotonic()
    said = start
    for at in range(first, first + count, BATCH):
        if time.monotonic() - start > seconds:
            break
        run_seeds(range(at, min(at + BATCH, first + count)), tally)
        if not quiet and time.monotonic() - said > 60:
            say(tally, start)
            said = time.monotonic()
    if not quiet:
        say(tally, start)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path, default=Path("random_findings"))
    parser.add_argument("--reproduce", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.reproduce is not None:
        small = shrink(case_of(args.reproduce))
        args.out.mkdir(parents=True, exist_ok=True)
        path = args.out / f"seed{args.reproduce}.{small.model.format}"
        path.write_bytes(small.model.write())
        print(small.text(), failure(small), path, sep="\n")
        return 0
    tally = run(args.first, args.count, args.seconds)
    for seed, why in sorted(tally.findings.items()):
        print(f"--- seed {seed}: {why}\n")
    for reason, count in tally.refused.most_common(40):
        print(f"{count:6} refused: {reason}")
    print(json.dumps(dict(tally.kinds.most_common())))
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random graphs against ONNX Runtime and the reference, on this computer and for boards.

    python tests/fuzz/compare_graphs.py int8 1234        # one seed again, made small

The outputs of the reference are near to ONNX Runtime's; the C has the bytes of the reference, on
this computer and on simulated cores; and each graph compiles for a board, assembly included.
"""

from __future__ import annotations

import sys
from typing import Any

import compare_models
import numpy as np
from compare_models import Case, Tally
from graph_formats import QuantizedModel, graph_of_format
from graph_maker import DTYPES
from on_boards import on_board
from random_graphs import random_graph
from random_layers import BOARDS, LEVELS, SIMULATED
from random_models import Model

#: How far outputs may be from ONNX Runtime's, as a part of their root mean square. It computes
#: sigmoids, means and resizing of stored values in floats, and each may be a step beside ours.
FAR, FAR_STORED, STEP = 1e-4, 0.1, 0.06


def check_near(
    function: Any, outputs: Any, answers: Any, source: Model, *, is_litert: bool
) -> None:
    """Compare the outputs with the framework's. Raises Wrong."""
    is_stored = isinstance(source, QuantizedModel) or any(
        step.kind.endswith("QuantizeLinear") for step in source.steps
    )
    for found, answer in zip(outputs, answers, strict=True):
        for value, mine, want in zip(function.outputs, found, answer.outputs, strict=True):
            off, size = (
                float(np.sqrt(np.mean(np.square(np.asarray(x, np.float64)))))
                for x in (want.astype(np.float64) - mine, want)
            )
            step = 1.0 if mine.dtype.kind == "i" else STEP
            most = FAR_STORED * size + step if is_stored else FAR * max(size, 1e-3)
            if want.shape != mine.shape or not off <= most:
                raise compare_models.Wrong(f"output {value.name} is {off:.4g} off of {size:.4g}")


def case_of(seed: int, dtype: str) -> Case:
    """The graph of a seed, inputs, and how it is compiled."""
    model = random_graph(seed, dtype) if dtype in DTYPES else graph_of_format(seed, dtype)
    rng = np.random.default_rng((seed, 6))
    core = str(rng.choice(compare_models.CORES))
    options: dict[str, Any] = {
        "optimize": str(rng.choice(LEVELS)), "unfused": bool(rng.random() < 0.1), "threads": 1,
        "io": "caller" if rng.random() < 0.2 else "arena", "no_asm": core != "host",
    }  # fmt: skip
    percent = int(rng.choice([100, 100, 100, 80, 50]))
    return Case(seed, model, compare_models.inputs_of(model, rng), options, core, percent)


def run(seeds: range, dtype: str, *, run_every: int = 0) -> Tally:
    """Check seeds on this computer, for boards, and one in `run_every` on a simulated core."""
    tally = Tally()
    for first in range(seeds.start, seeds.stop, compare_models.BATCH):
        with compare_models._folder() as folder:
            ready: list[compare_models.Ready] = []
            for seed in range(first, min(first + compare_models.BATCH, seeds.stop)):
                case = case_of(seed, dtype)
                tally.kinds.update(step.kind for step in case.model.steps)
                try:
                    ready.append(compare_models.prepare(case, folder, seed, check_near))
                    on_board(case)
                    if run_every and seed % run_every == 0:
                        on_board(case, SIMULATED, runs=True)
                except Exception as error:
                    compare_models.note(tally, seed, case, error)
            compiler = compare_models.compiler_of(first // compare_models.BATCH + 1)
            for each, how in compare_models.run_batch(ready, folder, compiler):
                tally.findings[each.case.seed] = f"{how}\n{each.case.text()}"
            tally.results["compared"] += len(ready)
    return tally


def failure(case: Case) -> str:
    """How a case fails on this computer or on a board; "" if it does not."""
    found = compare_models.failure(case, check_near)
    if found:
        return found
    tally = Tally()
    for boards, runs in ((BOARDS, False), (SIMULATED, True)):
        try:
            on_board(case, boards, runs=runs)
        except Exception as error:
            compare_models.note(tally, 0, None, error)
    return tally.findings.get(0, "").strip()[-200:]


if __name__ == "__main__":
    small = compare_models.shrink(case_of(int(sys.argv[2]), sys.argv[1]), failure)
    print(small.text(), failure(small), sep="\n")

"""Measure the sample models for `docs/models.toml`, of which `make docs` makes `docs/models.md`.

    python tests/models/measure_models.py [FILE...]     all sample models, or these

Each model is measured in a process of its own, as a framework may crash on a file; what it
gives replaces the model's entry.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

REPO_ROOT = Path(__file__).resolve().parents[2]
TABLE = REPO_ROOT / "docs" / "models.toml"
sys.path.insert(0, str(REPO_ROOT / "tests"))

from measured_table import read_table, write_entry  # noqa: E402  tests are no package
from shared_folder import find_shared  # noqa: E402  tests are no package

from edgec.boards.board import Board, load_board  # noqa: E402
from edgec.deploy.project import Built, deploy  # noqa: E402
from edgec.errors import BuildFailed, EdgecError  # noqa: E402
from edgec.graph.ir import Function, Value  # noqa: E402
from edgec.memory.bound import live_bytes  # noqa: E402
from edgec.memory.greedy import greedy_peak_bytes  # noqa: E402
from edgec.memory.problem import Buffer  # noqa: E402
from edgec.options import Options  # noqa: E402
from edgec.oracle.frameworks import Oracle, open_oracle  # noqa: E402
from edgec.oracle.verify import verify_model  # noqa: E402
from edgec.pipeline import Compiled, compile_model  # noqa: E402
from edgec.runners.engine import open_session  # noqa: E402
from edgec.runners.samples import generate_inputs  # noqa: E402

#: A Cortex-M4 with 4 MB for code and constants and 4 MB of RAM.
BOARD = "mps2_an386"
#: A measurement takes this long at most.
LIMIT_S = 1800
CASES = 2
#: Of inputs that a file leaves open: sizes that the models' makers use.
SHAPES = {
    "ppocr_v2_cls.onnx": (("x", (1, 3, 48, 192)),),
    "ppocr_v3_det_dbnet.onnx": (("x", (1, 3, 96, 96)),),
    "ppocr_v3_rec_svtr.onnx": (("x", (1, 3, 48, 320)),),
    "silero_vad_half.onnx": (("input", (1, 512)), ("state", (2, 1, 128))),
    "silero_vad_op18_ifless.onnx": (("input", (1, 512)), ("state", (2, 1, 128))),
}
#: Of inputs that decide what a model does.
VALUES = {"silero_vad_op18_ifless.onnx": (("sr", 16000.0),)}


def options_of(name: str) -> Options:
    """What a sample file does not say itself."""
    return Options(input_shapes=SHAPES.get(name, ()), input_values=VALUES.get(name, ()))


def oracle_of(model: Path) -> Oracle:
    """The framework to compare with: TFLite Micro where it takes the file, else LiteRT."""
    if model.suffix == ".onnx":
        return open_oracle(model, "onnx", dict(VALUES.get(model.name, ())))
    try:
        return open_oracle(model, "tflm")
    except EdgecError:
        return open_oracle(model, "litert")


def source_buffers(function: Function) -> list[Buffer]:
    """The activations as TensorFlow Lite Micro sees them: every source tensor for itself.

    Accumulators and other values that the source does not have are left out.
    """
    # The nodes that stand for one source operator are one step.
    steps: list[int] = []
    for node, before in zip(function.nodes, (None, *function.nodes), strict=False):
        is_next = before is not None and node.sources != before.sources
        steps.append((steps[-1] if steps else 0) + is_next)
    starts = {
        v: step for step, node in zip(steps, function.nodes, strict=True) for v in node.outputs
    }
    stops: dict[Value, int] = {}
    for step, node in zip(steps, function.nodes, strict=True):
        for value in (*node.inputs, *node.outputs):
            stops[value] = step + 1
    stops |= {value: steps[-1] + 1 for value in function.results}
    data = set(function.params)
    for node in function.nodes:
        if not data.isdisjoint(node.inputs):  # not made of constants alone
            data.update(node.outputs)
    return [
        Buffer(value.name, value.type.nbytes, starts.get(value, 0), stops[value])
        for value in function.values()
        if value.origin is not None and value in stops and value in data
    ]


def measure(model: Path) -> dict[str, Any]:
    """The entry of one model. Raises EdgecError where it is not supported."""
    board = load_board(BOARD)
    options = replace(options_of(model.name), compiler="gcc")
    compiled = compile_model(model, board.core, options, board_name=board.name)
    oracle = oracle_of(model)
    buffers = source_buffers(compiled.imported.main)
    entry: dict[str, Any] = {
        "oracle": oracle.name,
        "macs": compiled.macs,
        "arena_bytes": compiled.program.arena_bytes,
        "greedy_bytes": greedy_peak_bytes(buffers),
        "live_bytes": live_bytes(buffers),
        "arena_lower_bound": compiled.program.arena_lower_bound,
        "proof": compiled.plan.certificate.region("arena").proof,
    }
    with tempfile.TemporaryDirectory(prefix="edgec_models_") as folder:
        entry |= run_on_board(compiled, board, Path(folder))
        entry |= compare_on_host(model, compiled, oracle, Path(folder))
    return entry


def cases_of(compiled: Compiled) -> list[list[np.ndarray]]:
    """Generated inputs; for a model with state they are the steps of one sequence."""
    types = [(v.type.shape, v.type.dtype) for v in compiled.module.main.inputs]
    return [list(generate_inputs(seed, types)) for seed in range(1, CASES + 1)]


def stack_bound(built: Built) -> int | None:
    """The bytes stated for `<model>_run`, which is what the simulated core calls."""
    assert built.image is not None
    name = f"{built.manifest.model}_run"
    return next((f.stack_bytes for f in built.image.functions if f.name == name), None)


def run_on_board(compiled: Compiled, board: Board, work: Path) -> dict[str, Any]:
    """Flash and instructions of one inference; nothing where the board is too small.

    The self-test says that the C there gives the bits of our reference.
    """
    try:
        built = deploy(compiled, board, work / "board")
    except BuildFailed:
        return {"runs_on": ["host"]}
    assert built.image is not None
    with open_session("core", built) as session:
        assert session.selftest() == 0
        if built.manifest.state_bytes:
            session.reset()
        result = session.run(cases_of(compiled)[0])
    figures = {
        "flash_bytes": built.image.flash_bytes,
        "instructions": result.instructions,
        "stack_bound_bytes": stack_bound(built),
        "stack_used_bytes": result.stack_bytes,
    }
    known = {key: value for key, value in figures.items() if value is not None}
    return {"runs_on": ["host", board.core.name], **known}


def compare_on_host(model: Path, compiled: Compiled, oracle: Oracle, work: Path) -> dict[str, Any]:
    """Every layer against the framework: how many elements differ, and outputs by how much.

    difference: the largest one of an output, as a part of the output's largest magnitude.
    """
    cases = cases_of(compiled)
    options = options_of(model.name)
    found = verify_model(
        model, load_board("host"), options, "host", cases, work / "host", layers=True,
        reference=oracle.name,
    )  # fmt: skip
    oracle.reset()
    expected = [oracle.run(case).outputs for case in cases]
    difference = 0.0
    for position, row in enumerate(found.outputs):
        largest = max(float(np.abs(run[position].astype(float)).max()) for run in expected)
        difference = max(difference, row.max_abs_diff / (largest or 1.0))
    return {
        "layers": len(found.layers),
        "elements": sum(row.elements for row in (*found.layers, *found.outputs)),
        "mismatches": found.mismatches,
        "difference": float(f"{difference:.2g}"),
    }


def measure_apart(model: Path) -> dict[str, Any]:
    """`measure` in a process of its own; an entry with `problem` where that fails."""
    command = [sys.executable, __file__, "--one", str(model)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"problem": f"more than {LIMIT_S} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it crashed"])[-1]
        return {"problem": last[:200]}
    entry: dict[str, Any] = json.loads(done.stdout)
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--one", action="store_true", help="print one entry as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        try:
            entry = measure(arguments.files[0])
        except EdgecError as error:
            entry = {"problem": " ".join((error.message, *error.details[:1]))[:200]}
        print(json.dumps(entry))
        return
    folder = find_shared() / "models"
    files = [folder / file.name for file in arguments.files] or sorted(
        file for file in folder.iterdir() if file.suffix in (".tflite", ".onnx")
    )
    for file in files:
        entry = measure_apart(file)
        names = sorted({*read_table(TABLE), file.name})
        write_entry(TABLE, Path(__file__).name, file.name, entry, names)
        print(file.name, entry, flush=True)


if __name__ == "__main__":
    main()

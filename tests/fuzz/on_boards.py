"""A random model on a board that its seed chooses: it compiles there, and a core runs it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from against_frameworks import Wrong, compare
from compare_models import Array, Case
from random_layers import BOARDS


def on_board(case: Case, boards: tuple[str, ...] = BOARDS, *, runs: bool = False) -> None:
    """Compile a case for a board that its seed chooses, assembly included; perhaps run it there.

    Raises Wrong if the simulated core gives other bytes than the reference; NaNs have any bits.
    """
    from edgec.boards.board import load_board
    from edgec.codegen.project import write_project
    from edgec.deploy.project import deploy
    from edgec.frontends import import_model
    from edgec.graph.interpret import Interpretation, in_use
    from edgec.options import Options
    from edgec.pipeline import compile_module
    from edgec.runners.engine import open_session

    name = str(np.random.default_rng((case.seed, 7)).choice(boards))
    board = load_board(name)
    changed = {"no_asm": False, "threads": 1}
    if case.options["io"] == "rows":
        changed["io"] = "arena"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m.{case.model.format}"
        path.write_bytes(case.model.write())
        options = Options(**{**case.options, **changed})
        built = compile_module(import_model(path), board.core, options, board=board,
                               board_name=name)  # fmt: skip
        if not runs:
            write_project(built.program, Path(folder))
            return
        project, main = deploy(built, board, Path(folder) / "p"), built.module.main
        reference = Interpretation(main)  # keeps the state of a model that has one
        with open_session("core", project) as session:
            for inputs in case.inputs:
                expected = in_use(reference.run_whole(inputs), main.counts)
                for want, found in zip(expected, session.run(inputs).outputs, strict=True):
                    same_bytes(name, want, found.reshape(want.shape))


def same_bytes(name: str, want: Array, found: Array) -> None:
    """Compare an output of a board. Raises Wrong."""
    compare(f"output on {name}", want, found, 0)
    if want.dtype.kind == "f":
        want, found = (np.where(np.isnan(x), np.zeros((), x.dtype), x) for x in (want, found))
    if want.tobytes() != found.tobytes():
        raise Wrong(f"{name}: the signs of zeros differ")

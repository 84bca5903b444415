"""Whatever is preferred, the bits stay; what is preferred gets no worse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from built_models import MODELS

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.options import Optimize, Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs


@pytest.mark.parametrize(
    ("name", "board_name"), [("kws", "mps2_an386"), ("ad", "mps2_an386"), ("ad", "mps2_an385")]
)
def test_every_preference(
    name: str, board_name: str, sample_model: Callable[[str], Path], tmp_path: Path
) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    model = sample_model(MODELS[name])
    board = load_board(board_name)
    oracle = open_oracle(model)
    figures: dict[str, Any] = {}
    for optimize in get_args(Optimize):
        compiled = compile_model(model, board.core, Options(optimize=optimize),
                                 board_name=board.name)  # fmt: skip
        built = deploy(compiled, board, tmp_path / optimize)
        types = [(port.shape, port.dtype) for port in built.manifest.inputs]
        with open_session("core", built) as session:
            for seed in (1, 2):
                inputs = generate_inputs(seed, types)
                result = session.run(inputs)
                want = oracle.run(inputs).outputs[0]
                assert result.outputs[0].tobytes() == want.tobytes(), optimize
        assert built.image is not None
        figures[optimize] = (
            result.instructions, compiled.program.arena_bytes, built.image.code_bytes
        )  # fmt: skip
    instructions, arena, code = (
        {optimize: figure[n] for optimize, figure in figures.items()} for n in range(3)
    )
    assert instructions["time"] == min(instructions.values()), figures
    assert instructions["balanced"] <= 1.03 * instructions["time"], figures
    assert arena["ram"] <= min(arena["time"], arena["balanced"]), figures
    assert code["size"] == min(code.values()), figures

"""Bytes of the arena that no live buffer covers may hold anything, at every step of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_models import DIGITS, MODELS, build

from edgec.pipeline import Compiled
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs


class PoisonedModel(HostModel):
    """Fills everything that is dead with noise before the run and after every step."""

    compiled: Compiled
    noise: np.random.Generator
    filled = 0

    def _trace(self, context: int, id_: int, data: int, row: int, size: int) -> None:
        super()._trace(context, id_, data, row, size)
        if id_ < len(self.compiled.groups) - 1:
            self.poison(id_)

    def poison(self, step: int) -> None:
        """After this step; -1 is before the first."""
        plan, problem = self.compiled.plan, self.compiled.problem
        dead = np.ones(self._arena.size, bool)
        for buffer in problem.buffers:
            if buffer.start <= step < buffer.stop - 1 or (step < 0 and buffer.start <= 0):
                start = plan.offsets[buffer.name]
                dead[start : start + buffer.size_bytes] = False
        self._arena.view[dead] = self.noise.integers(0, 256, int(dead.sum()), dtype=np.uint8)
        self.filled += int(dead.sum())


#: Branches that join, wide layers, a state; the others have fewer buffers at a time.
QUICK = ("digits", "ic", "ad", "sww")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] * (n not in QUICK)) for n in ("digits", *MODELS)],
)
def test_noise_in_dead_buffers_changes_nothing(
    name: str, sample_model: Callable[[str], Path]
) -> None:
    path = DIGITS if name == "digits" else sample_model(MODELS[name])
    compiled, built = build(path, "host", traced=True)
    library: Any = built.traced
    with_noise = PoisonedModel(library, built.manifest)
    with_noise.compiled, with_noise.noise = compiled, np.random.default_rng(3)
    with_noise.record_traces()
    params = compiled.module.main.params
    inputs = generate_inputs(1, [(p.type.shape, p.type.dtype) for p in params])
    expected = compiled.reference(inputs)
    with_noise.poison(-1)
    status, outputs, _ = with_noise.run([np.ascontiguousarray(a) for a in inputs])
    with_noise.close()
    assert status == 0 and with_noise.filled > 0
    assert outputs == [a.tobytes() for a in expected]

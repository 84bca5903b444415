"""Compile TOSA text with IREE and run it: an oracle of what the text means that is not ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from edgec.exporters.tosa.function import tosa_text
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Function

#: Pure scalar code: the same on every computer.
FLAGS = ("--iree-llvmcpu-target-cpu=generic",)


class TosaModule:
    """A text as a function of arrays."""

    def __init__(self, text: str) -> None:
        why = "IREE is not installed (edgec[packages])"
        compiler = pytest.importorskip("iree.compiler", reason=why)
        runtime = pytest.importorskip("iree.runtime", reason=why)
        code = compiler.compile_str(
            text, target_backends=["llvm-cpu"], input_type="tosa", extra_args=list(FLAGS)
        )
        self._context = runtime.SystemContext(config=runtime.Config("local-sync"))
        module = runtime.VmModule.copy_buffer(self._context.instance, code)
        self._context.add_vm_module(module)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        made: Any = self._context.modules.module["main"](*inputs)
        return [each.to_host() for each in (made if isinstance(made, (list, tuple)) else [made])]


def random_inputs(function: Function, rng: np.random.Generator, scale: float) -> list[np.ndarray]:
    return [
        (rng.normal(size=value.type.shape) * scale).astype(np.float32)
        if value.type.is_float
        else rng.integers(-128, 128, value.type.shape).astype(value.type.dtype)
        for value in function.params
    ]


def assert_tosa_is_the_same(
    function: Function, *, tolerance: float = 0.0, cases: int = 3, samples: Any = None
) -> None:
    """What IREE computes is what the interpreter does; floats up to a part of the largest one."""
    module, rng = TosaModule(tosa_text(function)), np.random.default_rng(0)
    given = samples or (random_inputs(function, rng, scale) for scale in (1.0, 20.0, 0.1)[:cases])
    for inputs in given:
        wanted, found = Interpretation(function).run(inputs), module.run(inputs)
        assert len(wanted) == len(found)
        for want, got in zip(wanted, found, strict=True):
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            if tolerance and want.dtype == np.float32:
                most = tolerance * max(float(np.abs(want).max(initial=0.0)), 1e-30)
                assert np.abs(want - got).max(initial=0.0) <= most
            else:
                np.testing.assert_array_equal(want, got)

"""Runs that go on while the program does something else: streams, events, waiting."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_models import GPU, emulated
from stateful_functions import module_of, read_late

from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module
from edgec.runners import gpu_emulation
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_steps

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.onnx"


class Asynchronous:
    """A model in emulation with a stream and an event of the application."""

    def __init__(self, compiled: Compiled, folder: Path) -> None:
        self.model: HostModel = emulated(compiled, folder)
        self.context = ctypes.c_void_p(self.model._context.address)
        self.library: Any = self.model._library
        self.driver: Any = ctypes.CDLL(str(next((folder / "built").glob("*emulation*"))))
        self.stream, self.event = ctypes.c_void_p(), ctypes.c_int(0)
        self.driver.cuStreamCreate(ctypes.byref(self.stream), 0)
        main = compiled.module.main
        self.reference = Interpretation(main)
        types = [(value.type.shape, value.type.dtype) for value in main.inputs]
        self.samples = [[np.asarray(x, order="C") for x in s] for s in generate_steps(3, types, 4)]
        self.output_bytes = main.outputs[0].type.nbytes

    def start(self, sample: list[np.ndarray], *, own: bool = False) -> int:
        """Run on arrays that are destroyed when the call has returned."""
        arrays = [array.copy() for array in sample]
        pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        stream, event = (None, None) if own else (self.stream, ctypes.byref(self.event))
        status: int = self.library.m_run_async(self.context, pointers, stream, event)
        for array in arrays:
            array[...] = 0
        return status

    def output(self) -> bytes:
        return ctypes.string_at(self.model._place("output", 0), self.output_bytes)

    def wait(self) -> int:
        status: int = self.library.m_wait(self.context)
        return status


def compiled(module: Module, **words: Any) -> Compiled:
    return compile_module(module, GPU, Options(model_name="m", **words))


def test_a_run_goes_on_after_the_call(tmp_path: Path) -> None:
    """In the application's stream, then in the model's own, then waited for by the next call."""
    each = Asynchronous(compiled(import_model(DIGITS)), tmp_path)
    expected = [each.reference.run_whole(sample)[0].tobytes() for sample in each.samples]
    assert each.start(each.samples[0]) == 0
    assert each.event.value == 0 and each.output() != expected[0]  # nothing has run
    assert each.driver.cuStreamSynchronize(each.stream) == 0  # as the application may wait
    assert each.event.value == 1 and each.output() == expected[0]
    assert each.wait() == 0
    assert each.start(each.samples[1], own=True) == 0
    assert each.output() != expected[1]
    assert each.wait() == 0 and each.output() == expected[1]
    assert each.start(each.samples[2]) == 0
    assert each.start(each.samples[3]) == 0  # waits for the one before
    assert each.event.value == 2
    pointers = (ctypes.c_void_p * 1)(each.samples[0][0].ctypes.data)
    assert each.library.m_run(each.context, pointers, None) == 0  # waits as well
    assert each.event.value == 3 and each.output() == expected[0]
    assert each.wait() == 0
    assert each.model.call("selftest") == 0
    assert each.start(each.samples[1]) == 0
    each.model.close()


@pytest.mark.full
def test_parts_and_states(tmp_path: Path) -> None:
    """The processor's part is done when the call returns; a reset waits."""
    module = module_of(read_late)
    names = tuple(node.name for node in module.main.nodes)
    each = Asynchronous(compiled(module, offload=names[:1]), tmp_path)
    for sample in each.samples:
        assert each.start(sample) == 0
        assert each.wait() == 0
        assert each.output() == each.reference.run_whole(sample)[0].tobytes()
    assert each.start(each.samples[0]) == 0
    assert each.model.call("reset") == 0
    each.reference.reset()
    assert each.start(each.samples[1]) == 0 and each.wait() == 0
    assert each.output() == each.reference.run_whole(each.samples[1])[0].tobytes()
    each.model.close()


@pytest.mark.full
def test_without_a_gpu_the_run_has_ended(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_emulation, "DRIVER", "/no/such/driver.so")
        each = Asynchronous(compiled(import_model(DIGITS), offload=("stem",)), tmp_path)
    for sample in each.samples:
        assert each.start(sample) == 0
        assert each.output() == each.reference.run_whole(sample)[0].tobytes()
        assert each.wait() == 0
    each.model.close()

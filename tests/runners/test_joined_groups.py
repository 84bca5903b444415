"""Groups of a GPU that are one kernel: how many are left, and the same bits in emulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gpu_models import check_on_gpu, for_gpu
from onnx_builder import OnnxBuilder
from stateful_functions import delay_line, in_place, module_of, read_late

from edgec.frontends import import_model
from edgec.options import Options
from edgec.passes import join_groups
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

Write = Callable[[Path], Path]
ROWS = (1, 6, 32)


def heads(folder: Path) -> Path:
    """Attention of two heads: transposes after views, a scale, a sum with the input, GELU."""
    b = OnnxBuilder(3, ROWS)

    def dense(value: str) -> str:
        weights = b.rng.normal(size=(32, 32)).astype(np.float32)
        return b.add("MatMul", [value, b.constant(weights, "w")])

    def split(value: str, order: list[int]) -> str:
        shape = b.constant(np.array([1, 6, 2, 16]), "shape")
        return b.add("Transpose", [b.add("Reshape", [value, shape])], perm=order)

    scores = b.add("MatMul", [split(dense("x"), [0, 2, 1, 3]), split(dense("x"), [0, 2, 3, 1])])
    scaled = b.add("Mul", [scores, b.constant(np.float32(0.25), "scale")])
    shares = b.add("Softmax", [scaled], axis=-1)
    mixed = b.add("MatMul", [shares, split(dense("x"), [0, 2, 1, 3])])
    joined = b.add("Transpose", [mixed], perm=[0, 2, 1, 3])
    flat = b.add("Reshape", [joined, b.constant(np.array(ROWS), "rows")])
    total = b.add("Add", [dense(flat), "x"])
    return b.save(b.add("Add", [b.add("Gelu", [dense(total)]), total]), folder / "m.onnx", 20)


def residual(folder: Path) -> Path:
    """Convolutions of int8 with a sum, and one of channels-first floats before and after."""
    b = OnnxBuilder(4, (1, 8, 6, 6))

    def conv(value: str) -> str:
        weights, bias, _ = b.weights((8, 8, 3, 3), 0.05)
        return b.qdq(b.add("Conv", [value, weights, bias], pads=[1, 1, 1, 1]), 0.1, 4)

    first = conv(b.qdq("x", 0.05, -3))
    total = b.qdq(b.add("Add", [conv(first), first]), 0.2, -5)
    return b.save(b.add("Relu", [total]), folder / "m.onnx")


#: Kernels' groups with and without joining.
COUNTS: dict[Write, tuple[int, int]] = {heads: (8, 16), residual: (3, 5)}


@pytest.mark.parametrize("write", COUNTS)
def test_maps_join_what_makes_or_reads_them(write: Write, tmp_path: Path) -> None:
    module, (joined, alone) = import_model(write(tmp_path)), COUNTS[write]
    unfused = Options(unfused=True)
    assert len(for_gpu(module).groups) == joined
    assert len(compile_module(module, find_core("host"), Options()).groups) == alone
    assert len(compile_module(module, find_core("cuda-sm_75"), unfused).groups) >= alone
    assert check_on_gpu(module, tmp_path, 1) > 0


@pytest.mark.parametrize("make", [in_place, read_late, delay_line])
def test_states_are_read_in_order(make: Callable[..., object], tmp_path: Path) -> None:
    assert check_on_gpu(module_of(make), tmp_path, 3) > 0  # type: ignore[arg-type]


def test_what_others_read_is_made(tmp_path: Path) -> None:
    """The sum is read twice, and stays a step of its own."""
    b = OnnxBuilder(5, (1, 4, 8))
    total = b.add("Add", ["x", b.constant(np.ones((1, 4, 8), np.float32), "one")])
    turned = b.add("Transpose", [total], perm=[0, 2, 1])
    module = import_model(b.save(b.add("MatMul", [total, turned]), tmp_path / "m.onnx"))
    assert [len(each.group.nodes) for each in for_gpu(module).groups] == [1, 2]
    assert check_on_gpu(module, tmp_path, 1) > 0


def test_a_slower_kernel_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = import_model(residual(tmp_path))
    monkeypatch.setattr(join_groups, "launched_us", lambda func, *_: float("inf"))
    assert len(for_gpu(module).groups) == COUNTS[residual][1]


def test_segments_of_the_processor_stay(tmp_path: Path) -> None:
    """A group on the GPU is not moved after one on the processor."""
    module = import_model(heads(tmp_path))
    names = [each.group.name for each in for_gpu(module).groups]
    options = Options(offload=(names[0],))
    found = compile_module(module, find_core("cuda-sm_75"), options)
    sides = [step.on_processor for step in found.program.general_steps]
    assert sides.count(False) >= 1 and sides.count(True) >= 10

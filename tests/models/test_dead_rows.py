"""Inside a step that streams, rows that were read for the last time may hold anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.deploy.project import deploy
from edgec.frontends import import_model
from edgec.memory.layout import scratch_name
from edgec.options import Options
from edgec.passes.stream_groups import WORK
from edgec.pipeline import Compiled, compile_module
from edgec.runners.host import HostModel
from edgec.runners.samples import generate_inputs


class Network:
    """Convolutions one after the other, int8, of one scale."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.model = TfliteBuilder()
        self.rng = np.random.default_rng(7)
        self.shape = shape
        self.x = self.last = self.tensor("x", shape)

    def tensor(self, name: str, shape: tuple[int, int, int]) -> int:
        return self.model.tensor(name, (1, *shape), "int8", scale=0.05, zero_point=-128)

    def window(self, name: str, channels: int, kernel: int, stride: int) -> None:
        """A convolution with padding, or with 0 channels a depthwise one."""
        height, width, depth = self.shape
        kind, options = ("CONV_2D", "Conv2D") if channels else ("DEPTHWISE_CONV_2D",
                                                                 "DepthwiseConv2D")  # fmt: skip
        outs = channels or depth
        taps = (channels, kernel, kernel, depth) if channels else (1, kernel, kernel, depth)
        data = self.rng.integers(-127, 128, taps).astype(np.int8)
        w = self.model.tensor(f"{name}.w", taps, "int8", scale=0.004, zero_point=0, data=data)
        bias = self.rng.integers(-500, 500, outs).astype("<i4")
        b = self.model.tensor(f"{name}.b", (outs,), "int32", scale=0.0002, data=bias)
        self.shape = (-(-height // stride), -(-width // stride), outs)
        y = self.tensor(name, self.shape)
        more = {} if channels else {"DepthMultiplier": 1}
        self.model.operator(
            kind, [self.last, w, b], [y], f"{options}Options", Padding=0, StrideW=stride,
            StrideH=stride, DilationWFactor=1, DilationHFactor=1, **more,
        )  # fmt: skip
        self.last = y

    def write(self, path: Path) -> Path:
        path.write_bytes(self.model.build([self.x], [self.last]))
        return path


def odd(folder: Path) -> Path:
    """Odd heights and widths, both strides."""
    net = Network((21, 11, 3))
    for name, channels, kernel, stride in (
        ("a", 12, 3, 1), ("b", 0, 3, 2), ("c", 5, 1, 1), ("d", 0, 3, 2), ("e", 7, 1, 1),
    ):  # fmt: skip
        net.window(name, channels, kernel, stride)
    return net.write(folder / "odd.tflite")


def long(folder: Path) -> Path:
    """A window of five rows over a high, narrow image."""
    net = Network((40, 3, 4))
    for name, channels, kernel, stride in (("a", 12, 5, 1), ("b", 6, 3, 2), ("c", 0, 3, 1)):
        net.window(name, channels, kernel, stride)
    return net.write(folder / "long.tflite")


class PoisonedRows(HostModel):
    """Fills, after each row of the first member of a segment, what is dead by then with noise.

    Dead are: everything that no buffer of the step covers; the members' own scratch; and the rows
    of the input that no later row reads, as far as nothing else lies there. `extra` rows more are
    filled, to show that this is noticed.
    """

    compiled: Compiled
    noise: np.random.Generator
    extra = 0
    filled_outside = filled_rows = 0

    def _trace(self, context: int, id_: int, data: int, row: int, size: int) -> None:
        super()._trace(context, id_, data, row, size)
        for step, group in enumerate(self.compiled.groups):
            rows = self.compiled.chosen[step].rows
            ids = [t.id for t in self._manifest.traces if rows and t.value == rows[0].name]
            if id_ in ids:
                self.poison(step, group.group.nodes[0], row)

    def poison(self, step: int, first: Any, row: int) -> None:
        plan, problem = self.compiled.plan, self.compiled.problem
        window = first.op.row_window(first.attrs, first.input_types)
        x = first.inputs[0]
        work = scratch_name(step, WORK)
        live = np.zeros(self._arena.size, bool)
        for buffer in problem.buffers:
            if buffer.name not in (work, x.name) and buffer.start <= step < buffer.stop:
                start = plan.offsets[buffer.name]
                live[start : start + buffer.size_bytes] = True
        at, row_bytes = plan.offsets[x.name], x.type.nbytes // x.type.shape[1]
        stays = next(b.stop > step + 1 for b in problem.buffers if b.name == x.name)
        done = 0 if stays else max(0, (row + 1) * window.stride - window.top) + self.extra
        done = min(done, x.type.shape[1])
        live[at + done * row_bytes : at + x.type.nbytes] = True
        self.filled_rows += int((~live[at : at + done * row_bytes]).sum())
        self.filled_outside += int((~live).sum())
        self._arena.view[~live] = self.noise.integers(0, 256, int((~live).sum()), dtype=np.uint8)


def run(compiled: Compiled, project: Any, extra: int) -> tuple[bool, PoisonedRows]:
    """Whether the output equals the reference's."""
    model = PoisonedRows(project.traced, project.manifest)
    model.compiled, model.noise, model.extra = compiled, np.random.default_rng(3), extra
    model.record_traces()
    x = compiled.module.main.params[0].type
    inputs = generate_inputs(1, [(x.shape, x.dtype)])
    (expected,) = compiled.reference(inputs)
    status, outputs, _ = model.run([np.ascontiguousarray(a) for a in inputs])
    model.close()
    assert status == 0
    return outputs == [expected.tobytes()], model


@pytest.mark.parametrize("make", [odd, long])
def test_noise_in_dead_rows_changes_nothing(make: Any, tmp_path: Path) -> None:
    board = load_board("host")
    # Behind the fastest point, for the smallest arena that there is.
    options = Options(optimize="ram")
    module = import_model(make(tmp_path))
    front = compile_module(module, board.core, options, board_name="host").choice.front
    compiled = compile_module(
        module, board.core, options, board_name="host", arena_limit_bytes=front[-1].need_bytes
    )
    assert any(variant.rows for variant in compiled.chosen)
    project = deploy(compiled, board, tmp_path / "p", traced=True)
    right, model = run(compiled, project, 0)
    assert right and model.filled_rows > 0 and model.filled_outside > 0
    right, _ = run(compiled, project, 2)
    assert not right

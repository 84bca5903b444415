"""SignalDelay, SignalFramer and SignalOverlapAdd, run after run, in the bits of TFLite Micro."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sanitized import build_sanitized, run_sanitized, same, write_sources
from tflite_builder import TfliteBuilder
from tflite_cases import Case, In, Out, check, check_by_c, model_of

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import Interpretation
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

INT16, FLOAT32 = 7, 0  # the schema's TensorType


def signals() -> list[Case]:
    made = []
    for shape, delay in (((12,), 5), ((2, 8), 20), ((6,), 0)):
        fields = {"delay_length": delay}
        made.append(
            Case("CUSTOM:SignalDelay", [In(shape, "int16")], [Out(shape, "int16")], "", fields)
        )
    for size, step, count in ((6, 4, 8), (5, 2, 2)):
        fields = {"frame_size": size, "frame_step": step, "prefill": True}
        outs = [Out((count // step, size), "int16"), Out((), "bool")]
        made.append(Case("CUSTOM:SignalFramer", [In((count,), "int16")], outs, "", fields))
    for dtype, number in (("int16", INT16), ("float32", FLOAT32)):
        fields = {"T": number, "frame_step": 3}
        made.append(Case("CUSTOM:SignalOverlapAdd", [In((2, 3, 5), dtype)], [Out((2, 9), dtype)],
                         "", fields))  # fmt: skip
        made.append(Case("CUSTOM:SignalOverlapAdd", [In((1, 5), dtype)], [Out((3,), dtype)], "",
                         fields))  # fmt: skip
    return made


MICRO, CASES = signals(), []


def test_as_tflite_micro(tmp_path: Path) -> None:
    check(MICRO, "tflm", tmp_path)


def test_by_c(tmp_path: Path) -> None:
    check_by_c(MICRO, "tflm", tmp_path)


def test_frames_without_a_beginning_are_refused(tmp_path: Path) -> None:
    fields = {"frame_size": 4, "frame_step": 2, "prefill": False}
    case = Case("CUSTOM:SignalFramer", [In((4,), "int16")],
                [Out((2, 4), "int16"), Out((), "bool")], "", fields)  # fmt: skip
    (tmp_path / "m.tflite").write_bytes(model_of([case]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert "without prefill" in failure.value.details[0]


@pytest.mark.parametrize(
    ("channels", "left", "right", "step"), [(4, 2, 1, 1), (3, 0, 0, 1), (5, 1, 2, 3), (2, 3, 0, 2)]
)
def test_stacker(channels: int, left: int, right: int, step: int, tmp_path: Path) -> None:
    """Run after run; what is not valid is undefined."""
    fields = {"num_channels": channels, "stacker_left_context": left,
              "stacker_right_context": right, "stacker_step": step}  # fmt: skip
    outs = [Out((channels * (left + right + 1),), "int16"), Out((), "bool")]
    case = Case("CUSTOM:SignalStacker", [In((channels,), "int16")], outs, "", fields)
    valid = 0
    for (theirs, flag), (mine, own_flag) in _runs(case, 8, tmp_path):
        assert flag == own_flag
        valid += bool(flag)
        assert not flag or (mine == theirs).all()
    assert valid


@pytest.mark.parametrize("slots", [1, 3])
def test_circular_buffer(slots: int, tmp_path: Path) -> None:
    """TFLite Micro leaves the slots undefined at first; here they are 0."""
    quant = {"scale": 0.1, "zero_point": 3}
    case = Case("CUSTOM:CIRCULAR_BUFFER", [In((1, 1, 2, 4), "int8", **quant)],
                [Out((1, slots, 2, 4), "int8", **quant)], "", {"cycles_max": 1})  # fmt: skip
    for number, ((theirs,), (mine,)) in enumerate(_runs(case, 5, tmp_path)):
        known = slots - min(number + 1, slots)
        assert (mine[:, known:] == theirs[:, known:]).all()
        assert not mine[:, :known].any()


def _runs(case: Case, count: int, folder: Path) -> Iterator[tuple[Any, Any]]:
    """The outputs of TFLite Micro and of the interpretation, in a row."""
    path, random = folder / "m.tflite", np.random.default_rng(1)
    path.write_bytes(model_of([case]))
    theirs, mine = open_oracle(path, "tflm"), Interpretation(import_model(path).main)
    for _ in range(count):
        inputs = [x.sample(random) for x in case.inputs]
        yield theirs.run(inputs).outputs, mine.run(inputs)


def test_stacker_by_c(tmp_path: Path) -> None:
    fields = {"num_channels": 4, "stacker_left_context": 2, "stacker_right_context": 1,
              "stacker_step": 1}  # fmt: skip
    outs = [Out((16,), "int16"), Out((), "bool")]
    quant = {"scale": 0.1, "zero_point": 3}
    check_by_c([
        Case("CUSTOM:SignalStacker", [In((4,), "int16")], outs, "", fields),
        Case("CUSTOM:CIRCULAR_BUFFER", [In((1, 1, 2, 4), "int8", **quant)],
             [Out((1, 3, 2, 4), "int8", **quant)], "", {"cycles_max": 1}),
    ], "tflm", tmp_path)  # fmt: skip


def pausing(first: dict[str, int], second: dict[str, int]) -> bytes:
    """Two buffers, of which the second takes what the first holds; both are results, in floats."""
    model, quant = TfliteBuilder(), {"scale": 0.1, "zero_point": 3}
    x = model.tensor("x", (1, 1, 1, 2), "int8", **quant)
    shape = model.tensor("shape", (4,), "int32", data=np.array([1, 1, 1, 6], np.int32))
    outs = []
    for name, fields, slots, width in (("a", first, 3, 2), ("b", second, 2, 6)):
        if outs:
            line = model.tensor("line", (1, 1, 1, 6), "int8", **quant)
            model.operator("RESHAPE", [held, shape], [line])  # noqa: F821
        held = model.tensor(name, (1, slots, 1, width), "int8", **quant)
        outs.append(model.tensor(f"{name}y", (1, slots, 1, width), "float32"))
        model.operator("CUSTOM:CIRCULAR_BUFFER", [line if outs[1:] else x], [held], **fields)
        model.operator("DEQUANTIZE", [held], outs[-1:])
    return model.build([x], outs)


@pytest.mark.parametrize(
    ("first", "second", "known"), [(2, 3, 6), (1, 2, 4), (3, 1, 6), (0, 2, 8)], ids=str
)
def test_a_buffer_ends_runs(first: int, second: int, known: int, tmp_path: Path) -> None:
    """Results of a run that ends early are the last ones; `known` runs fill all slots."""
    path, random = tmp_path / "m.tflite", np.random.default_rng(1)
    path.write_bytes(pausing({"cycles_max": first} if first else {}, {"cycles_max": second}))
    theirs, module = open_oracle(path, "tflm"), import_model(path)
    mine = Interpretation(module.main)
    inputs = [(random.integers(-128, 128, (1, 1, 1, 2)).astype(np.int8),) for _ in range(20)]
    for number, arrays in enumerate(inputs):
        wanted, found = theirs.run(list(arrays)).outputs, mine.run(arrays)
        for y, own in zip(wanted, found, strict=True):
            assert number < known or (y == own).all()
    compiled = compile_module(module, find_core("host"), Options())
    manifest = write_sources(compiled, tmp_path / "project")
    program, again = build_sanitized(tmp_path / "project", manifest), Interpretation(module.main)
    for arrays, outputs in zip(inputs, run_sanitized(program, manifest, inputs), strict=True):
        for y, own in zip(outputs, again.run(arrays), strict=True):
            assert same(y, own.reshape(y.shape))


def test_a_buffer_that_is_counted_is_refused(tmp_path: Path) -> None:
    """TFLite Micro gives the fifth buffer of this shape another meaning."""
    case = Case("CUSTOM:CIRCULAR_BUFFER", [In((1, 1, 2, 96), "int8")], [Out((1, 3, 2, 96), "int8")])
    (tmp_path / "m.tflite").write_bytes(model_of([case]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert "without a cycles_max" in failure.value.details[0]

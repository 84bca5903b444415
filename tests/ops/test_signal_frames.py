"""SignalDelay, SignalFramer and SignalOverlapAdd, run after run, in the bits of TFLite Micro."""

from __future__ import annotations

from pathlib import Path

import pytest
from tflite_cases import Case, In, Out, check, check_by_c, model_of

from edgec.errors import ImportFailed
from edgec.frontends import import_model

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

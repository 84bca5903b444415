"""How far int8 models agree with float ones: what the table says, and measured again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measure_agreement import CASES, TABLE, faces, overlap
from measured_table import read_table

#: Decibels by which a measurement may differ from the table's, which another machine wrote.
TOLERANCE_DB = 3.0


def test_the_table_is_of_all_cases() -> None:
    table = read_table(TABLE)
    assert set(table) == set(CASES)
    found = table["ultraface_rfb320"]
    assert found["faces_found"] >= 0.89 * found["faces"] and found["faces_more"] <= 1
    assert found["scores_db"] > 51.0 and found["boxes_db"] > 47.0
    assert table["dtln, int16 values"]["waveform_db"] > 30.0
    text = table["ppocr_v3_rec_svtr, int16 values"]
    assert text["texts"] >= 0.98 * text["samples"]  # else there is little to agree on
    assert text["texts_same"] >= 0.95 * text["samples"]
    assert text["characters_off"] <= 0.01 * text["characters"]
    faces_found = table["ultraface_rfb320, mixed values for 45 dB"]["faces_found"]
    assert faces_found > found["faces_found"]
    mixed_text = table["ppocr_v3_rec_svtr, mixed values"]
    assert mixed_text["texts_same"] >= 0.9 * mixed_text["samples"]
    assert table["dtln, mixed values"]["waveform_db"] > 25.0
    mixes = [entry for entry in table.values() if "int16_layers" in entry]
    assert len(mixes) > 1
    for entry in mixes:  # what int16 everywhere would take
        assert entry["values_bytes"] < 2 * entry["int8_values_bytes"]
    for name, least in (("silero_vad, mixed values", 0.97),
                        ("silero_vad, spectrum in float", 0.95),
                        ("silero_vad, spectrum in float, int16 values", 0.99)):  # fmt: skip
        voice = table[name]
        assert voice["decisions_same"] >= least * voice["samples"]


@pytest.mark.full
def test_a_waveform_measured_again(shared_dir: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    name = "dtln, int16 values"
    case = CASES[name]
    found = case.measure(case.files, case.activations)
    assert found["waveform_db"] > read_table(TABLE)[name]["waveform_db"] - TOLERANCE_DB


def test_faces_are_counted_once() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [4, 4, 5, 5]], np.float32)
    scores = np.array([[0.1, 0.9], [0.05, 0.95], [0.2, 0.8], [0.6, 0.4]], np.float32)
    assert [box.tolist() for box in faces(scores, boxes)] == [boxes[1].tolist(), boxes[2].tolist()]
    assert overlap(boxes[0], boxes[1]) == pytest.approx(0.9)
    assert overlap(boxes[0], boxes[2]) == 0.0

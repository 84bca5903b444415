"""TFLite_Detection_PostProcess in the bits of TFLite Micro."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_builder import TfliteBuilder

import edgec
from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle

BOXES, CLASSES, MOST = 24, 3, 6
OPTIONS: dict[str, Any] = {
    "max_detections": MOST, "max_classes_per_detection": 1, "detections_per_class": 4,
    "use_regular_nms": False, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4,
    "num_classes": CLASSES, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def model(path: Path, background: int = 1, **options: Any) -> Path:
    rng = np.random.default_rng(5)
    anchors = np.concatenate(
        [rng.uniform(0.2, 0.8, (BOXES, 2)), rng.uniform(0.2, 0.5, (BOXES, 2))], axis=1
    ).astype(np.float32)
    made = TfliteBuilder()
    inputs = [made.tensor("boxes", (1, BOXES, 4), "float32"),
              made.tensor("scores", (1, BOXES, CLASSES + background), "float32")]  # fmt: skip
    fixed = made.tensor("anchors", anchors.shape, "float32", data=anchors)
    shapes = {"found": (1, MOST, 4), "classes": (1, MOST), "best": (1, MOST), "number": (1,)}
    outputs = [made.tensor(name, shape, "float32") for name, shape in shapes.items()]
    made.operator("CUSTOM:TFLite_Detection_PostProcess", [*inputs, fixed], outputs,
                  custom_options=bytes(flexbuffers.Dumps({**OPTIONS, **options})))  # fmt: skip
    path.write_bytes(made.build(inputs, outputs))
    return path


def samples(count: int, background: int = 1) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(7)
    return [
        [rng.normal(0, 2, (1, BOXES, 4)).astype(np.float32),
         rng.integers(0, 20, (1, BOXES, CLASSES + background)).astype(np.float32) / 20]
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("background", "options"), [
    (1, {}), (0, {"use_regular_nms": True}), (1, {"use_regular_nms": True}),
    (0, {"nms_score_threshold": 0.94}),
])  # fmt: skip
def test_as_tflite_micro(background: int, options: dict[str, Any], tmp_path: Path) -> None:
    path = model(tmp_path / "m.tflite", background, **options)
    main, oracle = import_model(path).main, open_oracle(path, "tflm")
    for sample in samples(12, background):
        mine, theirs = interpret(main, sample), oracle.run(sample).outputs
        number = int(theirs[3][0])
        assert mine[3][0] == number and 0 < number <= MOST
        for found, wanted in zip(mine[:3], theirs[:3], strict=True):
            np.testing.assert_array_equal(found[0, :number], wanted[0, :number])
            assert not found[0, number:].any()


def test_by_c(tmp_path: Path) -> None:
    for options in ({}, {"use_regular_nms": True}):
        path = model(tmp_path / "m.tflite", **options)
        main = import_model(path).main
        with edgec.compile(path, board="host", float_sums="ordered") as built:
            for sample in samples(3):
                for found, wanted in zip(built.run(*sample), interpret(main, sample), strict=True):
                    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("options", [
    {"max_classes_per_detection": 2}, {"num_classes": 7}, {"nms_iou_threshold": 0.0},
    {"use_regular_nms": True, "detections_per_class": 0}, {"max_detections": 0},
])  # fmt: skip
def test_what_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="not supported"):
        import_model(model(tmp_path / "m.tflite", **options))

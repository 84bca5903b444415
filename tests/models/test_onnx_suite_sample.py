"""A sample of ONNX's official suite by C on this computer; the whole is `test_onnx_suite.py`."""

from __future__ import annotations

from onnx.backend.test.loader import load_model_tests
from onnx_suite import KINDS, MODEL_CASES, MODEL_REASONS, listed, reasons, sample, test_classes

globals().update(test_classes(sample(), __name__))
del test_classes


def test_every_model_is_listed_or_has_a_reason() -> None:
    names = sorted(case.name for kind in KINDS for case in load_model_tests(kind=kind))
    assert names == sorted([*listed(MODEL_CASES), *reasons(MODEL_REASONS)])

"""A sample of ONNX's official suite by C on this computer; the whole is `test_onnx_suite.py`."""

from __future__ import annotations

import pytest
from onnx.backend.test.loader import load_model_tests
from onnx_suite import KINDS, MODEL_CASES, MODEL_REASONS, backend_test, listed, reasons, sample


@pytest.mark.parametrize("name", sorted(sample()))
def test_case(name: str) -> None:
    """The suite is made here, not where tests are collected: that takes each worker 9 seconds."""
    (case,) = (c for c in backend_test().test_cases.values() if hasattr(c, f"{name}_cpu"))
    case(f"{name}_cpu").debug()


def test_every_model_is_listed_or_has_a_reason() -> None:
    names = sorted(case.name for kind in KINDS for case in load_model_tests(kind=kind))
    assert names == sorted([*listed(MODEL_CASES), *reasons(MODEL_REASONS)])

"""The dtypes of TFLite's operators: what a framework takes, edgec takes, or there is a reason."""

from __future__ import annotations

import pytest
from tflite_dtypes import without_reason


def test_dtypes_of_some_operators() -> None:
    assert not without_reason("LOGISTIC", "PRELU")


@pytest.mark.full
def test_dtypes_of_all_operators() -> None:
    assert not without_reason()

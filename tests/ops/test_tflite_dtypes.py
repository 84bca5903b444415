"""The dtypes of TFLite's operators: what a framework takes, edgec takes, or there is a reason."""

from __future__ import annotations

import pytest
from tflite_dtypes import faults


def test_dtypes_of_some_operators() -> None:
    assert not faults("LOGISTIC", "PRELU")


@pytest.mark.full
def test_dtypes_of_all_operators() -> None:
    assert not faults()

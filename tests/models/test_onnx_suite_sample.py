"""A sample of ONNX's official suite by C on this computer; the whole is `test_onnx_suite.py`."""

from __future__ import annotations

from onnx_suite import sample, test_classes

globals().update(test_classes(sample(), __name__))
del test_classes

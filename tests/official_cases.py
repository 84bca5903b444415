"""ONNX's official node cases as C: built with sanitizers, compared with the reference."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.numpy_helper import to_array
from sanitized import check_sanitized

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.ir import Module
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import find_core


@cache
def official_cases() -> tuple[Any, ...]:
    """Every official case: its name, model, data and tolerances."""
    import warnings

    with warnings.catch_warnings(action="ignore"):
        from onnx.backend.test.case.node import collect_testcases

        return tuple(sorted(collect_testcases(None), key=lambda case: str(case.name)))


def as_array(value: Any) -> Any:
    """An array of a data set, which some types are stored for as messages."""
    return to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def specialized(path: Path, given: dict[str, Any]) -> tuple[Any, set[str]]:
    """The function of a model for inputs of these shapes, and the names of those that it fixes.

    An input is a constant where its numbers decide on shapes: axes, sizes, pads.
    """
    shapes = {name: array.shape for name, array in given.items()}
    fixed: set[str] = set()
    while True:
        try:
            values = {name: given[name] for name in fixed}
            return import_model(path, shapes=shapes, values=values).main, fixed
        except ImportFailed as error:
            if not set(error.inputs) - fixed:
                raise
            fixed |= set(error.inputs)


def check_official_c(name: str, folder: Path) -> None:
    """Assert that a case's C has the reference's bits, for inputs at extremes and of any order."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (case,) = (case for case in official_cases() if case.name == name)
    path = folder / "official.onnx"
    path.write_bytes(case.model.SerializeToString())
    names = [entry.name for entry in case.model.graph.input]
    arrays = [as_array(value) for value in case.data_sets[0][0]]
    main, _ = specialized(path, dict(zip(names, arrays, strict=False)))
    module = Module({"main": main}, source="official.onnx", format="onnx")
    assert check_sanitized(compile_module(module, find_core("host"), Options()), folder) > 0

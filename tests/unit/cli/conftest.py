"""The command line in this process, and small models for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"


@dataclass(frozen=True)
class Ran:
    """What a command gave: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        value = json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
        assert isinstance(value, dict)
        return value


@pytest.fixture
def edgec(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """A function that runs `edgec` with arguments and returns what it gave."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return Ran(stop.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(edgec: Callable[..., Ran]) -> Callable[..., str]:
    """Like `edgec`, for a command that must fail with status 1 and one clear error."""

    def run(*arguments: object) -> str:
        ran = edgec(*arguments)
        assert ran.status == 1, ran
        assert ran.out == "", "an error prints nothing on standard output"
        assert ran.err.startswith("error: ")
        assert ran.err.count("error: ") == 1 and "Traceback" not in ran.err
        return ran.err

    return run


def add_dense(model: TfliteBuilder, x: int, name: str, rows: int, columns: int) -> int:
    """y = x W + b in int8; returns the number of y."""
    rng = np.random.default_rng(rows)
    weights = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
    w = model.tensor(f"{name}_w", (rows, columns), "int8", scale=0.01, data=weights)
    b = model.tensor(f"{name}_b", (rows,), "int32", scale=0.0005, data=np.arange(rows, dtype="<i4"))
    y = model.tensor(name, (1, rows), "int8", scale=0.1, zero_point=-3)
    model.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    return y


@pytest.fixture(scope="session")
def dense_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x int8[1,8] -> dense "hidden" -> dense "y" int8[1,4]."""
    model = TfliteBuilder()
    x = model.tensor("x", (1, 8), "int8", scale=0.05, zero_point=3)
    y = add_dense(model, add_dense(model, x, "hidden", 16, 8), "y", 4, 16)
    path = tmp_path_factory.mktemp("models") / "dense.tflite"
    path.write_bytes(model.build([x], [y]))
    return path


@pytest.fixture(scope="session")
def add_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a + b = sum, int8[1,2,3] each: two inputs."""
    model = TfliteBuilder()
    a, b = (model.tensor(n, (1, 2, 3), "int8", scale=0.1, zero_point=0) for n in ("a", "b"))
    total = model.tensor("sum", (1, 2, 3), "int8", scale=0.2, zero_point=1)
    model.operator("ADD", [a, b], [total], "AddOptions")
    path = tmp_path_factory.mktemp("models") / "add.tflite"
    path.write_bytes(model.build([a, b], [total]))
    return path


@pytest.fixture
def unsupported_model(tmp_path: Path) -> Path:
    """Two operators that no importer knows, "first" and "second", around one that is known."""
    model = TfliteBuilder()
    tensors = [
        model.tensor(name, (1, 8), "int8", scale=0.1, zero_point=0)
        for name in ("x", "first", "middle", "second")
    ]
    model.operator("CUSTOM:Mystery", tensors[:1], tensors[1:2])
    model.operator("RESHAPE", tensors[1:2], tensors[2:3])
    model.operator("CUMSUM", tensors[2:3], tensors[3:])
    path = tmp_path / "strange.tflite"
    path.write_bytes(model.build(tensors[:1], tensors[3:]))
    return path


@pytest.fixture(scope="session")
def example() -> Path:
    """The shipped example's model, ONNX."""
    return EXAMPLE


def contents(folder: Path) -> set[str]:
    """Names of all that is in a folder, hidden files too."""
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; temporary folders are made in `tmp` beside it."""
    folder, temporary = tmp_path / "work", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return folder

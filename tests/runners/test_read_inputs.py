"""Inputs and samples from files: by name, in the model's dtype and shape, or one clear error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgec.cli.samples import load_cases
from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.graph.types import TensorType
from edgec.runners.inputs import fit_input, load_arrays, read_steps


@dataclass(frozen=True)
class Port:
    name: str
    dtype: str = "int8"
    shape: tuple[int, ...] = (1, 2, 3)
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()


A, B = Port("a"), Port("b")
ONE, TWO = np.ones((1, 2, 3), np.int8), np.full((1, 2, 3), 2, np.int8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("one.npy", ONE)
    np.save("two.npy", TWO)
    np.savez("both.npz", a=ONE, b=TWO, labels=np.zeros(7))
    np.savez("only.npz", z=TWO)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "ports", "first"),
    [
        (["one.npy"], [A], [1]),
        (["a=one.npy"], [A], [1]),
        (["one.npy", "two.npy"], [A, B], [1, 2]),
        (["b=one.npy", "two.npy"], [A, B], [2, 1]),
        (["both.npz"], [A, B], [1, 2]),
        (["both.npz"], [B], [2]),
        (["only.npz"], [A], [2]),
        (["a=only.npz", "b=both.npz"], [A, B], [2, 2]),
    ],
)
def test_words_that_name_inputs(words: list[str], ports: list[Port], first: list[int]) -> None:
    found = read_steps(words, ports, 1)[0]
    assert [array.flat[0] for array in found] == first
    assert all(array.shape == (1, 2, 3) for array in found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one.npy"], "no input is given for b"),
        (["a=one.npy", "c=two.npy"], "no input 'c'"),
        (["a=one.npy", "a=two.npy"], "input a is given twice"),
        (["one.npy", "two.npy", "one.npy"], "is given twice"),
        (["a=both.npz", "c.npz"], "c.npz"),
        (["absent.npy"], "absent.npy as a NumPy file: No such file"),
        (["."], "as a NumPy file: Is a directory"),
    ],
)
def test_words_that_do_not(words: list[str], said: str) -> None:
    with pytest.raises(EdgecError, match=said.replace(".", r"\.")):
        read_steps(words, [A, B], 1)[0]


def test_an_archive_without_the_inputs_says_what_it_has() -> None:
    with pytest.raises(EdgecError) as failure:
        read_steps(["both.npz"], [Port("x"), Port("y")], 1)[0]
    assert failure.value.details == ("it has: a, b, labels", "inputs: x, y")
    with pytest.raises(EdgecError, match=r"both.npz has no array 'x'"):
        read_steps(["x=both.npz"], [Port("x")], 1)[0]


def test_a_path_or_a_name_may_hold_an_equals_sign(folder: Path) -> None:
    (folder / "k=v").mkdir()
    np.save("k=v/one.npy", ONE)
    for word in ("k=v/one.npy", "a=k=v/one.npy"):
        assert read_steps([word], [A], 1)[0][0].flat[0] == 1
    assert read_steps(["n=1=one.npy"], [Port("n=1")], 1)[0][0].flat[0] == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty.npy", b""),
        ("text.npy", b"hello"),
        ("pickle.npy", b"\x80\x04N."),
        ("cut.npy", b"\x93NUMPY\x01\0v\0{'descr'"),
        ("cut.npz", b"PK\x03\x04 and nothing more"),
    ],
)
def test_files_that_are_damaged(name: str, data: bytes, folder: Path) -> None:
    (folder / name).write_bytes(data)
    with pytest.raises(EdgecError, match="as a NumPy file") as failure:
        load_arrays(Path(name))
    assert failure.value.hint


def test_objects_are_not_unpickled(folder: Path) -> None:
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    np.savez("object.npz", a=np.array([{}], object))
    for name in ("object.npy", "object.npz"):
        with pytest.raises(EdgecError, match="Object arrays cannot be loaded"):
            load_arrays(Path(name))


def test_shapes_that_fit() -> None:
    for shape in ((1, 2, 3), (2, 3), (1, 1, 2, 3), (6,)):
        assert fit_input(np.zeros(shape, np.int8), A).shape == (1, 2, 3)
    for shape in ((1, 3, 2), (2, 3, 1), (1, 2, 4), (0, 2, 3), (), (3, 2)):
        with pytest.raises(EdgecError, match=r"int8\[1, 2, 3\] is needed, int8"):
            fit_input(np.zeros(shape, np.int8), A)
    with pytest.raises(EdgecError, match="float64") as failure:
        fit_input(np.zeros((1, 2, 3)), A)
    assert "astype('int8')" in failure.value.hint
    assert fit_input(np.int8(3), Port("s", shape=())).shape == ()


def params(*names: str) -> list[Value]:
    return [Value(name, TensorType((1, 2, 3), "int8")) for name in names]


def test_samples_lie_along_the_first_axis() -> None:
    np.savez("s.npz", a=np.zeros((4, 2, 3), np.int8), b=np.ones((4, 1, 2, 3), np.int8))
    cases = load_cases(params("a", "b"), Path("s.npz"), 0)
    assert len(cases) == 4
    assert [array.flat[0] for array in cases[0]] == [0, 1]
    np.savez("s.npz", x=np.zeros((5, 2, 3), np.int8), y=np.zeros(5, np.uint8))
    assert len(load_cases(params("a"), Path("s.npz"), 0)) == 5
    np.save("s.npy", np.zeros((2, 6), np.int8))
    assert len(load_cases(params("a"), Path("s.npy"), 0)) == 2
    assert len(load_cases(params("a", "b"), None, 3)) == 3


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"a": np.zeros((0, 2, 3), np.int8)},
        {"a": np.int8(3)},
        {"a": np.zeros((4, 3, 2), np.int8)},
        {"a": np.zeros((4, 2, 3), np.float32)},
        {"x": np.zeros(4), "y": np.zeros(4)},
    ],
    ids=str,
)
def test_samples_that_do_not_fit(arrays: dict[str, np.ndarray]) -> None:
    np.savez("s.npz", **arrays)
    with pytest.raises(EdgecError, match="input a"):
        load_cases(params("a"), Path("s.npz"), 0)


def test_inputs_with_different_numbers_of_samples() -> None:
    np.savez("s.npz", a=np.zeros((4, 2, 3), np.int8), b=np.ones((3, 2, 3), np.int8))
    with pytest.raises(EdgecError, match="different numbers of samples") as failure:
        load_cases(params("a", "b"), Path("s.npz"), 0)
    assert failure.value.details == ("a: 4", "b: 3")

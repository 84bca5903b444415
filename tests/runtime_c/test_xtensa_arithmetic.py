"""What libgcc lacks for the LX106 (`runtime_c/ports/xtensa/arithmetic.c`) gives this computer's own
results, bit for bit: its integers, and IEEE 754 by its processor through numpy."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = Path(__file__).parents[2] / "runtime_c/ports/xtensa/arithmetic.c"
FLAGS = ("-std=c99", "-O1", "-shared", "-fPIC", "-fsanitize-undefined-trap-on-error",
         "-fsanitize=undefined")  # fmt: skip
TYPES: dict[Any, Any] = {
    np.float32: ctypes.c_float, np.float64: ctypes.c_double, np.int32: ctypes.c_int32,
    np.uint32: ctypes.c_uint32, np.int64: ctypes.c_int64, np.uint64: ctypes.c_uint64,
}  # fmt: skip
COUNT = 4000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    out = tmp_path_factory.mktemp("arithmetic") / "arithmetic.so"
    subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(out)], check=True)
    return ctypes.CDLL(str(out))


def special(kind: Any) -> np.ndarray:
    """Numbers of which every pair is taken."""
    kind = np.dtype(kind)
    if kind.kind == "f":
        info = np.finfo(kind)
        sizes = [0, 1, 1.5, 3, 7, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan,
                 info.tiny / 2, 1 + info.eps, 1 - info.eps / 2, 2**31, 2**32, 0.5]  # fmt: skip
        return np.array([sign * s for s in sizes for sign in (1, -1)], kind)
    info = np.iinfo(kind)
    some = [1, 2, 3, 7, 10, 65535, 65536, info.max, info.max - 1, info.max // 3, info.min + 1]
    return np.array([s for s in some if s], kind)


def pairs(kind: Any) -> np.ndarray:
    """Special numbers with each other, random bits, and numbers that are near to each other."""
    rng = np.random.default_rng(1)
    dtype = np.dtype(kind)
    some = [*itertools.product(special(kind), repeat=2)]
    bits = rng.integers(0, 256, (COUNT, 2 * dtype.itemsize), np.uint8).view(dtype)
    found = [np.array(some, dtype), bits]
    if dtype.kind == "f":
        near = rng.normal(size=(COUNT, 2)).astype(dtype)
        small = near * np.array([1, np.finfo(dtype).tiny], dtype)
        found += [near, small, np.stack([near[:, 0], -near[:, 0] * near[:, 0]], axis=1)]
    else:
        found += [bits >> rng.integers(0, 8 * dtype.itemsize - 1, (COUNT, 2)).astype(dtype)]
    return np.concatenate(found)


def check(library: ctypes.CDLL, name: str, kinds: tuple[Any, ...], result: Any,
          expected: Callable[..., Any], cases: Any) -> None:  # fmt: skip
    function = library[name]
    function.argtypes, function.restype = [TYPES[k] for k in kinds], TYPES[result]
    with np.errstate(all="ignore"):
        for case in cases:
            values = [kind(value) for kind, value in zip(kinds, case, strict=True)]
            want = result(expected(*values))
            got = result(function(*(v.item() for v in values)))
            both_nan = want != want and got != got
            assert both_nan or got.tobytes() == want.tobytes(), (name, case, got, want)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_floats(library: ctypes.CDLL, name: str, kind: Any) -> None:
    expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    suffix = "sf3" if kind is np.float32 else "df3"
    check(library, f"__{name}{suffix}", (kind, kind), kind, expected, pairs(kind))


@pytest.mark.parametrize(
    ("name", "kind", "result"),
    [
        ("__extendsfdf2", np.float32, np.float64),
        ("__truncdfsf2", np.float64, np.float32),
        ("__floatsisf", np.int32, np.float32),
        ("__floatunsisf", np.uint32, np.float32),
        ("__floatsidf", np.int32, np.float64),
        ("__floatunsidf", np.uint32, np.float64),
    ],
)
def test_conversions(library: ctypes.CDLL, name: str, kind: Any, result: Any) -> None:
    cases = pairs(kind)[:, :1]
    if kind is np.float64:  # those that float32 has, and what rounds to them
        with np.errstate(invalid="ignore"):
            singles = pairs(np.float32)[:, :1].astype(np.float64)
        cases = np.concatenate([cases, singles * (1 + 2.0**-25)])
    check(library, name, (kind,), result, lambda x: x, cases)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "result"), [("__fix{}si", np.int32), ("__fixuns{}si", np.uint32)])
def test_to_integers(library: ctypes.CDLL, name: str, kind: Any, result: Any) -> None:
    """What fits, rounded to zero; what does not has the nearest number that does."""
    some = np.random.default_rng(2).uniform(-1e10, 1e10, 999).astype(kind)
    values = np.concatenate([pairs(kind)[:, 0], some])
    cases = values[~np.isnan(values)][:, None]
    info = np.iinfo(result)
    name = name.format("sf" if kind is np.float32 else "df")
    limited = lambda x: int(np.clip(np.trunc(np.float64(x)), info.min, info.max))  # noqa: E731
    check(library, name, (kind,), result, limited, cases)


def quotient(a: Any, b: Any) -> int:
    size = abs(int(a)) // abs(int(b))
    return size if (a < 0) == (b < 0) else -size


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("__divsi3", np.int32, quotient),
        ("__divdi3", np.int64, quotient),
        ("__udivsi3", np.uint32, quotient),
        ("__udivdi3", np.uint64, quotient),
        ("__modsi3", np.int32, lambda a, b: int(a) - quotient(a, b) * int(b)),
        ("__moddi3", np.int64, lambda a, b: int(a) - quotient(a, b) * int(b)),
        ("__umodsi3", np.uint32, lambda a, b: int(a) % int(b)),
        ("__umoddi3", np.uint64, lambda a, b: int(a) % int(b)),
    ],
)
def test_divisions(library: ctypes.CDLL, name: str, kind: Any, expected: Any) -> None:
    cases = pairs(kind)
    check(library, name, (kind, kind), kind, expected, cases[cases[:, 1] != 0])


def test_products(library: ctypes.CDLL) -> None:
    words = pairs(np.uint32)
    check(library, "__umulsidi3", (np.uint32,) * 2, np.uint64, lambda a, b: int(a) * int(b), words)
    product = lambda a, b: int(a) * int(b) % (1 << 64)  # noqa: E731
    check(library, "__muldi3", (np.uint64,) * 2, np.uint64, product, pairs(np.uint64))

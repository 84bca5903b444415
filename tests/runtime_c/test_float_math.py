"""Float functions: C has the bits of Python's, and both are within the stated error bounds."""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.boards.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS, available_toolchains
from edgec.loop.intrinsics import get_intrinsic
from edgec.numerics import float_math
from edgec.targets.core import host_core

Array = np.ndarray
#: name -> (in Python, in double, largest error in ULP as `edgec/numerics/float_math.py` states it).
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], float]] = {
    "exp": (float_math.exp, np.exp, 1.0),
    "log": (float_math.log, np.log, 0.9),
    "sigmoid": (float_math.sigmoid, lambda x: 1 / (1 + np.exp(-x)), 2.4),
    "tanh": (float_math.tanh, np.tanh, 1.5),
    "erf": (float_math.erf, np.vectorize(math.erf), 1.5),
    "sqrt": (float_math.sqrt, np.sqrt, 0.5),
    "rsqrt": (float_math.rsqrt, lambda x: 1 / np.sqrt(x), 1.5),
    "floor": (float_math.floor, np.floor, 0.0),
    "ceil": (float_math.ceil, np.ceil, 0.0),
    "round": (float_math.round, np.rint, 0.0),
    "sin": (float_math.sin, np.sin, 3.0),
    "cos": (float_math.cos, np.cos, 3.0),
    "atan": (float_math.atan, np.arctan, 3.0),
    "sinh": (float_math.sinh, np.sinh, 4.0),
    "cosh": (float_math.cosh, np.cosh, 3.5),
}
#: Distance of the tested floats: a prime, so that all exponents and endings of mantissas occur.
STEP = 2017
#: Where the arithmetic comes from: the C of cores without an instruction for a square root, too.
PARTS = ("", "-U__SSE2__ -U__aarch64__")

WRAPPER = """
void all_{0}(int32_t n, const float *x, float *y);
void all_{0}(int32_t n, const float *x, float *y) {{
    for (int32_t i = 0; i < n; ++i) {{
        y[i] = ec_{0}_f32(x[i]);
    }}
}}
"""


@pytest.fixture(scope="module", params=[(c, p) for c in ("gcc", "clang") for p in PARTS], ids=str)
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_root: Path
) -> ctypes.CDLL:
    """All functions as the named compiler made them."""
    compiler, part = request.param
    toolchains = {t.name: t for t in available_toolchains(host_core())}
    if compiler not in toolchains:
        pytest.skip(f"no {compiler} on this computer")
    toolchain = toolchains[compiler]
    folder = tmp_path_factory.mktemp("float")
    source = '#include "ec_float.h"\n' + "".join(WRAPPER.format(name) for name in FUNCTIONS)
    source += HALVES + FMOD
    (folder / "all.c").write_text(source)
    runtime = repo_root / "runtime_c"
    sanitize = ["-fno-sanitize=all"] if toolchain.is_zig else []
    done = subprocess.run(
        [*toolchain.command, *LANGUAGE_FLAGS, *WARNING_FLAGS, *part.split(), *sanitize,
         "-O2", "-shared", "-fPIC", f"-I{runtime / 'include'}", f"-I{runtime / 'math'}",
         "-o", str(folder / "all.so"), str(folder / "all.c")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "all.so"))


FMOD = """
void all_fmod(int32_t n, const float *a, const float *b, float *y);
void all_fmod(int32_t n, const float *a, const float *b, float *y) {
    for (int32_t i = 0; i < n; ++i) {
        y[i] = ec_fmod_f32(a[i], b[i]);
    }
}
"""
HALVES = """
void widen_all(int32_t n, const uint16_t *x, float *y);
void widen_all(int32_t n, const uint16_t *x, float *y) {
    for (int32_t i = 0; i < n; ++i) {
        y[i] = ec_f32_from_f16(x[i]);
    }
}
"""


def test_every_finite_half(library: ctypes.CDLL) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    found = np.empty(len(bits), np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (bits, found)]
    library.widen_all(ctypes.c_int32(len(bits)), *pointers)
    wanted = bits.view(np.float16).astype(np.float32)
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


def call(library: ctypes.CDLL, name: str, x: Array) -> Array:
    y = np.empty_like(x)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
    getattr(library, f"all_{name}")(len(x), *pointers)
    return y


def test_remainders(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, (2, 100_000), dtype=np.uint64).astype(np.uint32)
    near = rng.normal(size=(2, 100_000)) * np.exp2(rng.integers(-12, 12, (2, 100_000)))
    edges = np.stack([x.reshape(-1) for x in np.meshgrid(special(), special())])
    for a, b in (bits.view(np.float32), near.astype(np.float32), edges):
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        found = np.empty_like(a)
        library.all_fmod(len(a), *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, found)))
        assert_same_bits(found, float_math.fmod(a, b), a)


def floats(start: int, stop: int, step: int = 1) -> Array:
    """The floats whose bits are start, start + step ..."""
    return np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def assert_same_bits(found: Array, wanted: Array, x: Array) -> None:
    """NaN equals NaN: its sign and payload are the machine's."""
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    first = np.flatnonzero(~same)[:1]
    assert not first.size, f"{x[first]}: {found[first]} instead of {wanted[first]}"


def errors_in_ulp(found: Array, exact: Array) -> Array:
    """|found - exact| in units of the last place of the exact result, which is in double."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(exact), 2.0**-126)
        unit = np.exp2(np.floor(np.log2(size)) - 23)
        # Beyond the largest float, infinity is right, and half a step before it as well.
        beyond = np.abs(exact) >= float(np.finfo(np.float32).max) * (1 + 2.0**-25)
        right = (np.isnan(found) & np.isnan(exact)) | (beyond & (found == np.sign(exact) * np.inf))
        right |= found == exact
        return np.where(right, 0.0, np.abs(found.astype(np.float64) - exact) / unit)


def special() -> Array:
    edges = [0.0, 0.625, 1.0, 0.5, 2.0, 88.72283, 88.72284, 89, -87.33654, -103.97207, -103.97208,
             -104, 9.01, 1e-38, 1e-45, 3e38, np.inf]  # fmt: skip
    values = np.array(edges, np.float32)
    near = np.concatenate([np.nextafter(values, np.float32(s) * np.inf) for s in (-1, 1)])
    both = np.concatenate([values, near])
    return np.concatenate([both, -both, [np.float32(np.nan)]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_has_the_bits_of_python(name: str, library: ctypes.CDLL) -> None:
    for x in (special(), floats(0, 1 << 32, STEP)):
        assert_same_bits(call(library, name, x), FUNCTIONS[name][0](x), x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_the_stated_bounds(name: str) -> None:
    function, exact, bound = FUNCTIONS[name]
    for x in (special(), floats(0, 1 << 32, STEP)):
        with np.errstate(all="ignore"):
            wanted = exact(x.astype(np.float64))
        errors = errors_in_ulp(function(x), wanted)
        worst = int(np.argmax(errors))
        assert errors[worst] <= bound, f"{name}({x[worst]}): {errors[worst]} ULP"
        assert np.array_equal(np.isnan(function(x)), np.isnan(wanted))


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_float(name: str, library: ctypes.CDLL) -> None:
    function, exact, bound = FUNCTIONS[name]
    for start in range(0, 1 << 32, 1 << 24):
        x = floats(start, start + (1 << 24))
        mine = function(x)
        assert_same_bits(call(library, name, x), mine, x)
        with np.errstate(all="ignore"):
            errors = errors_in_ulp(mine, exact(x.astype(np.float64)))
        assert errors.max() <= bound, f"{name}({x[np.argmax(errors)]}): {errors.max()} ULP"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_know_the_function(name: str) -> None:
    definition = get_intrinsic(f"{name}_f32")
    assert definition.c_name == f"ec_{name}_f32"
    (wanted,) = FUNCTIONS[name][0](np.array([0.7], np.float32))
    assert definition.meaning(0.7) == float(wanted)


def test_zeros() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    np.testing.assert_array_equal(np.signbit(float_math.sqrt(zeros)), [False, True])
    np.testing.assert_array_equal(float_math.tanh(zeros), [0, 0])
    np.testing.assert_array_equal(float_math.exp(zeros), [1, 1])
    np.testing.assert_array_equal(float_math.log(zeros), [-np.inf, -np.inf])

"""The DSP microkernels with int4 weights do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import (
    DSP_BUILDS,
    dsp_image,
    meant,
    onnx_scales,
    packed_by_four,
    run_on_core,
)

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.targets.dsp.kernels.matrix_int4 import MOST_INT4_SUM

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

#: Kernels, and how many int8 or int16 inputs each of their steps takes.
INPUTS = {"matrix_4": 24, "matrix_3": 12, "matrix_1": 8, "matrix_1_plain": 8}
PAIRS, BYTES = ("matrix_4", "matrix_3"), ("matrix_4", "matrix_1_plain")
KERNELS = [(name, rounding) for name in INPUTS for rounding in ("", "_onnx")]
HEADERS = ("matrix_s8_onnx.h", "matrix_s8_onnx_four.h")
SOURCE = "".join(f'#include "kernels/dsp/{header}"\n' for header in HEADERS) + "".join(
    f"""
void run_{name}{rounding}(int8_t *out, const {x} *x, WORDS(s), WORDS(n));
void run_{name}{rounding}(int8_t *out, const {x} *x, WORDS(s), WORDS(n))
{{ ec_{name}_s4{rounding}_s8_dsp(out, x, s, n[0], n[1], n[2]); }}
"""
    for name, rounding in KERNELS
    for x in ["int8_t" if name in BYTES else "int16_t"]
)


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def tables(rng, rounding, channels, quads, *, extreme=False):
    """Constants that the policy accepts."""
    w = rng.integers(-8, 8, (channels, quads, 2, 2))
    if extreme:
        w = rng.choice([-8, 7], w.shape)
    made = {
        "bias": rng.integers(-(1 << 16), 1 << 16, channels).astype(np.int32),
        "w": w.astype(np.int8),
    }
    if rounding:
        return {**made, **onnx_scales(rng, channels)}
    return {
        **made,
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": rng.integers(-15, 0, channels).astype(np.int8),
    }


def inputs_of(rng, name, size):
    dtype = np.int8 if name in BYTES else np.int16
    return rng.integers(-128, 128, INPUTS[name] * size).astype(dtype)


def check(core, name, rounding, numbers, x, constants):
    kernel = get_microkernel(f"ec_{name}_s4{rounding}_s8_dsp")
    sizes = dict(zip(kernel.sizes, numbers, strict=True))
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.asarray(array).reshape(-1), constants[key].reshape(-1)), key
    func = meaning_of(kernel, numbers)
    out = np.full(next(p.elements for p in func.params if p.name == "out"), 77, np.int8)
    expected = meant(kernel, out, [x, stream], numbers)
    given = packed_by_four(x) if name == "matrix_4" else x
    found = run_on_core(core, f"run_{name}{rounding}", out, [given, stream], numbers)
    assert np.array_equal(found, expected)


def quads_of(name, size):
    return size if name in PAIRS else 2 * size


@pytest.mark.parametrize("zero_point", [-128, -3])
@pytest.mark.parametrize(("name", "rounding"), KERNELS)
def test_every_length_of_the_reduction(core, name, rounding, zero_point):
    """Each way into the unrolled loops, and several rounds of them."""
    rng = np.random.default_rng(3)
    channels = 2 if name in PAIRS else 4
    for size in range(1, 18):
        constants = tables(rng, rounding, channels, quads_of(name, size))
        x = inputs_of(rng, name, size)
        check(core, name, rounding, (size, channels, zero_point), x, constants)


@pytest.mark.parametrize(("name", "rounding"), KERNELS)
def test_every_number_of_channels(core, name, rounding):
    """Also those that make the last pair, or four, overlap the one before."""
    rng = np.random.default_rng(4)
    for channels in range(2 if name in PAIRS else 4, 12):
        constants = tables(rng, rounding, channels, quads_of(name, 2))
        numbers = (2, channels, int(rng.choice([-128, 83])))
        check(core, name, rounding, numbers, inputs_of(rng, name, 2), constants)


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize(("name", "rounding"), KERNELS)
def test_extremes(core, name, rounding, zero_point):
    """The largest weights and inputs of both signs, and the largest sums that there may be."""
    rng = np.random.default_rng(5)
    channels, size = 8, 10
    for lowest in (True, False):
        constants = tables(rng, rounding, channels, quads_of(name, size), extreme=True)
        x = inputs_of(rng, name, size)
        x = np.where(x < 0, -128, -128 if lowest else 127).astype(x.dtype)
        check(core, name, rounding, (size, channels, zero_point), x, constants)
        constants["w"] = np.zeros_like(constants["w"])
        sides = rng.choice([-1, 1], channels)
        constants["bias"] = (sides * (MOST_INT4_SUM - 1)).astype(np.int32)
        check(core, name, rounding, (size, channels, zero_point), x, constants)


@pytest.mark.parametrize("zero_point", [-128, 0])
@pytest.mark.parametrize(("name", "rounding"), KERNELS)
def test_ties(core, name, rounding, zero_point):
    """Sums on and beside ties of all roundings."""
    rng = np.random.default_rng(6)
    channels, size = 40, 2 if name in PAIRS else 1
    for shift in (1, 2, 5, 9):
        constants = tables(rng, rounding, channels, quads_of(name, size))
        half = np.arange(channels) - channels // 2
        near = half * (1 << shift) + rng.integers(-2, 3, channels)
        constants["bias"], constants["w"] = near.astype(np.int32), np.zeros_like(constants["w"])
        if rounding:
            constants["scale"] = np.full(channels, 2.0 ** -(shift + 1), np.float32)
        else:
            constants["multiplier"] = np.full(channels, 1 << 30, np.int32)
            constants["shift"] = np.full(channels, -shift, np.int8)
        check(core, name, rounding, (size, channels, zero_point), inputs_of(rng, name, size),
              constants)  # fmt: skip

"""The DSP microkernels with shifts of groups of weights do what they are registered to mean."""

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
from edgec.targets.common.constant_channels import MOST_SUM
from edgec.targets.dsp.kernels.int4_steps import MOST_STEP_SHIFT

pytest.importorskip("unicorn")
pytest.importorskip("capstone")

#: Kernels, how many int8 or int16 inputs each of their steps takes, and the sizes of groups.
KERNELS = {"matrix_4": (24, (4, 5, 7, 8)), "matrix_3": (12, (4, 5, 7, 8)),
           "matrix_1": (8, (1, 2, 3, 4)), "matrix_1_plain": (8, (1, 2, 3, 4))}  # fmt: skip
PAIRS, BYTES = ("matrix_4", "matrix_3"), ("matrix_4", "matrix_1_plain")
HEADERS = ("matrix_s8_onnx_groups.h", "matrix_s8_onnx_groups_four.h")
SOURCE = "".join(f'#include "kernels/dsp/{header}"\n' for header in HEADERS) + "".join(
    f"""
void run_{name}(int8_t *out, const {x} *x, WORDS(s), WORDS(n));
void run_{name}(int8_t *out, const {x} *x, WORDS(s), WORDS(n))
{{ ec_{name}_groups_onnx_s8_dsp(out, x, s, n[0], n[1], n[2], n[3]); }}
"""
    for name in KERNELS
    for x in ["int8_t" if name in BYTES else "int16_t"]
)


@pytest.fixture(scope="module", params=DSP_BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    with dsp_image(request, tmp_path_factory, SOURCE) as simulator:
        yield simulator


def quads_of(name, size):
    return size if name in PAIRS else 2 * size


def tables(rng, name, size, group, channels, *, extreme=False):
    """Constants that the policy accepts."""
    steps, quads = size // group, quads_of(name, group)
    digits = rng.integers(-8, 8, (channels, steps, quads, 2, 2))
    shifts = rng.integers(0, MOST_STEP_SHIFT + 1, (channels, steps, 1, 1, 1))
    if extreme:
        digits = rng.choice([-8, 7], digits.shape)
        shifts[:] = MOST_STEP_SHIFT
    w = (digits << shifts).astype(np.int8)
    return {
        "w": w.reshape(channels, steps * quads, 2, 2),
        **onnx_scales(rng, channels),
    }


def inputs_of(rng, name, size):
    dtype = np.int8 if name in BYTES else np.int16
    return rng.integers(-128, 128, KERNELS[name][0] * size).astype(dtype)


def check(core, name, numbers, x, constants):
    kernel = get_microkernel(f"ec_{name}_groups_onnx_s8_dsp")
    sizes = dict(zip(kernel.sizes, numbers, strict=True))
    stream = kernel.stream.pack(constants, **sizes)
    assert stream.size == kernel.stream.words(**sizes)
    for key, array in kernel.stream.unpack(stream, **sizes).items():
        assert np.array_equal(np.asarray(array).reshape(-1), constants[key].reshape(-1)), key
    func = meaning_of(kernel, numbers)
    out = np.full(next(p.elements for p in func.params if p.name == "out"), 77, np.int8)
    expected = meant(kernel, out, [x, stream], numbers)
    given = packed_by_four(x) if name == "matrix_4" else x
    found = run_on_core(core, f"run_{name}", out, [given, stream], numbers)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("zero_point", [-128, -3])
@pytest.mark.parametrize("name", KERNELS)
def test_steps(core, name, zero_point):
    """Each way into the unrolled loop, and odd and even numbers of steps."""
    rng = np.random.default_rng(3)
    channels = 2 if name in PAIRS else 4
    for group in KERNELS[name][1]:
        for steps in (1, 2, 3, 6):
            constants = tables(rng, name, group * steps, group, channels)
            x = inputs_of(rng, name, group * steps)
            check(core, name, (group * steps, group, channels, zero_point), x, constants)


@pytest.mark.parametrize("name", KERNELS)
def test_every_number_of_channels(core, name):
    """Also those that make the last pair, or four, overlap the one before."""
    rng = np.random.default_rng(4)
    for channels in range(2 if name in PAIRS else 4, 12):
        group = int(rng.choice(KERNELS[name][1]))
        constants = tables(rng, name, 3 * group, group, channels)
        numbers = (3 * group, group, channels, int(rng.choice([-128, 83])))
        check(core, name, numbers, inputs_of(rng, name, 3 * group), constants)


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("name", KERNELS)
def test_extremes(core, name, zero_point):
    """The largest weights and inputs of both signs, and the largest sums that there may be."""
    rng = np.random.default_rng(5)
    channels, group = 8, KERNELS[name][1][-1]
    size = 20 * group
    for lowest in (True, False):
        constants = tables(rng, name, size, group, channels, extreme=True)
        x = inputs_of(rng, name, size)
        x = np.where(x < 0, -128, -128 if lowest else 127).astype(x.dtype)
        check(core, name, (size, group, channels, zero_point), x, constants)
        constants["w"][:] = 0
        sides = rng.choice([-1, 1], channels)
        constants["bias"] = (sides * (MOST_SUM - 1)).astype(np.int32)
        check(core, name, (size, group, channels, zero_point), x, constants)

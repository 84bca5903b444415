"""The MVE microkernels of depthwise convolutions on planes do what they are registered to mean."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from kernel_images import meant, with_arguments
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel
from edgec.targets.helium.kernels.planes import LANES, LEAST_SHIFT, fits_planes

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/planes_s8.h"
static void pack(void *out, const void *x, const void *unused, const int32_t *n) {
    (void)unused;
    ec_pack_planes_s8_mve(out, x, ARGUMENTS(ec_pack_planes_s8_mve));
}
static void sums(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_planes_s8_mve(out, x, s, ARGUMENTS(ec_depthwise_planes_s8_mve));
}
""")
PACK, SUMS = map(get_microkernel, ("ec_pack_planes_s8_mve", "ec_depthwise_planes_s8_mve"))
#: Height, width, columns of a tile.
TILES = [(1, 6, 2), (5, 3, 1), (4, 4, 2), (9, 12, 4)]
IMAGES = [(1, 1), (1, 6), (2, 1), (3, 3), (6, 6), (5, 2), (25, 5), (8, 17), (13, 9)]


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planes")
    return machine_of(request.param, SOURCE, ("pack", "sums"), folder)


def tables(rng, shift):
    return {
        "bias": rng.integers(-(1 << 15), 1 << 15, LANES).astype(np.int32),
        "w": rng.integers(-128, 128, (LANES, 3, 3)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, LANES).astype(np.int32),
        "shift": np.full(LANES, shift, np.int8),
    }


def packed(rng, image, more, calls, wanted):
    """Add a call that packs a tile of an image, and its results."""
    sizes = [*image, *more]
    x = rng.integers(-128, 128, image[0] * image[1] * more[1]).astype(np.int8)
    out = np.full(LANES * more[0] * (image[0] + 2) * 3 + 20, 77, np.int8)
    calls.append(Call(0, out, x, np.zeros(1, np.int32), sizes))
    wanted.append(meant(PACK, out, [x], sizes))


def test_packing(machine):
    """The second four channels of twelve, images of four, tiles; nothing else is written."""
    rng = np.random.default_rng(1)
    calls, wanted = [], []
    for at, (height, width) in enumerate(IMAGES):
        more = (width, (LANES, 12)[at % 2], (-128, 5)[at % 2], 0)
        packed(rng, (height, width), more, calls, wanted)
    for height, width, tile in TILES:
        for column in range(0, width, tile):
            packed(rng, (height, width), (tile, 8, 5, column), calls, wanted)
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def summed(rng, image, channels, constants, values=None, tile=0):
    """A call on planes of these values, and its results."""
    columns = tile or image[1]
    sizes = [*image, columns, channels, 0]
    count = LANES * columns * (image[0] + 2) * 3
    plane = rng.choice(values if values else np.arange(-128, 128), count).astype(np.int8)
    stream = SUMS.stream.pack(constants, **dict(zip(SUMS.sizes, sizes, strict=True)))
    found = SUMS.stream.unpack(stream, **dict(zip(SUMS.sizes, sizes, strict=True)))
    for key, array in constants.items():
        assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key
    out = np.full(image[0] * image[1] * channels, 77, np.int8)
    past = np.concatenate([plane, rng.integers(-128, 128, 7).astype(np.int8)])
    return Call(1, out, past, stream, sizes), meant(SUMS, out, [plane, stream], sizes)


def check(machine, cases):
    calls, wanted = zip(*cases, strict=True)
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def test_sums(machine):
    rng = np.random.default_rng(2)
    check(machine, [
        summed(rng, image, (LANES, 20)[at % 2], tables(rng, -4 - at % 5))
        for at, image in enumerate(IMAGES)
    ] + [summed(rng, image, 12, tables(rng, -5), tile=tile) for *image, tile in TILES])  # fmt: skip


def test_extremes_and_ties(machine):
    """The largest sums of either sign, and sums around ties."""
    rng = np.random.default_rng(3)
    cases = []
    for sign, shift in product((-1, 1), (LEAST_SHIFT, -9, -1, 0)):
        constants = tables(rng, shift)
        constants["w"][:] = -128
        constants["bias"][:] = sign * ((1 << 31) - 1 - 9 * 128 * 128)
        assert fits_planes(constants)
        cases.append(summed(rng, (3, 4), LANES, constants, [-128 * sign, -127 * sign]))
    for shift in range(LEAST_SHIFT, 1):
        constants = tables(rng, shift)
        constants["w"][:] = 0
        near = np.arange(-2, LANES - 2) * (1 << min(-shift, 24)) + rng.integers(-2, 3, LANES)
        constants["bias"] = near.astype(np.int32)
        constants["multiplier"][::2] = 1 << 30
        cases.append(summed(rng, (2, 2), LANES, constants))
    check(machine, cases)


def test_what_does_not_fit():
    constants = tables(np.random.default_rng(4), LEAST_SHIFT)
    assert fits_planes(constants)
    constants["bias"][1] = -(1 << 31)
    assert not fits_planes(constants)
    assert not fits_planes(tables(np.random.default_rng(4), LEAST_SHIFT - 1))

"""The MVE microkernel of depthwise convolutions does what it is registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant, with_arguments
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.targets.helium.kernels.depthwise import fits_pairs, pairs_of_taps

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/depthwise_s8.h"
static void run(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_s8_mve(out, x, s, ARGUMENTS(ec_depthwise_s8_mve));
}
""")
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100), (83, -128, 90)]
KERNEL = get_microkernel("ec_depthwise_s8_mve")


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("depthwise")
    return machine_of(request.param, SOURCE, ("run",), folder)


def tables(rng, window, channels):
    return {
        "bias": rng.integers(-(1 << 18), 1 << 18, channels).astype(np.int32),
        "w": rng.integers(-127, 128, (*window, channels)).astype(np.int8),
        "multiplier": rng.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": rng.integers(-15, 1, channels).astype(np.int8),
    }


def case(rng, window, tap, step, pixels, channels, limits, constants=None, x=None, rows=1):
    """The sizes of a call, its inputs and constants; rows lie a few bytes apart."""
    pitch = (window[1] - 1) * tap + (pixels - 1) * step + channels + int(rng.integers(0, 9))
    row_step = pitch * int(rng.integers(1, 3))
    sizes = dict(
        zip(
            KERNEL.sizes,
            (*window, pitch, tap, row_step, rows, step, pixels, channels, *limits),
            strict=True,
        )
    )
    elements = next(p.elements for p in meaning_of(KERNEL, tuple(sizes.values())).params
                    if p.name == "x")  # fmt: skip
    x = rng.integers(-128, 128, elements) if x is None else rng.choice(x, elements)
    return sizes, x.astype(np.int8), constants or tables(rng, window, channels)


def check(machine, cases):
    calls, wanted = [], []
    for sizes, x, constants in cases:
        stream = KERNEL.stream.pack(constants, **sizes)
        assert stream.size == KERNEL.stream.words(**sizes)
        found = KERNEL.stream.unpack(stream, **sizes)
        for key, array in constants.items():
            assert np.array_equal(np.asarray(found[key]).reshape(-1), array.reshape(-1)), key
        out = np.full((sizes["rows"] * sizes["pixels"], sizes["channels"]), 77, np.int8)
        calls.append(Call(0, out, x, stream, list(sizes.values())))
        wanted.append(meant(KERNEL, out, [x, stream], sizes.values()).reshape(out.shape))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers


def test_every_number_of_taps(machine):
    rng = np.random.default_rng(3)
    cases = [case(rng, (taps, 1), 16, 16, 2, 16, LIMITS[taps % 4]) for taps in range(1, 26)]
    cases += [case(rng, (2, taps), 20, 40, 2, 20, LIMITS[taps % 4]) for taps in range(1, 8)]
    check(machine, cases)


def test_every_number_of_channels(machine):
    """Blocks that overlap, and pixels that share vectors, also with some left over."""
    rng = np.random.default_rng(4)
    cases = [
        case(rng, (3, 3), channels, 2 * channels, 3, channels, LIMITS[channels % 4])
        for channels in range(16, 66)
    ]
    cases += [
        case(rng, (3, 3), channels, channels, pixels, channels, LIMITS[pixels % 4])
        for channels in (1, 2, 4, 8)
        for pixels in range(-(-16 // channels), 40, 3)
    ]
    check(machine, cases)


def test_rows(machine):
    """Several rows of pixels, with vectors that end with a row and that do not."""
    rng = np.random.default_rng(6)
    check(machine, [
        case(rng, (3, 3), channels, channels * s, pixels, channels, LIMITS[rows % 4], rows=rows)
        for rows in (1, 2, 5)
        for channels, s, pixels in ((16, 1, 3), (20, 2, 1), (8, 1, 4), (8, 1, 5), (2, 1, 11))
    ])  # fmt: skip


def test_extremes_and_ties(machine):
    rng = np.random.default_rng(5)
    cases = []
    for shift in range(-31, 1):
        constants = tables(rng, (1, 1), 32)
        near = (np.arange(32) - 16) * (1 << min(-shift, 24)) + rng.integers(-2, 3, 32)
        constants["bias"] = near.astype(np.int32)
        constants["w"][:] = 0
        constants["multiplier"][::3] = 1 << 30
        constants["multiplier"][1::3] = (1 << 31) - 1
        constants["shift"][:] = shift
        cases += [case(rng, (1, 1), 0, 32, 1, 32, limits, constants) for limits in LIMITS]
    for limits in LIMITS:  # the largest products of two taps, of either sign
        constants = tables(rng, (3, 3), 16)
        constants["w"] = rng.choice([-127, 127], (3, 3, 16)).astype(np.int8)
        constants["shift"][:] = -9
        cases.append(case(rng, (3, 3), 16, 16, 4, 16, limits, constants, [-128, 127]))
    check(machine, cases)


def test_least_weights_in_pairs_that_differ(machine):
    """Weights of -128 in taps side by side; the blocks, of which two overlap, order them anew."""
    rng = np.random.default_rng(7)
    cases = []
    for channels, least in ((16, (0, 1)), (40, (2, 3, 7)), (8, (0, 1, 4, 5)), (20, (8, 7, 6, 5))):
        constants = tables(rng, (3, 3), channels)
        constants["w"].reshape(9, channels)[list(least), channels - 1] = -128
        constants["w"].reshape(9, channels)[0, 0] = -128
        constants["shift"][:] = -9
        cases.append(
            case(rng, (3, 3), channels, channels, 4, channels, LIMITS[0], constants, [-128])
        )
    check(machine, cases)


def test_pairs_of_taps():
    """Taps keep their order if possible; a channel may have at most one -128 in each pair."""
    w = np.full((9, 16), 5, np.int8)
    assert pairs_of_taps(w) == list(range(9))
    for count in range(6):
        w[:count, 3] = -128
        order = pairs_of_taps(w)
        assert order is not None and sorted(order) == list(range(9))
        for a, b in zip(order[:8:2], order[1:8:2], strict=True):
            assert not ((w[a] == -128) & (w[b] == -128)).any()
    w[5, 3] = -128
    assert pairs_of_taps(w) is None
    assert not fits_pairs(w.reshape(3, 3, 16))

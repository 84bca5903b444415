"""The MVE microkernels that round as ONNX Runtime does are what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import meant, onnx_tables, with_arguments
from mve_machine import QUICK_BUILDS, Call, build_name, has_qemu, machine_of

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

SOURCE = with_arguments("""
#include "kernels/helium/matrix_s8_onnx.h"
#include "kernels/helium/depthwise_s8_onnx.h"
static void run_dense(void *out, const void *x, const void *s, const int32_t *n) {
    ec_dense_onnx_s8_mve(out, x, s, n[0], n[1], n[2], n[3], n[4]);
}
static void run_conv(void *out, const void *x, const void *s, const int32_t *n) {
    ec_conv_onnx_s8_mve(out, x, s, ARGUMENTS(ec_conv_onnx_s8_mve));
}
static void run_depthwise(void *out, const void *x, const void *s, const int32_t *n) {
    ec_depthwise_onnx_s8_mve(out, x, s, ARGUMENTS(ec_depthwise_onnx_s8_mve));
}
""")
FUNCTIONS = ("dense", "conv", "depthwise")
#: Zero point, minimum, maximum.
LIMITS = [(-128, -128, 127), (-3, -128, 127), (7, 7, 100)]


@pytest.fixture(scope="module", params=QUICK_BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    names = tuple(f"run_{name}" for name in FUNCTIONS)
    folder = tmp_path_factory.mktemp("mve_onnx")
    return machine_of(request.param, SOURCE, names, folder)


def tables(rng, weights, channels, *, ties=False):
    return onnx_tables(rng, weights, channels, ties=ties, shift=2, largest=-2)


def sizes_of(name, numbers):
    kernel = get_microkernel(f"ec_{name}_onnx_s8_mve")
    return dict(zip(kernel.sizes, numbers, strict=True))


def dense_cases(rng):
    for depth, channels in ((1, 8), (16, 9), (17, 8), (70, 13), (150, 8)):
        for limits in LIMITS:
            sizes = sizes_of("dense", (depth, channels, *limits))
            yield "dense", sizes, tables(rng, (channels, depth), channels)
    for limits in LIMITS:
        yield "dense", sizes_of("dense", (4, 40, *limits)), tables(rng, (40, 4), 40, ties=True)


def conv_cases(rng):
    for kernel, pixels, channels in (((1, 1, 21), 3, 5), ((3, 3, 8), 4, 6), ((2, 3, 16), 1, 4)):
        run = kernel[1] * kernel[2]
        step = kernel[2] * 2
        pitch = (pixels - 1) * step + run + 3
        for limits in LIMITS:
            sizes = sizes_of("conv", (*kernel, pitch, step, pixels, channels, *limits))
            for ties in (False, True):
                yield "conv", sizes, tables(rng, (channels, *kernel), channels, ties=ties)


def depthwise_cases(rng):
    for kernel, pixels, channels in (((3, 3), 3, 16), ((2, 2), 2, 20), ((1, 3), 5, 40)):
        tap = channels
        pitch = (pixels + kernel[1]) * channels
        for limits in LIMITS:
            numbers = (*kernel, pitch, tap, pitch, 2, channels, pixels, channels, *limits)
            for ties in (False, True):
                constants = tables(rng, (*kernel, channels), channels, ties=ties)
                yield "depthwise", sizes_of("depthwise", numbers), constants


@pytest.mark.parametrize("cases", [dense_cases, conv_cases, depthwise_cases])
def test_kernels(machine, cases):
    rng = np.random.default_rng(3)
    calls, wanted = [], []
    for name, sizes, constants in cases(rng):
        kernel = get_microkernel(f"ec_{name}_onnx_s8_mve")
        stream = kernel.stream.pack(constants, **sizes)
        assert stream.size == kernel.stream.words(**sizes)
        for key, array in kernel.stream.unpack(stream, **sizes).items():
            assert np.array_equal(np.asarray(array).reshape(-1), constants[key].reshape(-1)), key
        params = {p.name: p for p in meaning_of(kernel, tuple(sizes.values())).params}
        x = rng.integers(-128, 128, params["x"].elements).astype(np.int8)
        out = np.full(params["out"].elements, 77, np.int8)
        wanted.append(meant(kernel, out, [x, stream], sizes.values()))
        calls.append(Call(FUNCTIONS.index(name), out, x, stream, list(sizes.values())))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers

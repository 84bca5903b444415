"""Blocks of sums on cores without vectors do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_images import START, build_image, meant, run_on_core

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.sim.core import CoreSimulator

pytest.importorskip("unicorn")

KERNELS = (
    "ec_sums_2x4_s8", "ec_sums_1x8_s8", "ec_sums_1x4_s8", "ec_sums_4x4_s8", "ec_sums_1x8_moved_s8",
    "ec_sums_1x16_s8", "ec_sums_4x16_s8",
)  # fmt: skip
PACKED = ("ec_sums_4x2_packed_s8", "ec_sums_4x4_packed_s8")
CALL = """
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n));
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n)) {{ {0}(acc, x, s, n[0], n[1]); }}
"""
PACK = """
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n));
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n)) {{
    int32_t packed[3 * 70];
    ec_pack_fours_s8((int8_t *)packed, x, n[0], n[1]);
    {0}(acc, (const int8_t *)packed, s, n[0], n[1]);
}}
"""
SOURCE = "".join(
    (
        '#include "kernels/common/sum_fours_s8.h"\n', *map(CALL.format, KERNELS),
        *map(PACK.format, PACKED),
    )
)  # fmt: skip
#: Core, compiler and flags: with the assembly of each, in C, and in vectors of C.
BUILDS = [
    ("cortex-m0", "gcc", ("-O2",)),
    ("cortex-m3", "gcc", ("-O2",)),
    ("cortex-m3", "clang", ("-Os",)),
    ("cortex-m0", "clang", ("-O2",)),
    ("rv32imc", "gcc", ("-O2",)),
    ("rv32imc", "clang", ("-O2",)),
    ("cortex-m3", "gcc", ("-O2", "-DEC_NO_ASM")),
    ("cortex-m3", "clang", ("-O2", "-DEC_SUMS_ON_VECTORS=1")),
    pytest.param(("cortex-m0", "gcc", ("-O0",)), marks=pytest.mark.full),
    pytest.param(("cortex-m3", "gcc", ("-O0",)), marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=BUILDS, ids=lambda b: "-".join((b[0], b[1], *b[2])))
def core(request, tmp_path_factory):
    name, compiler, flags = request.param
    folder = tmp_path_factory.mktemp("sums")
    with CoreSimulator(build_image(folder, START + SOURCE, name, compiler, flags), name) as made:
        yield made


@pytest.mark.parametrize("name", KERNELS)
def test_sums(core, name):
    """Depths around four, pixels that lie apart, sums that wrap, weights and inputs of -128."""
    rng = np.random.default_rng(1)
    kernel = get_microkernel(name)
    for depth, step in ((1, 1), (2, 5), (3, 3), (4, 4), (7, 9), (8, 8), (40, 40), (65, 70)):
        for low in (-128, 127, -127):
            meaning = meaning_of(kernel, (depth, step))
            sizes = {p.name: p for p in meaning.params}
            w = rng.integers(-128, max(low, -127), sizes["w"].shape).astype(np.int8)
            bias = rng.integers(-(1 << 31), 1 << 31, sizes["bias"].shape).astype(np.int32)
            stream = kernel.stream.pack({"w": w, "bias": bias}, depth=depth, step=step)
            x = rng.integers(-128, max(low, -127), sizes["x"].elements).astype(np.int8)
            out = np.full(sizes["acc"].elements, 77, np.int32)
            inputs, numbers = [x, stream], (depth, step)
            expected = meant(kernel, out, inputs, numbers)
            assert np.array_equal(run_on_core(core, f"run_{name}", out, inputs, numbers), expected)


@pytest.mark.parametrize("name", PACKED)
def test_four_pixels_in_three_sums(core, name):
    """Sums of 24 bits at both ends, depths around four, pixels that lie apart."""
    rng = np.random.default_rng(2)
    kernel = get_microkernel(name)
    for depth, step in ((8, 8), (9, 11), (10, 10), (11, 30), (40, 40), (65, 70)):
        for low in (-128, 127, -127):
            x = rng.integers(-128, max(low, -127), (4, step)).astype(np.int8)
            meaning = meaning_of(kernel, (depth, step))
            shapes = {p.name: p.shape for p in meaning.params}
            w = rng.integers(-128, max(low, -127), shapes["w"]).astype(np.int8)
            products = x[:, :depth].astype(np.int64) @ w.astype(np.int64)
            most, least = (1 << 23) - 1 - products.max(axis=0), -(1 << 23) - products.min(axis=0)
            bias = np.where(np.arange(len(most)) % 2, most, least).astype(np.int32)
            stream = kernel.stream.pack({"w": w, "bias": bias}, depth=depth, step=step)
            out = np.full(products.size, 77, np.int32)
            inputs = [x.reshape(-1)[: 3 * step + depth], stream]
            found = run_on_core(core, f"run_{name}", out, inputs, (depth, step))
            assert np.array_equal(found.reshape(products.shape), products + bias)

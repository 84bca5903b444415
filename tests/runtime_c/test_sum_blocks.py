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
CALL = """
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n));
void run_{0}(int32_t *acc, const int8_t *x, WORDS(s), WORDS(n)) {{ {0}(acc, x, s, n[0], n[1]); }}
"""
SOURCE = '#include "kernels/common/sum_blocks_s8.h"\n' + "".join(map(CALL.format, KERNELS))
#: Core, compiler and flags: with the assembly of each, in C, and in vectors of C.
BUILDS = [
    ("cortex-m0", "gcc", ("-O2",)),
    ("cortex-m3", "gcc", ("-O2",)),
    ("cortex-m3", "clang", ("-Os",)),
    ("cortex-m0", "clang", ("-O2",)),
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

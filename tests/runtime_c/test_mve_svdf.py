"""The MVE microkernels of filters over time do what they are registered to mean."""

from __future__ import annotations

import numpy as np
import pytest
from mve_machine import BUILDS, Call, build_name, has_qemu, machine_of
from svdf_cases import svdf_cases

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import get_microkernel

pytestmark = pytest.mark.skipif(not has_qemu(), reason="qemu-system-arm is not installed")

KERNEL = """
static void run_time_{0}(void *out, const void *x, const void *s, const int32_t *n) {{
    const int32_t *const bias = s;
    const int{1}_t *const w = (const int{1}_t *)(bias + n[0]);
    const int8_t shift = (int8_t)n[4];
    ec_svdf_time_{0}_mve(out, x, bias, w, n + 3, &shift, (const void *)n);
}}
"""
SOURCE = '#include "kernels/helium/svdf.h"\n' + "".join(
    KERNEL.format(f"s{bits}", bits) for bits in (8, 16)
)


@pytest.fixture(scope="module", params=BUILDS, ids=build_name)
def machine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("svdf")
    return machine_of(request.param, SOURCE, ("run_time_s8", "run_time_s16"), folder)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_filters_over_time(machine, dtype):
    """Every number of taps around a vector's, sums that wrap, ties, zero points."""
    kernel = get_microkernel(f"ec_svdf_time_s{np.iinfo(dtype).bits}_mve")
    calls, wanted = [], []
    for (x, bias, w, multiplier, shift), numbers in svdf_cases(dtype):
        values = [77] * numbers[0]
        args = [part for a in (x, bias, w, multiplier, shift) for part in (a.tolist(), 0)]
        kernel.run(values, 0, *args, *numbers)
        stream = np.frombuffer(bias.tobytes() + w.tobytes(), np.int8)
        numbers = (*numbers, int(multiplier[0]), int(shift[0]))
        calls.append(Call(dtype == "int16", np.full(len(values), 77, np.int8), x, stream, numbers))
        wanted.append(np.array(values, np.int8))
    for call, want, (got, _) in zip(calls, wanted, machine.run(calls), strict=True):
        assert np.array_equal(got, want), call.numbers

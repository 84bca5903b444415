"""What kernels of products say that calls cost is what a simulated core counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_costs import measured
from kernel_images import START, build_image

from edgec.loop.microkernel import get_microkernel
from edgec.loop.window import Window
from edgec.sim.core import CoreSimulator

pytest.importorskip("unicorn")
pytest.importorskip("capstone")


def test_stated_instructions_are_those_of_the_simulator():
    """Within a tenth, and 4 of 100 for calls of more than a thousand instructions."""
    for kernel, calls in measured():
        assert calls
        for stated, counted in calls:
            most = 0.1 if counted < 1000 else 0.04
            assert abs(stated / counted - 1) < most, (kernel.name, stated, counted)


#: First layers of keyword spotters, of images in colour and in grey, and others, with their rows.
WINDOWS = [
    (Window((49, 10, 1), (10, 4), (2, 2), (1, 1), (4, 1), 5, True, 3), 25),
    (Window((32, 32, 3), (3, 3), (1, 1), (1, 1), (1, 1), 32, True, -7), 32),
    (Window((96, 96, 1), (3, 3), (2, 2), (1, 1), (0, 0), 48, True, -7), 48),
    (Window((28, 28, 1), (5, 5), (1, 1), (1, 1), (0, 0), 24, False, 0), 24),
    (Window((16, 16, 3), (5, 5), (1, 1), (1, 1), (2, 2), 16, True, 3), 16),
    (Window((4, 50, 1), (1, 20), (1, 2), (1, 1), (0, 0), 16, False, 3), 4),
]


@pytest.mark.parametrize(("window", "rows"), WINDOWS, ids=lambda w: "x".join(map(str, w.shape))
                         if isinstance(w, Window) else "")  # fmt: skip
def test_gathered_windows_take_what_is_stated(window: Window, rows: int, tmp_path: Path) -> None:
    """Within 15 of 100, where the sizes are constants, as models call it."""
    sizes = ", ".join(map(str, window.sizes.values()))
    signature = "void run(int16_t *to, const int8_t *x, int32_t pixel)"
    text = f"""{START}
#include "edgec/ec_math.h"
#include "kernels/dsp/matrix_pack_s8.h"
{signature};
{signature} {{ ec_pack_taps_3_s8_dsp(to, x, {sizes}, pixel); }}
"""
    pixels = window.out_width * rows
    arrays = np.zeros(3 * -(-window.depth // 4) * 4, "<i2"), np.zeros(window.shape, np.int8)
    counts = []
    with CoreSimulator(
        build_image(tmp_path, text, "cortex-m4", "gcc", ("-O2",)), "cortex-m4"
    ) as core:
        spans = [
            core.allocate(f"argument {n}", a.nbytes, write=n == 0) for n, a in enumerate(arrays)
        ]
        for pixel in range(0, pixels - 2, max(pixels // 40, 1)):
            addresses = (span.address for span in spans)
            counts.append(core.call("run", *addresses, pixel, allow=spans).instructions)
    stated = get_microkernel("ec_pack_taps_3_s8_dsp").instructions
    assert stated is not None
    assert abs(stated(**window.sizes) / np.mean(counts) - 1) < 0.15

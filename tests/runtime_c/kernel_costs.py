"""Instructions of products on a simulated Cortex-M4, beside what their registration says.

python tests/runtime_c/kernel_costs.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from kernel_images import START, build_image

import edgec.targets.kernels  # noqa: F401  registers them
from edgec.loop.microkernel import Microkernel, all_microkernels, meaning_of
from edgec.sim.core import CoreSimulator
from edgec.targets.common.kernels.costs import UnitCost
from edgec.targets.dsp.shared_shift import SHIFT

#: (quads or octets, channels, zero point) of calls.
CALLS = ((4, 8, -128), (16, 8, -128), (16, 32, -128), (16, 32, 3), (61, 12, 3))
#: Constants that every kernel takes; weights are zeros, which take as long as others. An integer
#: stands for this scale (`edgec.targets.dsp.fixed_scales`), as for most.
NUMBERS = {"multiplier": 1 << 30, "shift": -8, "scale": 0.00731}


def sizes_of(kernel: Microkernel, size: int, channels: int, zero_point: int) -> Mapping[str, int]:
    """The sizes of a call, by name."""
    known = {
        "quads": size, "octets": size, "channels": channels, "zero_point": zero_point, "added": 0,
        "group": 4, "minimum": -100, "maximum": 100, "shift": SHIFT * (zero_point == -128),
    }  # fmt: skip
    return {name: known[name] for name in kernel.sizes}


def size_of(sizes: Mapping[str, int]) -> int:
    """How many quads or octets there are."""
    return sizes.get("quads") or sizes["octets"]


def wrapper(kernel: Microkernel) -> str:
    """C text of a function of words that calls a kernel."""
    numbers = ", ".join(f"n[{i}]" for i in range(len(kernel.sizes)))
    name = f"run_{kernel.name}(void *out, const void *x, WORDS(s), WORDS(n))"
    return f"void {name};\nvoid {name} {{ {kernel.name}(out, x, s, {numbers}); }}\n"


def instructions(core: CoreSimulator, kernel: Microkernel, sizes: Mapping[str, int]) -> int:
    """Of one call on arrays of zeros."""
    meaning = meaning_of(kernel, tuple(sizes.values()))
    assert kernel.stream is not None
    constants = {
        p.name: np.full(p.shape, NUMBERS.get(p.name, 0), p.dtype)
        for p in meaning.params
        if p.scope == "constant"
    }
    out, x = (np.zeros(p.elements, p.dtype) for p in meaning.params[:2])
    words = kernel.stream.pack(constants, **sizes)
    spans = []
    for position, array in enumerate((out, x, words, np.array([*sizes.values()], np.int32))):
        spans.append(core.allocate(f"argument {position}", array.nbytes, write=position == 0))
        core.write(spans[-1].address, array.tobytes())
    addresses = (span.address for span in spans)
    done = core.call(f"run_{kernel.name}", *addresses, allow=spans)
    core.release()
    return done.instructions


def measured() -> Iterator[tuple[Microkernel, list[tuple[int, int]]]]:
    """Each kernel with what its calls take: as stated, and on the simulator."""
    found = [k for k in all_microkernels() if isinstance(k.instructions, UnitCost)]
    includes = "".join(f'#include "kernels/{h}"\n' for h in sorted({k.header for k in found}))
    with tempfile.TemporaryDirectory() as name:
        text = START + includes + "".join(map(wrapper, found))
        image = build_image(Path(name), text, "cortex-m4", "gcc", ("-O2",))
        with CoreSimulator(image, "cortex-m4") as core:
            for kernel in found:
                assert kernel.instructions is not None
                calls = [sizes_of(kernel, *call) for call in CALLS]
                yield (
                    kernel,
                    [
                        (round(kernel.instructions(**sizes)), instructions(core, kernel, sizes))
                        for sizes in calls
                        if "group" not in sizes or size_of(sizes) % sizes["group"] == 0
                    ],
                )


def main() -> None:
    for kernel, calls in measured():
        texts = (f"{stated:7}{counted:7}{stated / counted - 1:+5.0%}" for stated, counted in calls)
        print(f"{kernel.name:40}", *texts)


if __name__ == "__main__":
    main()

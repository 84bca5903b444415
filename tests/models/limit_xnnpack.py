"""LiteRT's XNNPACK kept from AVX-512 in this process, as on an older PC.

XNNPACK asks the processor once and keeps the answer as bits in a variable of its library. The
package has the names of such variables; here the bits above AVX2 are cleared before the first
model is loaded. Source of the bits: XNNPACK, `src/xnnpack/hardware-config.h`, `xnn_arch_flags`.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

LIBRARY = "libpywrap_litert_common.so"
#: SSE to AVX2 and FMA.
UP_TO_AVX2 = 0xFF
#: Where the bits are in `hardware_config`.
FLAGS_OFFSET = 8


def limit_to_avx2() -> None:
    """Raises RuntimeError where the package's library lacks the names."""
    import ai_edge_litert.interpreter  # noqa: F401  loads the library

    lines = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    mapped = [line for line in lines if line.endswith(LIBRARY)]
    if not mapped:
        raise RuntimeError(f"{LIBRARY} is not loaded")
    base, library = int(mapped[0].split("-")[0], 16), mapped[0].split()[-1]
    done = subprocess.run(["nm", library], capture_output=True, text=True, check=True)
    words = [line.split() for line in done.stdout.splitlines()]
    places = {entry[2]: base + int(entry[0], 16) for entry in words if len(entry) == 3}
    if not {"xnn_init_hardware_config", "hardware_config"} <= places.keys():
        raise RuntimeError(f"{LIBRARY} does not name XNNPACK's variables")
    ctypes.CFUNCTYPE(ctypes.c_void_p)(places["xnn_init_hardware_config"])()
    flags = ctypes.c_uint64.from_address(places["hardware_config"] + FLAGS_OFFSET)
    if not flags.value & UP_TO_AVX2:
        raise RuntimeError("XNNPACK's bits are elsewhere in this version")
    flags.value &= UP_TO_AVX2

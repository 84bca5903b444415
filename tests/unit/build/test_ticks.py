"""The 64-bit tick counter: DWT where it moves, SysTick elsewhere, over wraps of either."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library
from edgec.targets.core import find_core

HERE = Path(__file__).parent
PORTS = HERE.parents[2] / "runtime_c" / "ports"
PERIOD = 1 << 24


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("ticks")
    (folder / "ec_board.h").write_text('#include "simulated_ticks.h"\n')
    library = build_host_library(
        [PORTS / "cortex_m" / "systick.c", HERE / "simulated_ticks.c"],
        folder / "ticks.so",
        toolchain=find_toolchain(find_core("host")),
        include_dirs=[folder, PORTS, PORTS / "cortex_m", PORTS / "common", HERE],
        defines=["EC_HAVE_DWT"],
    )
    loaded = ctypes.CDLL(str(library))
    loaded.test_read.restype = ctypes.c_uint64
    loaded.test_set.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
    return loaded


@pytest.mark.parametrize("moving", [0, 1], ids=["SysTick", "DWT"])
@pytest.mark.parametrize("taken", [0, 1], ids=["interrupt due", "interrupt taken"])
def test_time_goes_on_over_wraps(core: ctypes.CDLL, moving: int, taken: int) -> None:
    core.test_start(moving)
    # An interrupt that is due waits for half a period at most.
    points = [5, PERIOD - 1, PERIOD, PERIOD + 1, 3 * PERIOD - 2 if taken else 3 * PERIOD + 1]
    points.append(3 * PERIOD + 7)
    if moving:
        points += [2**32 - 3, 2**32, 2**32 + 9, 2 * 2**32 + 12345]
    before = -1
    for point in points:
        core.test_set(point, moving, taken)
        found = core.test_read()
        # Every look at a register of the simulation takes a cycle.
        assert point <= found <= point + 4, (point, found)
        assert found > before
        before = found

"""The core engine: same bits, instruction counts, stack, and accesses outside caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgec.boards.board import all_boards
from edgec.deploy.project import Built
from edgec.errors import RunFailed
from edgec.runners.engine import open_session

pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
Digits = Callable[..., Built]


@pytest.mark.parametrize("io", ["arena", "caller"])
def test_same_bits_as_the_host(digits: Digits, images: list[np.ndarray], io: str) -> None:
    with (
        open_session("host", digits("host")) as host,
        open_session("core", digits("mps2_an386", io)) as core,
    ):
        for image in images[:3]:
            result = core.run([image])
            assert np.array_equal(result.outputs[0], host.run([image]).outputs[0])
            assert result.instructions is not None and result.instructions > 10_000
            assert result.cycles is not None and result.cycles > result.instructions
            assert result.cycles_source == "modelled"
        assert core.selftest() == 0
        core.reset()


ALONE = [b for b in all_boards() if b.core.is_simulated and not b.qemu]
#: One board of each core.
FIRST = {board.core.name: board.name for board in reversed(ALONE)}.values()


@pytest.mark.parametrize(
    "board",
    [pytest.param(b.name, marks=[pytest.mark.full] * (b.name not in FIRST)) for b in ALONE],
)
def test_boards_without_an_emulator_compute_the_same(
    digits: Digits, images: list[np.ndarray], board: str
) -> None:
    with (
        open_session("host", digits("host")) as host,
        open_session("core", digits(board)) as core,
    ):
        result = core.run([images[3]])
        assert np.array_equal(result.outputs[0], host.run([images[3]]).outputs[0])


def test_stack_is_within_the_bound(digits: Digits, images: list[np.ndarray]) -> None:
    built = digits("mps2_an386")
    with open_session("core", built) as session:
        used = session.run([images[0]]).stack_bytes
    assert built.image is not None and built.image.stack_bytes is not None
    assert used is not None and 0 < used <= built.image.stack_bytes


def test_traced_run(digits: Digits, images: list[np.ndarray]) -> None:
    with (
        open_session("host", digits("host")) as host,
        open_session("core", digits("mps2_an386")) as core,
    ):
        expected = host.run([images[1]], trace=True)
        found = core.run([images[1]], trace=True)
        plain = core.run([images[1]])
    assert found.traces.keys() == expected.traces.keys()
    assert all(np.array_equal(found.traces[i], expected.traces[i]) for i in found.traces)
    assert plain.instructions is not None
    costs = [layer.instructions for layer in found.layers]
    assert all(cost is not None and cost > 0 for cost in costs)
    # Steps are all of a run but its end, and tracing leaves the code nearly as it was.
    assert sum(cost or 0 for cost in costs) == pytest.approx(plain.instructions, rel=0.1)


def test_access_outside_the_arena_is_caught(digits: Digits, images: list[np.ndarray]) -> None:
    """Where only half of the arena is allowed, the first access to the rest is named."""
    built = digits("mps2_an386")
    with open_session("core", built) as session:
        model = session._models[False]  # type: ignore[attr-defined]
        arena = next(span for span in model._allow if span.name == "ec_main_arena")
        model._allow.remove(arena)
        model._allow.append(replace(arena, size=arena.size // 2))
        with pytest.raises(RunFailed, match="writes 1 byte at 0x"):
            session.run([images[0]])


def test_every_simulated_core_has_cycles_of_its_own(
    digits: Digits, images: list[np.ndarray]
) -> None:
    with open_session("core", digits("bbc_microbit")) as session:
        m0 = session.run([images[0]])
    assert m0.instructions is not None and m0.cycles is not None
    assert m0.cycles_range == (m0.cycles, m0.cycles)  # its manual has no ranges
    assert 1.2 < m0.cycles / m0.instructions < 1.6


def test_waits_for_flash_widen_the_range(digits: Digits, images: list[np.ndarray]) -> None:
    """The same code on the same core, with flash that never waits and with five wait states."""
    found = {}
    for board in ("mps2_an386", "netduinoplus2"):
        with open_session("core", digits(board)) as session:
            found[board] = session.run([images[0]])
    never, waits = found["mps2_an386"], found["netduinoplus2"]
    assert never.cycles and waits.cycles and never.cycles_range and waits.cycles_range
    assert never.cycles < waits.cycles < waits.cycles_range[1] < 6 * never.cycles
    assert waits.cycles_range[0] == pytest.approx(never.cycles_range[0], rel=0.02)

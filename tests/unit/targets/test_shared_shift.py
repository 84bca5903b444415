"""A shift that all channels share: multipliers are rounded only where no sum tells."""

from __future__ import annotations

import numpy as np

from edgec.loop.intrinsics import requantize_tflm
from edgec.targets.dsp.shared_shift import LEAST, MOST_LOST, SHIFT, share_shift

RNG = np.random.default_rng(5)


def scales(channels, least=LEAST, most=LEAST + 4):
    return {
        "multiplier": RNG.integers(1 << 30, 1 << 31, channels).astype(np.int32),
        "shift": -RNG.integers(least, most + 1, channels).astype(np.int8),
    }


def results(sums, multiplier, shift):
    rescaled = [requantize_tflm(int(one), int(multiplier), int(shift)) for one in sums]
    return np.clip(rescaled, 0, 255)


def test_all_sums_give_the_same_results():
    tables = scales(6)
    shared, shift = share_shift(tables, -128)
    assert shift == SHIFT
    lost = -tables["shift"].astype(int) - LEAST
    assert not (shared["multiplier"] % (1 << lost)).any()
    for before, after, e in zip(
        tables["multiplier"], shared["multiplier"], tables["shift"], strict=True
    ):
        sums = np.arange(-50, 512 << -int(e), 7 if e < -6 else 1)
        assert np.array_equal(results(sums, before, e), results(sums, after, e))


def test_shifts_that_lose_nothing_keep_their_multipliers():
    tables = scales(9, LEAST, LEAST)
    shared, shift = share_shift(tables, -128)
    assert shift == SHIFT and np.array_equal(shared["multiplier"], tables["multiplier"])


def test_one_channel_that_cannot_share_leaves_all_as_they_are():
    tables = scales(5)
    for e in (LEAST - 1, LEAST + MOST_LOST + 1):
        tables["shift"][3] = -e
        assert share_shift(tables, -128) == (tables, 0)
    assert share_shift(scales(2), 3)[1] == 0


def test_a_multiplier_that_both_ways_to_round_would_change_is_not_rounded():
    """Of many multipliers with the largest shift, not all can be rounded."""
    chosen = [share_shift(scales(1, 11, 11), -128)[1] for _ in range(60)]
    assert 0 in chosen

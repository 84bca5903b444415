"""Vibration of a rotating machine, healthy or worn: made by arithmetic with fixed seeds."""

from __future__ import annotations

import numpy as np

RATE_HZ, SAMPLES = 1600, 256
FAULTS = ("bearing", "looseness", "misalignment")


def healthy(shaft_hz: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Three harmonics of the shaft at any phase, and noise: [windows, SAMPLES]."""
    t = np.arange(SAMPLES) / RATE_HZ
    phases = rng.uniform(0, 2 * np.pi, (3, len(shaft_hz), 1))
    loudness = (
        rng.uniform(0.7, 1.3, (3, len(shaft_hz), 1)) * np.array([0.5, 0.2, 0.1])[:, None, None]
    )
    order = np.arange(1, 4)[:, None, None]
    waves = loudness * np.sin(2 * np.pi * order * shaft_hz[:, None] * t + phases)
    return waves.sum(0) + rng.normal(0, 0.03, (len(shaft_hz), SAMPLES))


def fault(kind: str, shaft_hz: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What a fault adds to it: [windows, SAMPLES]."""
    t = np.arange(SAMPLES) / RATE_HZ + rng.uniform(0, 1, (len(shaft_hz), 1))
    turns = shaft_hz[:, None] * t
    if kind == "bearing":  # a ball passes a crack 3.6 times a turn, and each time the housing rings
        since_hit = (3.6 * turns % 1) / (3.6 * shaft_hz[:, None])
        return 0.2 * np.exp(-150 * since_hit) * np.sin(2 * np.pi * 430 * since_hit)
    orders = (0.5, 1.5, 2.5) if kind == "looseness" else (4, 5, 6)
    return sum(0.065 * np.sin(2 * np.pi * order * turns + order) for order in orders)


def windows(count: int, seed: int, kind: str = "") -> np.ndarray:
    """float32 [count, 1, SAMPLES] of a machine between 1,380 and 1,620 turns a minute."""
    rng = np.random.default_rng(seed)
    shaft_hz = rng.uniform(23, 27, count)
    found = healthy(shaft_hz, rng) + (fault(kind, shaft_hz, rng) if kind else 0)
    return found.astype(np.float32)[:, None]

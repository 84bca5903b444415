"""What an accelerometer and a gyroscope feel of five gestures: arithmetic with fixed seeds."""

from __future__ import annotations

import numpy as np

RATE_HZ, SECONDS, AXES = 50, 2, 6
NAMES = ("rest", "swipe left", "swipe right", "circle", "shake")


def gesture(kind: int, rng: np.random.Generator) -> np.ndarray:
    """Three accelerations in g and three turning rates in rad/s over two seconds: [time, 6]."""
    t = np.arange(SECONDS * RATE_HZ) / RATE_HZ
    start, pace, force = rng.uniform(0.3, 0.8), rng.uniform(0.8, 1.25), rng.uniform(0.7, 1.3)
    moved = np.clip((t - start) * pace, 0, 1)  # how far the gesture has come, from 0 to 1
    active = ((moved > 0) & (moved < 1)).astype(float)
    felt = np.zeros((len(t), AXES))
    swing = force * active * np.sin(2 * np.pi * moved)  # speeds up, then slows down
    if NAMES[kind].startswith("swipe"):
        side = -1 if kind == 1 else 1
        felt[:, 0], felt[:, 5] = (
            side * 0.8 * swing,
            side * 2 * force * active * np.sin(np.pi * moved),
        )
    elif NAMES[kind] == "circle":
        turn = 2 * np.pi * 1.5 * moved
        felt[:, 0], felt[:, 1] = force * active * np.cos(turn), force * active * np.sin(turn)
    elif NAMES[kind] == "shake":
        felt[:, 1] = 1.2 * force * active * np.sin(2 * np.pi * 5 * moved)
        felt[:, 3] = 2 * force * active * np.cos(2 * np.pi * 5 * moved)
    tilt = rng.uniform(-0.3, 0.3, 2)  # the hand never holds it quite level
    felt[:, :3] += np.sin(tilt[0]), np.sin(tilt[1]), np.cos(tilt).prod()
    return felt + rng.normal(0, 0.05, felt.shape)


def data(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 [count, time, 6], and each one's number in NAMES."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(NAMES), size=count)
    return np.stack([gesture(kind, rng) for kind in labels]).astype(np.float32), labels

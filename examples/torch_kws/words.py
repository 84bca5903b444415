"""Spoken-like words, made by arithmetic, and what a spotter sees of them.

A voice is a sum of harmonics of a pitch; a vowel makes those near its two formants loud. A word is
a glide from one vowel to another, with a hiss or without. Pitch, pace, formants, loudness and place
vary from word to word, and noise is added: an example to read and run, not a benchmark.
"""

from __future__ import annotations

import numpy as np

RATE, SECOND = 8000, 8000
#: Frames of 32 ms in a second, and bands of each.
FRAMES, BANDS = 31, 20
WINDOW = SECOND // FRAMES
#: First and second formant in Hz at the start and at the end, and how loud its hiss is.
WORDS = {
    "yes": ((280, 2250), (530, 1850), 0.4),
    "no": ((450, 1100), (320, 800), 0.0),
    "go": ((380, 1500), (320, 850), 0.0),
    "left": ((530, 1850), (430, 1500), 0.3),
    "right": ((750, 1200), (300, 2200), 0.0),
}
NAMES = ("silence", *WORDS)


def spoken(name: str, random: np.random.RandomState) -> np.ndarray:
    """A second of one word: float64 [8000]."""
    noise = random.normal(size=SECOND)
    sound = noise * random.uniform(0.05, 0.4)
    if name == "silence":
        return sound
    first, last, hiss = WORDS[name]
    long = random.randint(2400, 4800)
    glide = np.linspace(0, 1, long)[:, None]
    formants = (np.array(first) * (1 - glide) + np.array(last) * glide) * random.uniform(0.85, 1.18)
    pitch = random.uniform(90, 240) * (1 + random.uniform(-0.15, 0.15) * glide)
    harmonics = pitch * np.arange(1, 36)
    loud = sum(np.exp(-(((harmonics - f[:, None]) / 130) ** 2)) for f in formants.T)
    voice = (loud * np.sin(2 * np.pi * np.cumsum(harmonics, 0) / RATE)).sum(1)
    voice += hiss * 2 * np.diff(noise[: long + 1]) * (glide[:, 0] > 0.7)
    start = random.randint(0, SECOND - long)
    sound[start : start + long] += voice * np.hanning(long) * random.uniform(0.5, 1.5)
    return sound


def features(sound: np.ndarray) -> np.ndarray:
    """The logarithm of the power in each band of each frame: float32 [FRAMES, BANDS]."""
    frames = sound[: FRAMES * WINDOW].reshape(FRAMES, WINDOW) * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)) ** 2
    hertz = np.fft.rfftfreq(WINDOW, 1 / RATE)
    mel, edges = np.log1p(hertz / 700), np.linspace(0.15, np.log1p(3900 / 700), BANDS + 2)
    rise = (mel[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - mel[:, None]) / (edges[2:] - edges[1:-1])
    bands = power @ np.clip(np.minimum(rise, fall), 0, None)
    return (np.log(bands + 1e-2) / 4).astype(np.float32)


def data(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features float32 [count, FRAMES, BANDS] and labels int64 [count], the same every time."""
    random = np.random.RandomState(seed)  # not default_rng: only this stream never changes
    labels = random.randint(0, len(NAMES), count)
    return np.stack([features(spoken(NAMES[n], random)) for n in labels]), labels

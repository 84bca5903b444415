"""Voices and noise, made by arithmetic with fixed seeds; frames and bands of them."""

from __future__ import annotations

import numpy as np

RATE_HZ, FRAME, BANDS = 8000, 128, 20
WINDOW = np.sqrt(np.hanning(2 * FRAME + 1)[:-1])
_BINS = FRAME + 1


def voice(seconds: float, rng: np.random.Generator) -> np.ndarray:
    """Syllables of a gliding pitch through two formants, with pauses between them."""
    sound = np.zeros(int(seconds * RATE_HZ))
    at = int(rng.uniform(0, 0.2) * RATE_HZ)
    while at < len(sound):
        n = min(int(rng.uniform(0.12, 0.3) * RATE_HZ), len(sound) - at)
        t = np.arange(n) / RATE_HZ
        pitch_hz = rng.uniform(90, 220) * (1 + rng.uniform(-0.3, 0.3) * t)
        formants_hz = rng.uniform((300, 900), (800, 2400))
        orders = np.arange(1, 18)[:, None]
        loudness = sum(1 / (1 + ((orders * pitch_hz - f) / 120) ** 2) for f in formants_hz)
        waves = loudness * np.sin(2 * np.pi * orders * np.cumsum(pitch_hz) / RATE_HZ)
        sound[at : at + n] = waves.sum(0) * np.hanning(n)
        at += n + int(rng.uniform(0.02, 0.25) * RATE_HZ)
    return 0.1 * sound / np.sqrt(np.mean(sound**2))


def noise(count: int, rng: np.random.Generator) -> np.ndarray:
    """A hiss through a random filter, as of a fan or a road, with a hum."""
    color = np.fft.rfft(rng.normal(size=count))
    frequency = np.linspace(0, 1, len(color))
    color *= np.exp(rng.uniform(-4, 1) * frequency)
    hum = np.sin(2 * np.pi * rng.uniform(50, 200) * np.arange(count) / RATE_HZ)
    sound = np.fft.irfft(color, count)
    sound = sound / np.sqrt(np.mean(sound**2)) + rng.uniform(0, 0.5) * hum
    return 0.1 * sound / np.sqrt(np.mean(sound**2))


def spectra(sound: np.ndarray) -> np.ndarray:
    """[frames, bins] of windows of 32 ms, one every 16 ms."""
    count = len(sound) // FRAME - 1
    return np.stack([
        np.fft.rfft(WINDOW * sound[i * FRAME : (i + 2) * FRAME]) for i in range(count)
    ])  # fmt: skip


def sound_of(frames: np.ndarray) -> np.ndarray:
    """What `spectra` were made of, but for the first and last 16 ms."""
    found = np.zeros((len(frames) + 1) * FRAME)
    for i, each in enumerate(frames):
        found[i * FRAME : (i + 2) * FRAME] += WINDOW * np.fft.irfft(each)
    return found


def _filters() -> np.ndarray:
    """Triangles [BANDS, bins], narrower at low frequencies; they add to 1."""
    middles = (_BINS - 1) * np.linspace(0, 1, BANDS) ** 1.6
    return np.stack([
        np.interp(np.arange(_BINS), middles, np.eye(BANDS)[band]) for band in range(BANDS)
    ])  # fmt: skip


FILTERS = _filters()


def bands(frames: np.ndarray) -> np.ndarray:
    """float32 [frames, BANDS]: logarithms of the energies."""
    return np.log10(np.abs(frames) ** 2 @ FILTERS.T + 1e-4).astype(np.float32)


def scene(seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A voice, and the same in noise that is about as loud as it."""
    rng = np.random.default_rng(seed)
    clean = voice(seconds, rng)
    return clean, clean + rng.uniform(0.5, 1.4) * noise(len(clean), rng)

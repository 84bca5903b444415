"""Pictures of words as a text recogniser takes them, and the text that its answers spell.

Words are made up and rendered by Pillow's own font, so nothing needs to be downloaded: the same
seed gives the same words, pictures and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HEIGHT, WIDTH = 48, 160
#: Pixels of the font's size, the smallest and the largest; words that would not fit are smaller.
FONT_SIZES = (20, 36)
#: Pixels of paper left and right of a word, the fewest and the most.
MARGINS = (2, 10)
#: Standard deviations of noise, in grey levels of 0 to 255.
MOST_NOISE = 8.0
#: The least difference between paper and ink, in grey levels.
LEAST_CONTRAST = 70
#: The class of the CTC that stands for no character.
BLANK = 0

_CONSONANTS, _VOWELS, _DIGITS = "bcdfghjklmnpqrstvwxyz", "aeiou", "0123456789"


def words(seed: int, count: int) -> list[str]:
    """`count` different words and numbers of 2 to 8 characters."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_word(rng)] = None
    return list(found)


def _word(rng: np.random.Generator) -> str:
    length = int(rng.integers(2, 9))
    if rng.random() < 0.3:
        return "".join(rng.choice(list(_DIGITS), length))
    first = int(rng.integers(2))
    letters = (rng.choice(list((_CONSONANTS, _VOWELS)[(first + n) % 2])) for n in range(length))
    word = "".join(letters)
    return (word, word.title(), word.upper())[int(rng.integers(3))]


def picture(word: str, rng: np.random.Generator) -> Array:
    """The word as an input x[1, 3, HEIGHT, WIDTH], float32 of -1 to 1: (pixel / 255 - 0.5) / 0.5.

    Sizes, places, greys of paper and ink, and noise are drawn from `rng`. Paper ends shortly after
    the word, as a detector of text cuts it; the rest is 0.
    """
    from PIL import Image, ImageDraw, ImageFont

    paper, ink = _greys(rng)
    before, behind = (int(n) for n in rng.integers(MARGINS[0], MARGINS[1] + 1, 2))
    size, most = int(rng.integers(FONT_SIZES[0], FONT_SIZES[1] + 1)), WIDTH - before - behind
    font = ImageFont.load_default(size)
    wide = font.getlength(word)
    if wide > most:
        font = ImageFont.load_default(int(size * most / wide))
    left, top, right, bottom = font.getbbox(word)
    y = (HEIGHT - (bottom - top)) / 2 + rng.uniform(-3, 3)
    image = Image.new("L", (min(int(right - left) + before + behind, WIDTH), HEIGHT), paper)
    ImageDraw.Draw(image).text((before - left, y - top), word, fill=ink, font=font)
    grey = np.asarray(image, np.float32)
    noisy = grey + rng.normal(0, rng.uniform(0, MOST_NOISE), grey.shape)
    x = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    x[..., : image.width] = (np.clip(np.rint(noisy), 0, 255) / 255 - 0.5) / 0.5
    return x


def _greys(rng: np.random.Generator) -> tuple[int, int]:
    """Paper and ink; in one of four pictures the ink is the lighter one."""
    dark = int(rng.integers(0, 256 - LEAST_CONTRAST))
    light = int(rng.integers(dark + LEAST_CONTRAST, 256))
    return (dark, light) if rng.random() < 0.25 else (light, dark)


def pictures(seed: int, texts: Sequence[str]) -> list[Array]:
    """A picture of each word."""
    rng = np.random.default_rng(seed)
    return [picture(text, rng) for text in texts]


def decoded(probabilities: Array) -> tuple[int, ...]:
    """The classes that [steps, classes] spell: the likeliest of each step, repeats and blanks out.

    Greedy decoding of connectionist temporal classification (Graves et al., ICML 2006, 3.2).
    """
    best = np.argmax(probabilities, axis=-1)
    new = np.concatenate([[True], best[1:] != best[:-1]])
    return tuple(int(each) for each in best[new & (best != BLANK)])


def edits(first: Sequence[int], second: Sequence[int]) -> int:
    """How many insertions, deletions and replacements make one of the other (Levenshtein)."""
    row = list(range(len(second) + 1))
    for n, one in enumerate(first, start=1):
        corner, row[0] = row[0], n
        for m, other in enumerate(second, start=1):
            corner, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, corner + (one != other))
    return row[-1]

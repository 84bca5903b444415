"""Pictures of words for a text recogniser, and the text that its answers spell."""

from __future__ import annotations

import numpy as np
import pytest
from word_images import HEIGHT, WIDTH, decoded, edits, pictures, words


def test_the_same_seed_gives_the_same_words() -> None:
    found = words(3, 60)
    assert found == words(3, 60) != words(4, 60)
    assert len(set(found)) == 60 and all(2 <= len(word) <= 8 for word in found)
    assert {word.isdigit() for word in found} == {True, False}
    assert words(3, 80)[:60] == found


def test_the_same_seed_gives_the_same_pictures() -> None:
    pytest.importorskip("PIL", reason="pillow is not installed")
    found = pictures(5, ["Wide word", "WWWWWWWWWWWW", "i"])
    again = pictures(5, ["Wide word", "WWWWWWWWWWWW", "j"])
    assert [np.array_equal(a, b) for a, b in zip(found, again, strict=True)] == [True, True, False]
    for picture in found:
        assert picture.shape == (1, 3, HEIGHT, WIDTH) and picture.dtype == np.float32
        assert picture.min() >= -1 and picture.max() <= 1 and np.ptp(picture) > 0.5
    assert np.any(found[1][..., WIDTH - 15 :]) and not np.any(found[2][..., WIDTH - 60 :])


def test_texts_without_repeats_and_blanks() -> None:
    steps = [0, 3, 3, 0, 3, 5, 5, 0, 0, 1]
    assert decoded(np.eye(6)[steps]) == (3, 3, 5, 1)
    assert decoded(np.eye(6)[[2, 2, 4]]) == (2, 4)
    assert decoded(np.eye(6)[[0, 0]]) == ()


def test_edits_between_texts() -> None:
    assert edits([1, 2, 3], [1, 2, 3]) == 0
    assert edits([], [1, 2]) == edits([1, 2], []) == 2
    kitten, sitting = ([ord(letter) for letter in word] for word in ("kitten", "sitting"))
    assert edits(kitten, sitting) == edits(sitting, kitten) == 3

"""Options of custom operators: numbers by name; damage is an ImportFailed, whatever it is."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from flatbuffers import flexbuffers

from edgec.errors import ImportFailed
from edgec.frontends.custom_options import decode_custom_options

OPTIONS = {"shift": 12, "fft_length": 512, "clamping": False, "name": "text", "deep": {"a": [1, 2]}}


def test_numbers_and_flags_by_name() -> None:
    found = decode_custom_options(bytes(flexbuffers.Dumps(OPTIONS)))
    assert found == {"shift": 12, "fft_length": 512, "clamping": False}
    assert decode_custom_options(b"") == {}


def test_what_is_no_map_is_refused() -> None:
    for data in (bytes(flexbuffers.Dumps([1, 2])), bytes(flexbuffers.Dumps(3)), b"\x00", b"ab"):
        with pytest.raises(ImportFailed, match="its options"):
            decode_custom_options(data)
    with pytest.raises(ImportFailed, match="65 entries"):
        decode_custom_options(bytes(flexbuffers.Dumps({f"n{i:02}": i for i in range(65)})))
    with pytest.raises(ImportFailed, match="5000 bytes"):
        decode_custom_options(bytes(5000))


def test_damaged_bytes_raise_nothing_else() -> None:
    good = bytes(flexbuffers.Dumps(OPTIONS))
    rng = np.random.default_rng(1)
    for _ in range(3000):
        data = bytearray(good[: int(rng.integers(1, len(good) + 1))])
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        with contextlib.suppress(ImportFailed):
            decode_custom_options(bytes(data))

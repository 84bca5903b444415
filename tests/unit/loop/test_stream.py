"""Streams of constants: what fields store, and that it is read back."""

import numpy as np
import pytest

from edgec.loop.stream import Digits, Field, Stream, Sums, Totals, lanes_of, rows_at, zeros


def test_fields_of_as_many_units_alternate():
    lanes = lanes_of(3, 2)  # channels 0 and 1, then 1 and 2
    stream = Stream(
        ("bias", "w"),
        lambda: [
            Field("w", np.zeros((1, 1), int), "int16"), Field("w", zeros(1, 1), "int16"),
            Field("bias", lanes, times=256), Field("w", rows_at(lanes, 2), "int8", -1, 7),
        ],
    )  # fmt: skip
    arrays = {"bias": np.array([5, -6, 7], np.int32), "w": np.array([1, 2, 3, 4, 5, 6], np.int8)}
    words = stream.pack(arrays)
    assert words.dtype == np.int32
    bytes_ = [int.from_bytes(bytes(part), "little") for part in ([6, 5, 4, 3], [4, 3, 2, 1])]
    assert words.tolist() == [1, 5 * 256, -6 * 256, bytes_[0], -6 * 256, 7 * 256, bytes_[1]]
    assert stream.words() == len(words)
    assert stream.describe() == "int16 w[2]; 2 times int32 bias[2], int8 w[4]"
    found = stream.unpack(words)
    assert {name: array.tolist() for name, array in found.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


@pytest.mark.parametrize(
    ("field", "low"),
    [
        (lambda at: Sums("w", at, "int16", (1, 256)), -127),
        (lambda at: Sums("w", at, "int16", (-1, 256)), -127),
        (lambda at: Digits("w", at, "uint8", (16, 1), (8, 0)), -8),
        (lambda at: Totals("w", at, times=np.array([[256, 16], [0, 16]])), -(1 << 22)),
        (lambda at: Field("w", at, "float32", 1 / 256), -100),
    ],
    ids=["sums", "negated", "digits", "totals", "floats"],
)
def test_what_is_stored_is_read_back(field, low):
    rng = np.random.default_rng(1)
    entries = rng.integers(low, -low, (40, 2))
    entries[0] = low
    stream = Stream(("w",), lambda: [field(np.arange(80).reshape(40, 2))])
    given = {"w": entries.astype(np.float32 if low == -100 else np.int32)}
    assert np.array_equal(stream.unpack(stream.pack(given))["w"], entries.reshape(-1))


def test_a_stream_without_whole_words_ends_in_zeros():
    stream = Stream(("w",), lambda: [Field("w", np.arange(5)[None], "int8")])
    assert stream.pack({"w": np.full(5, -1, np.int8)}).tolist() == [-1, 255]


def test_what_is_computed_is_prepared_and_restored():
    stream = Stream(
        ("shift",),
        lambda: [Field("factor", np.arange(2)[None])],
        lambda arrays: {**arrays, "factor": 1 << arrays["shift"]},
        lambda found: {**found, "shift": np.log2(found["factor"])},
    )
    words = stream.pack({"shift": np.array([3, 5])})
    assert words.tolist() == [8, 32]
    assert stream.unpack(words)["shift"].tolist() == [3, 5]


@pytest.mark.parametrize("units", [1, 2])
def test_parts_are_packed_as_one_by_one(units):
    lanes = lanes_of(units, 1)
    stream = Stream(
        ("bias", "w"),
        lambda taps: [
            Field("w", rows_at(lanes, taps)[:, 0], "int8"), Field("w", zeros(units, 2), "int8"),
            Field("moved", lanes, "int16", 3, -1),
        ],
        lambda arrays, taps: {**arrays, "moved": arrays["bias"] + arrays["w"].sum()},
    )  # fmt: skip
    rng = np.random.default_rng(5)
    arrays = {"bias": rng.integers(-9, 9, 4 * units), "w": rng.integers(-9, 9, (4, units, 3))}
    parts = [{name: array.reshape(4, -1)[i] for name, array in arrays.items()} for i in range(4)]
    expected = np.stack([stream.pack(part, taps=3) for part in parts])
    assert np.array_equal(stream.pack_parts(arrays, 4, {"taps": 3}), expected)

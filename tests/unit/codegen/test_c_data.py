"""Constants are written exactly, once, and no name can break out of a comment."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from edgec.codegen.c_data import (
    FEW_FLOATS,
    LINES_AT_ONCE,
    MOST_COMMENT,
    comment_text,
    initializer_chunks,
    make_weights,
    short_comment,
)
from edgec.codegen.c_types import literal
from edgec.errors import ContractError


def test_equal_arrays_are_written_once() -> None:
    a = np.arange(12, dtype=np.int8)
    weights = make_weights(
        "m", {"first": a, "again": a.reshape(3, 4).copy(), "other": a.astype(np.int16)}
    )
    assert [array.declaration for array in weights.arrays] == [
        "int8_t w_first[12]", "int16_t w_other[12]"
    ]  # fmt: skip
    assert weights.names["again"] == weights.names["first"] == "m_weights.w_first"
    assert weights.nbytes == 12 + 24


def test_arrays_lie_without_gaps() -> None:
    """The widest first, then the smallest, each rounded up with the zeros of C."""
    constants = {
        "bytes": np.arange(1, 6, dtype=np.int8),
        "wide": np.array([1, -1], np.int64),
        "halves": np.array([7], np.int16),
        "empty": np.zeros((0,), np.float32),
    }
    weights = make_weights("m", constants)
    assert [array.declaration for array in weights.arrays] == [
        "int64_t w_wide[2]", "float w_empty[1]", "int16_t w_halves[2]", "int8_t w_bytes[8]"
    ]  # fmt: skip
    assert [array.stored_bytes for array in weights.arrays] == [16, 4, 4, 8]
    assert weights.nbytes == 16 + 5 + 2
    stored = constants["wide"].tobytes() + bytes([0, 0, 0, 0, 7, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0])
    assert weights.crc == zlib.crc32(stored)


def test_lines_are_short_and_complete() -> None:
    array = np.random.default_rng(1).integers(-128, 128, 50_000).astype(np.int8)
    lines = "".join(initializer_chunks(array)).splitlines()
    assert max(map(len, lines)) <= 98
    numbers = [int(n) for line in lines for n in line.replace(",", " ").split()]
    assert numbers == array.tolist()


def test_many_floats_are_exact_and_have_a_point() -> None:
    random = np.random.default_rng(1)
    bits = random.integers(0, 2**32, 50_000, dtype=np.uint32).view(np.float32)
    array = np.concatenate([bits[np.isfinite(bits)], np.float32([0.0, -0.0, 1.0, 3e38, 1e-45])])
    words = "".join(initializer_chunks(array)).replace(",", " ").split()
    assert all(word.endswith("f") and "." in word for word in words)
    found = np.array([np.float32(word[:-1]) for word in words])
    assert found.tobytes() == array.tobytes()


def test_floats_without_literals_stand_among_many() -> None:
    array = np.zeros(10_000, np.float32)
    array[[3, 9_000]] = np.inf, np.nan
    text = "".join(initializer_chunks(array))
    assert text.count("(1.0f / 0.0f)") == 1 and text.count("(0.0f / 0.0f)") == 1


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-(2**31), "int32", "INT32_MIN"),
        (2**31 - 1, "int32", "2147483647"),
        (2**32 - 1, "uint32", "4294967295u"),
        (-(2**63), "int64", "INT64_MIN"),
        (5, "int64", "INT64_C(5)"),
        (0.1, "float32", "0.1f"),
        (1.0, "float32", "1.0f"),
        (1e30, "float32", "1e+30f"),
        (0.1, "float64", "0.1"),
        (-0.0, "float32", "-0.0f"),
        (float("-inf"), "float32", "(-1.0f / 0.0f)"),
    ],
)
def test_literals(value: float, dtype: str, text: str) -> None:
    assert literal(value, dtype) == text


def test_impossible_literals_are_refused() -> None:
    with pytest.raises(ContractError, match="300 is out of int8"):
        literal(300, "int8")
    with pytest.raises(ContractError):
        literal(1, "complex64")


def test_comments_cannot_be_closed() -> None:
    for text in ("*/", "**//", "a\nb", "\\", "/*", "??/"):
        safe = comment_text(text)
        assert "*/" not in safe and "/*" not in safe and "\n" not in safe and "\\" not in safe


def test_many_numbers_are_as_many_to_a_line() -> None:
    """Lines of full width, the last shorter, in chunks of a thousand lines."""
    for count in (1, 17, 18, 19, 36, 18 * LINES_AT_ONCE, 18 * LINES_AT_ONCE + 1, 40_000):
        array = np.full(count, -99, np.int8)
        chunks = list(initializer_chunks(array))
        lines = "".join(chunks).splitlines()
        assert [line.count("-99") for line in lines[:-1]] == [18] * (len(lines) - 1)
        assert sum(line.count("-99,") for line in lines) == count
        assert max(map(len, lines)) <= 98 and all(line.startswith(" " * 8 + "-") for line in lines)
        assert len(chunks) == -(-count // (18 * LINES_AT_ONCE))
    assert list(initializer_chunks(np.zeros(0, np.int32))) == []
    assert next(initializer_chunks(np.int32([-(2**31), 5]))).split(", ")[0].strip() == "INT32_MIN"
    one = "".join(initializer_chunks(np.int32([1 - 2**31])))
    assert one.strip() == "-2147483647,"
    few = "".join(initializer_chunks(np.full(FEW_FLOATS, 0.1, np.float32)))
    many = "".join(initializer_chunks(np.full(FEW_FLOATS + 1, 0.1, np.float32)))
    assert "0.1f" in few and "0.100000001f" in many and "0.1f" not in many.replace("0.1000", "")


def test_regions_have_structures_of_their_own() -> None:
    constants = {"a": np.int8([1, 2, 3]), "b": np.int16([4]), "c": np.int8([1, 2, 3])}
    weights = make_weights("m", constants, {"a": "fast"})
    assert [(part.region, part.suffix, part.upper) for part in weights.objects] == [
        ("", "", ""), ("fast", "_fast", "_FAST")
    ]  # fmt: skip
    assert [part.section for part in weights.objects] == [
        "EC_SECTION_WEIGHTS", "EC_SECTION_WEIGHTS_FAST"
    ]  # fmt: skip
    # Equal arrays in two regions are two.
    assert weights.names == {
        "a": "m_weights_fast.w_a", "b": "m_weights.w_b", "c": "m_weights.w_c"
    }  # fmt: skip
    assert [part.stored_bytes for part in weights.objects] == [8, 4]
    assert weights.stored_bytes == 12 and weights.nbytes == 2 + 3 + 3
    stored = [b"".join(map(bytes, part.bytes)) for part in weights.objects]
    assert weights.crc == zlib.crc32(b"".join(stored))
    assert [array.member for array in weights.arrays] == ["w_b", "w_c", "w_a"]
    assert [array.comment for array in weights.arrays] == [
        "b: int16[1]", "c: int8[3]", "a: int8[3]"
    ]  # fmt: skip


def test_checksums_are_of_what_c_fixes() -> None:
    assert make_weights("m", {}).crc is None
    assert make_weights("m", {"a": np.float32([np.nan])}).crc is None
    assert make_weights("m", {"a": np.float32([np.inf])}).crc is not None
    big = np.array([1, 2], ">i4")
    assert make_weights("m", {"a": big}).crc == zlib.crc32(big.astype("<i4").tobytes())


def test_long_comments_lose_their_middle() -> None:
    fits, long = "x" * MOST_COMMENT, "a" * 60 + "b" * 60
    assert short_comment(fits) == fits
    short = short_comment(long)
    assert len(short) == MOST_COMMENT - 1 and short == f"{'a' * 41} ... {'b' * 41}"
    assert short_comment("*/" * 50).count("*/") == 0


def test_the_structure_ends_at_a_multiple_of_its_largest_element() -> None:
    constants = {"wide": np.ones(1, np.int64), "narrow": np.ones(3, np.int8)}
    (part,) = make_weights("m", constants).objects
    assert (part.stored_bytes, part.struct_bytes) == (12, 16)

"""The RP2040's boot stage: the words in C are the assembled source, with the boot ROM's CRC."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgec.resources import resource_dir

PORT = resource_dir("runtime_c") / "ports" / "rp2040"
STAGE_BYTES = 256


def stored_words() -> list[int]:
    text = (PORT / "boot2.c").read_text()
    body, last = re.search(r"= \{(.*)\[63\] = (\w+)u,", text, re.S).groups()  # type: ignore[union-attr]
    words = [int(word, 16) for word in re.findall(r"0x[0-9A-F]+", body)]
    return [*words, *[0] * (63 - len(words)), int(last, 16)]


def crc32_of_the_boot_rom(data: bytes) -> int:
    """RP2040 datasheet, 2.8.1.3.1: polynomial 0x04C11DB7, from all ones, no reflection."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


def test_the_checksum_is_right() -> None:
    *words, checksum = stored_words()
    data = b"".join(word.to_bytes(4, "little") for word in words)
    assert len(data) == STAGE_BYTES - 4
    assert crc32_of_the_boot_rom(data) == checksum


def test_the_words_are_the_source(tmp_path: Path) -> None:
    gcc, objcopy = (shutil.which(f"arm-none-eabi-{tool}") for tool in ("gcc", "objcopy"))
    if gcc is None or objcopy is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    made, raw = tmp_path / "boot2.o", tmp_path / "boot2.bin"
    subprocess.run([gcc, "-c", str(PORT / "boot2.S"), "-o", str(made)], check=True)
    subprocess.run([objcopy, "-O", "binary", str(made), str(raw)], check=True)
    words = stored_words()[:-1]
    stored = b"".join(word.to_bytes(4, "little") for word in words)
    assert raw.read_bytes().ljust(len(stored), b"\0") == stored

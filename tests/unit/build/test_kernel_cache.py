"""Compiled kernels that are kept: found again, unless anything differs or a file is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgec.build import kernel_cache, nvrtc
from edgec.build.kernel_cache import find_images, keep_images, key_of
from edgec.codegen.gpu_text import Images
from edgec.errors import ToolMissing

IMAGES = Images("a compiler", "sm_87", "// some PTX\n", b"\x7fELF\n\x00\xff")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def test_what_is_kept_is_found() -> None:
    key = key_of("source", "sm_87")
    assert find_images(key) is None
    keep_images(key, IMAGES)
    assert find_images(key) == IMAGES
    assert find_images(key_of("source", "sm_90")) is None


def test_a_damaged_file_is_as_good_as_none(cache: Path) -> None:
    key = key_of("source")
    keep_images(key, IMAGES)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    damaged = [whole[:-1], whole + b"x", whole[20:], b"", b"{}\n", whole.replace(b"PTX", b"PTY")]
    for data in damaged:
        file.write_bytes(data)
        assert find_images(key) is None
    keep_images(key, IMAGES)
    assert find_images(key) == IMAGES


def test_the_oldest_files_go(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "MOST_FILES", 3)
    for number in range(5):
        keep_images(str(number), IMAGES)
        os.utime(cache / f"{number}.ec", (number, number))
    assert sorted(file.stem for file in cache.iterdir()) == ["2", "3", "4"]


def test_a_cache_that_cannot_be_written_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE", "/dev/null")
    keep_images("key", IMAGES)
    assert find_images("key") is None


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="edgec[cuda] is not installed")
def test_kernels_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'extern "C" __global__ void f(int *x) { x[0] = 1; }'
    first = nvrtc.compile_kernels.__wrapped__(source, "sm_87")

    def gone(path: Path) -> None:
        raise ToolMissing("NVRTC was called")

    monkeypatch.setattr(nvrtc, "_Nvrtc", gone)
    assert nvrtc.compile_kernels.__wrapped__(source, "sm_87") == first
    with pytest.raises(ToolMissing, match="NVRTC was called"):
        nvrtc.compile_kernels.__wrapped__(source, "sm_90")

"""Input files that are no inputs: one error, and no more memory than their size warrants."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgec.errors import EdgecError
from edgec.runners import inputs


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros(3, np.float32))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes", "no array")
    with pytest.raises(EdgecError, match="member 'notes' is not an array"):
        inputs.load_arrays(path)


def test_an_archive_that_expands_beyond_measure(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(300 << 18, np.float32))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(EdgecError, match=r"compressed bytes expand to 314,[0-9,]+"):
        inputs.load_arrays(path)


def test_archives_of_samples_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BYTES", 1000)
    path, data = tmp_path / "x.npz", np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8)
    np.savez_compressed(path, x=data)
    np.testing.assert_array_equal(inputs.load_arrays(path)["x"], data)


def test_a_shape_that_is_no_number(tmp_path: Path) -> None:
    """NumPy takes `True` for an extent until it reads the elements."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}"
    head = text + b" " * (117 - len(text)) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(4)
    (tmp_path / "x.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(EdgecError, match=f"cannot read .*{name} as a NumPy file"):
            inputs.load_arrays(tmp_path / name)

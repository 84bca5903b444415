"""What is no file is refused before it is read: a device has no end, a pipe may have no writer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.boards.board import load_board
from edgec.errors import EdgecError
from edgec.loop.tuned import read_tuned
from edgec.report.classes import read_labels
from edgec.resources import plain_file
from edgec.runners.inputs import load_arrays
from edgec.runners.media_files import read_sound
from edgec.runners.pool import load_devices

READERS = [load_arrays, read_sound, read_tuned, read_labels, load_devices, load_board]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_pipes_and_devices_are_refused_at_once(read: Callable[[Path], Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "device.toml").symlink_to("/dev/null")  # ends at once, if it is read after all
    for name in ("pipe.toml", "device.toml"):
        with pytest.raises(EdgecError, match="it is a pipe or a device, not a file"):
            read(tmp_path / name)


def test_files_folders_and_what_is_absent_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to(tmp_path / "f")
    for name in ("f", "link", "absent", "."):
        assert plain_file(tmp_path / name) == tmp_path / name

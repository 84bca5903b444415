"""UF2: boot loaders that appear as a USB drive; the program is copied onto it as one file."""

from __future__ import annotations

import os
import shutil
import string
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from edgec.runners.flash.image import uf2_bytes
from edgec.runners.flash.runner import Flashed, FlashFailed, FlashTool, Job, Progress

_INFO = "INFO_UF2.TXT"
_RESTART_TIMEOUT_S = 20.0


class Uf2(FlashTool):
    """Keys: `family`, the number of the chip's family; `board_id`, a text that the drive's
    INFO_UF2.TXT must hold (optional, but without it any such drive is taken)."""

    name = "uf2"
    keys = frozenset({"family", "board_id"})

    def flash(self, job: Job, progress: Progress | None = None) -> Flashed:
        """Copy, and wait until the drive goes: then the boot loader has taken every block."""
        drive = find_drive(drives(), job.option(self.name, "board_id", ""))
        target = drive / "firmware.uf2"
        data = uf2_bytes(job.image, int(job.option(self.name, "family"), 0))
        copy(data, target)
        end = time.monotonic() + _RESTART_TIMEOUT_S
        while (drive / _INFO).exists():
            if time.monotonic() > end:
                raise FlashFailed(
                    f"{drive} is still there {_RESTART_TIMEOUT_S:.0f} s after the copy",
                    details=("a boot loader that has taken a whole program starts it",),
                    hint="is `family` in the board's file the chip's?",
                )
            time.sleep(0.1)
        return Flashed(
            "taken by the boot loader",
            ("UF2 cannot read back: `edgec run` asks the program itself",),
        )


def copy(data: bytes, target: Path) -> None:
    """Write the file through to the drive. Raises FlashFailed when that is not possible."""
    is_written = False
    try:
        with target.open("wb") as stream:
            stream.write(data)
            stream.flush()
            is_written = True
            os.fsync(stream.fileno())
    except OSError as error:
        # A boot loader may restart before the host has closed the file, but not before it has all.
        if not is_written or (target.parent / _INFO).exists():
            raise FlashFailed(f"cannot write {target}: {error.strerror}") from error


def drives() -> Iterable[Path]:
    """Return the folders at which USB drives may be mounted."""
    if sys.platform == "win32":
        return [Path(f"{letter}:/") for letter in string.ascii_uppercase]
    if sys.platform == "darwin":
        return sorted(Path("/Volumes").glob("*"))
    roots = [Path("/media"), Path("/run/media"), Path("/mnt")]
    return sorted(path for root in roots for part in ("*", "*/*") for path in root.glob(part))


def find_drive(folders: Iterable[Path], board_id: str) -> Path:
    """Return the one UF2 drive whose description holds `board_id`. Raises FlashFailed."""
    found: list[Path] = []
    others: list[str] = []
    for folder in folders:
        try:
            text = (folder / _INFO).read_text("utf-8", "replace")
        except OSError:
            continue
        if board_id in text:
            found.append(folder)
        else:
            others.append(f"{folder}: {' / '.join(text.split(chr(10))[1:3])}")
    if len(found) == 1:
        return found[0]
    if found:
        raise FlashFailed(
            "there are several UF2 drives",
            details=tuple(map(str, found)),
            hint="disconnect all but one, or give the board's file a `board_id`",
        )
    raise FlashFailed(
        "there is no UF2 drive" + (f" of '{board_id}'" if board_id else ""),
        details=tuple(others),
        hint="press reset twice, or hold BOOTSEL while you plug the board in; then mount the drive"
        + ("" if shutil.which("udisksctl") is None else " (`udisksctl mount -b DEVICE`)"),
    )

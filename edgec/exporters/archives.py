"""Archives whose bytes depend on their content alone: no clock, no user, no order of a disk."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping

#: The earliest time that a zip file can hold, instead of the current one.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """A compressed zip file with these files, in the order of their paths."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[path])
    return buffer.getvalue()


def tar_bytes(files: Mapping[str, bytes]) -> bytes:
    """A tar file with these files under `./`, in the order of their paths."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(f"./{path}")
            entry.size = len(files[path])
            archive.addfile(entry, io.BytesIO(files[path]))
    return buffer.getvalue()

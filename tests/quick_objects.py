"""C for this computer that is compiled quickly where that will do.

Kernels for a desktop's vectors take gcc seconds with -O3. Tests of bits and instructions compile
them as they ship. Tests of what is around them (the command line, the quantizer), and builds whose
values are all looked at, have gcc leave the optimization out.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgec.boards.toolchain import Toolchain
from edgec.deploy.project import TRACE_DEFINE

#: How hosts' libraries are compiled by default.
SHIPPED_LEVEL = "-O3"
_run = Toolchain.run


class QuickObjects:
    """The compiler of this process, once installed."""

    #: Whether C for this computer is compiled without optimization.
    is_quick = False

    @classmethod
    def install(cls) -> None:
        """Compile by way of this class from now on, in this process."""
        Toolchain.run = cls._compile  # type: ignore[method-assign, assignment]

    @staticmethod
    def _compile(
        toolchain: Toolchain, command: Sequence[str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """What `Toolchain.run` gives."""
        is_host = toolchain.family == "gcc" and not toolchain.core.is_embedded
        if is_host and (QuickObjects.is_quick or f"-D{TRACE_DEFINE}" in command):
            command = ["-O0" if word == SHIPPED_LEVEL else word for word in command]
        return _run(toolchain, command, folder)

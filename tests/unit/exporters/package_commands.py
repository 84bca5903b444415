"""Commands that the tests of packages run: edgec's own and other tools'."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from edgec.cli.main import main


def edgec(*words: object) -> int:
    """The exit code of an edgec command, run in this process."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    return int(stopped.value.code or 0)


def run(*command: object, cwd: Path, **more: str) -> str:
    """What a command prints; it must succeed. more: environment variables."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **more}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout

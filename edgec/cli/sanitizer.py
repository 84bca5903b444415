"""`--sanitize`: the command once more in a process of its own, where memory is checked.

A library with gcc's address sanitizer loads only into a program that started with its runtime.
"""

from __future__ import annotations

import os
import subprocess
import sys

import click

sanitize_option = click.option(
    "--sanitize", is_flag=True,
    help="Check every access to memory with gcc's address sanitizer, and undefined behaviour "
    "(engine gpu_emulation).",
)  # fmt: skip

#: The status that the sanitizers end a process with: none of edgec's own.
FOUND = 99


def run_sanitized(wanted: bool, engine: str | None) -> None:
    """If requested, run this command under the sanitizer and exit with its status.

    Returns if there is nothing to do. Raises UsageError for another engine, ToolMissing without the
    sanitizer, RunFailed for its findings, which are on standard error.
    """
    from edgec.runners.gpu_emulation import is_checked, require_sanitizer

    if not wanted:
        return
    if engine != "gpu_emulation":
        raise click.UsageError("--sanitize is for --engine gpu_emulation")
    if is_checked():
        return
    checks = {
        "LD_PRELOAD": str(require_sanitizer()),
        "ASAN_OPTIONS": f"detect_leaks=0:exitcode={FOUND}",
        "UBSAN_OPTIONS": f"exitcode={FOUND}",
    }
    context = click.get_current_context()
    command = [sys.executable, "-m", "edgec", *context.obj]
    status = subprocess.run(command, env={**os.environ, **checks}, check=False).returncode
    _require_clean(status)
    context.exit(status)


def _require_clean(status: int) -> None:
    """Raise RunFailed for a process that the sanitizer, or a signal, ended."""
    from edgec.errors import RunFailed

    if status == FOUND or status < 0:
        what = "the sanitizer stopped it" if status == FOUND else f"signal {-status} ended it"
        raise RunFailed(
            f"the model reaches outside of its memory, or has undefined behaviour in C: {what}",
            details=("the report is on standard error, above",),
            hint="unless the kernels were changed, this is a bug in edgec",
        )

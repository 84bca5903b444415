"""Files of Python that declare custom operators: they run as they are loaded."""

from __future__ import annotations

import runpy
from pathlib import Path

from edgec.errors import EdgecError, ImportFailed


def load_custom_ops(path: Path) -> None:
    """Run a file of `edgec.custom_op(...)` calls. Raises ImportFailed where it fails itself."""
    try:
        runpy.run_path(str(path))
    except EdgecError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code
        raise ImportFailed(
            f"{path} failed: {type(error).__name__}: {error}",
            hint="it is Python that calls edgec.custom_op(...) for each operator",
        ) from error

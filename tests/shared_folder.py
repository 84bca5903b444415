"""Where the sample models and data are: data only, which no copy of the repository has."""

from __future__ import annotations

import os
from pathlib import Path

SHARED_VARIABLE = "EDGEC_SHARED"


def find_shared() -> Path:
    """The folder of sample models and data: $EDGEC_SHARED, or `shared` beside the repository."""
    return Path(os.environ.get(SHARED_VARIABLE) or Path(__file__).resolve().parents[2] / "shared")

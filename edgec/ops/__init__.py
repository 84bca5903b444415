"""One file per operator or operator family; `load` registers them all."""

from __future__ import annotations

import functools
import importlib
import pkgutil


@functools.cache
def load() -> None:
    """Import every operator file of this package, so that each registers itself."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")

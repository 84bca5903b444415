"""edgec: an ahead-of-time compiler for neural networks on small machines.

import edgec

with edgec.compile("model.tflite", board="stm32") as model:
    y = model.run(x)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.api import Model, compile, from_torch, quantize, verify
    from edgec.dynamo.backend import explain
    from edgec.errors import EdgecError
    from edgec.ops.custom import declare as custom_op
    from edgec.training.quantize_aware import quantize_aware

__version__ = "0.1.0"
__all__ = [
    "EdgecError", "Model", "__version__", "compile", "custom_op", "explain", "from_torch",
    "quantize", "quantize_aware", "verify",
]  # fmt: skip

#: Where each name is defined.
_HOMES = {
    "EdgecError": "edgec.errors.EdgecError",
    "Model": "edgec.api.Model",
    "compile": "edgec.api.compile",
    "custom_op": "edgec.ops.custom.declare",
    "explain": "edgec.dynamo.backend.explain",
    "from_torch": "edgec.api.from_torch",
    "quantize": "edgec.api.quantize",
    "quantize_aware": "edgec.training.quantize_aware.quantize_aware",
    "verify": "edgec.api.verify",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `import edgec` and `--help` stay fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].rpartition(".")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

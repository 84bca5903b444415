"""edgec: an ahead-of-time compiler for neural networks on small machines.

import edgec

with edgec.compile("model.tflite", board="stm32") as model:
    y = model.run(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Unpack

    from edgec.api import Model, Progress, TorchModel
    from edgec.dynamo.backend import Part
    from edgec.options import CompileOptions
    from edgec.oracle.verify import Verification
    from edgec.training.quantize_aware import QuantizeAware

__version__ = "0.1.0"


def compile(
    path: str | Path,
    *,
    board: str = "host",
    engine: str | None = None,
    output: str | Path | None = None,
    calibration: Iterable[Sequence[Any]] | None = None,
    progress: Progress | None = None,
    **options: Unpack[CompileOptions],
) -> Model:
    """Compile and build a model file: see `edgec.api.compile`."""
    from edgec.api import compile as compile_file  # keeps `import edgec` and `--help` fast

    return compile_file(
        path, board=board, engine=engine, output=output, calibration=calibration,
        progress=progress, **options,
    )  # fmt: skip


def verify(path: str | Path, **words: Any) -> Verification:
    """Compare a board with the model's own framework: see `edgec.api.verify`."""
    from edgec.api import verify as verify_file

    return verify_file(path, **words)


def from_torch(module: Any, example_inputs: Any = (), **options: Any) -> TorchModel:
    """Import a PyTorch module: see `edgec.api.from_torch`."""
    from edgec.api import from_torch as import_module

    return import_module(module, example_inputs, **options)


def explain(module: Any, inputs: Any) -> tuple[Part, ...]:
    """Which parts of a module `torch.compile(module, backend="edgec")` runs as C, and why not all:
    see `edgec.dynamo.backend.explain`."""
    from edgec.dynamo.backend import explain as explain_parts

    return explain_parts(module, inputs)


def custom_op(**declaration: Any) -> None:
    """Declare an operator that a C function of yours computes: see `edgec.ops.custom.declare`."""
    from edgec.ops.custom import declare

    declare(**declaration)


def quantize_aware(module: Any, samples: Any, **recipe: Any) -> QuantizeAware:
    """A module that is trained in the integers that will run: see
    `edgec.training.quantize_aware.quantize_aware`."""
    from edgec.training.quantize_aware import quantize_aware as aware

    return aware(module, samples, **recipe)

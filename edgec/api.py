"""The Python interface: `edgec.compile(path, board=...).run(x)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from edgec.boards.board import Board, load_board
from edgec.build.staging import staged_file, work_folder
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.ir import Module
from edgec.graph.types import Array
from edgec.options import Options
from edgec.pipeline import Compiled, compile_module, read_model
from edgec.quantize.float_model import float_function
from edgec.quantize.post_training import PostTraining, Recipe, quantize_function
from edgec.report.summary import build_report
from edgec.runners.engine import default_engine, open_session, require_engine
from edgec.runners.inputs import fit_input


class Model:
    """A model compiled and built for a board; a context manager that owns its engine.

    `report` has the figures of `edgec build --json`.
    """

    def __init__(self, compiled: Compiled, built: Built, board: Board, engine: str | None) -> None:
        self.compiled = compiled
        self.built = built
        self.board = board
        self.engine = engine or default_engine(board, None)
        self.report = build_report(compiled, built)
        self._session: Any = None
        self._folder = ExitStack()

    def run(self, *inputs: Array) -> Any:
        """Run one inference; see `run_all` for its cost.

        inputs: one array per input, in the model's own shape and dtype (a leading axis of 1 may
        be left out). Returns the output array, or a tuple of arrays if there are several.
        Raises EdgecError for a wrong number of inputs, shape or dtype.
        """
        outputs = self.run_all(inputs).outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_all(self, inputs: Sequence[Array]) -> Any:
        """Run one inference and return outputs, instructions, cycles and stack bytes."""
        ports = self.built.manifest.inputs
        if len(inputs) != len(ports):
            raise EdgecError(f"{len(ports)} inputs are needed, {len(inputs)} were given")
        arrays = [fit_input(np.asarray(x), port) for x, port in zip(inputs, ports, strict=True)]
        if self._session is None:
            self._session = open_session(self.engine, self.built).__enter__()
        return self._session.run(arrays)

    def reset(self) -> None:
        """Give the model's state its initial values; between runs it is kept."""
        if self._session is not None:
            self._session.reset()

    def close(self) -> None:
        """Stop the engine and remove the temporary project, if it was one."""
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None
        self._folder.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compile(
    path: str | Path,
    *,
    board: str = "host",
    engine: str | None = None,
    output: str | Path | None = None,
    calibration: Iterable[Sequence[Array]] | None = None,
    **options: Any,
) -> Model:
    """Compile and build a model file for a board.

    output: the project folder to write; a temporary one if None. calibration: samples that a float
    model is first made int8 with, each the arrays of the inputs; read once, one by one. options:
    fields of `edgec.options.Options`. Raises EdgecError with what is wrong and what to do.
    """
    chosen = load_board(board)
    name = engine or default_engine(chosen)
    require_engine(name, chosen)  # before all the work
    compiled = _compiled(Path(path), chosen, Options(**options), calibration)
    return _built(compiled, chosen, name, output)


class TorchModel:
    """A PyTorch module as edgec sees it: imported, not yet built.

    module: the graph. Made by `from_torch`.
    """

    def __init__(self, module: Module) -> None:
        self.module = module

    def quantize(
        self, samples: Iterable[Sequence[Any]], *, from_start: bool = False, **recipe: Any
    ) -> TorchModel:
        """The same model in integers; parameters as of `quantize`, samples may be tensors."""
        arrays = ([np.asarray(value) for value in sample] for sample in samples)
        function = float_function(self.module, from_start=from_start)
        made = quantize_function(function, arrays, Recipe(**recipe))
        return TorchModel(made.module(self.module.source))

    def build(
        self,
        *,
        board: str = "host",
        engine: str | None = None,
        output: str | Path | None = None,
        **options: Any,
    ) -> Model:
        """Compile and build for a board; parameters as of `compile`."""
        chosen = load_board(board)
        name = engine or default_engine(chosen)
        require_engine(name, chosen)
        compiled = compile_module(self.module, chosen.core, Options(**options), board=chosen)
        return _built(compiled, chosen, name, output)


def from_torch(module: Any, example_inputs: Sequence[Any]) -> TorchModel:
    """Import a PyTorch module (`torch.nn.Module`) or an `ExportedProgram`.

    example_inputs: tensors of the shapes and dtypes that the model will get. Buffers that the
    module changes become state that is kept between runs. Raises ImportFailed with every operator
    that is not supported, by module name and source line; ToolMissing without torch.
    """
    from edgec.frontends.torch_export import exported, import_program

    is_program = hasattr(module, "graph_signature")
    program = module if is_program else exported(module, example_inputs)
    name = "model" if is_program else type(module).__name__.lower()
    return TorchModel(import_program(program, f"{name}.pt2"))


def _built(compiled: Compiled, board: Board, engine: str, output: str | Path | None) -> Model:
    """A compiled model as a project in `output`, or in a folder that goes with the model."""
    with ExitStack() as folder:
        if output is None:
            output = folder.enter_context(work_folder("model")) / "project"
        model = Model(compiled, deploy(compiled, board, Path(output)), board, engine)
        model._folder = folder.pop_all()
    return model


def quantize(
    path: str | Path,
    samples: Iterable[Sequence[Array]],
    *,
    output: str | Path | None = None,
    from_start: bool = False,
    **recipe: Any,
) -> PostTraining:
    """Make a float model int8: what `edgec quantize` does.

    samples: each the arrays of the model's inputs, float32 in their own shapes; read once, one by
    one. output: where the QDQ model (`.onnx`) is written. from_start: each sample is a
    sequence of its own, so that states are what they are at first. recipe: fields of
    `edgec.quantize.post_training.Recipe`. Raises EdgecError with what is wrong and what to do.
    """
    function = float_function(import_model(Path(path)), from_start=from_start)
    made = quantize_function(function, samples, Recipe(**recipe))
    if output is not None:
        from edgec.frontends.onnx_writer import onnx_bytes  # onnx takes a while to import

        with staged_file(Path(output), hint="choose another output") as temporary:
            temporary.write_bytes(onnx_bytes(made.quantized.function))
    return made


def _compiled(
    path: Path, board: Board, options: Options, calibration: Iterable[Sequence[Array]] | None
) -> Compiled:
    module = read_model(path, options)
    if calibration is not None:
        made = quantize_function(float_function(module), calibration, Recipe())
        module = made.module(module.source)
    return compile_module(module, board.core, options, board=board)

"""The Python interface: `edgec.compile(path, board=...).run(x)`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from edgec.boards.board import Board, load_board
from edgec.build.staging import staged_file, work_folder
from edgec.codegen.manifest import PortEntry
from edgec.deploy.project import Built, deploy
from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.extents import at_largest
from edgec.graph.index_limits import index_limits
from edgec.graph.ir import Module
from edgec.graph.open_function import input_extents, opened_function
from edgec.graph.types import Array
from edgec.loop.tuned import beside, read_tuned
from edgec.ops.open_constant import with_cuts_again, with_views_of, without_cuts
from edgec.options import CompileOptions, Options
from edgec.pipeline import Compiled, compile_module, read_model
from edgec.quantizer.float_model import float_function
from edgec.quantizer.open_states import close_states, open_states, samples_with_states
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function
from edgec.report.notebook import BuildReport, Quantization, model_html
from edgec.report.summary import build_report
from edgec.runners.engine import default_engine, open_session, require_engine
from edgec.runners.inputs import fit_input
from edgec.runners.samples import generate_inputs, within_limits

if TYPE_CHECKING:
    from edgec.oracle.verify import Verification

#: Called with the current work, and how much of it is done: `("calibrating", 3, 100)`, 0 of 0 if
#: unknown. It runs in the thread that does the work; its exceptions end the work.
Progress = Callable[[str, int, int], None]


class Model:
    """A model compiled and built for a board; a context manager that owns its engine.

    `report` has the figures of `edgec build --json`.
    """

    def __init__(self, compiled: Compiled, built: Built, board: Board, engine: str | None) -> None:
        self.compiled = compiled
        self.built = built
        self.board = board
        self.engine = engine or default_engine(board, None)
        self.report = BuildReport(build_report(compiled, built))
        self._session: Any = None
        self._closed = False
        self._folder = ExitStack()

    @property
    def inputs(self) -> tuple[PortEntry, ...]:
        """The inputs in order: `name`, `dtype`, `shape`; for integers `scale` and `zero_point`."""
        return self.built.manifest.inputs

    @property
    def outputs(self) -> tuple[PortEntry, ...]:
        """The outputs in order, as `inputs`."""
        return self.built.manifest.answers

    def run(self, *inputs: Array, **named: Array) -> Any:
        """Run one inference; see `run_all` for its cost.

        inputs: one array per input, in the model's own shape and dtype (a leading axis of 1 may
        be left out), in order; those that are left out come from `named`, by the inputs' names in
        the model or in C. Returns the output array, or a tuple of arrays if there are several.
        Raises EdgecError for a wrong number or name of inputs, shape or dtype.
        """
        outputs = self.run_all(self._in_order(inputs, named)).outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run_named(self, *inputs: Array, **named: Array) -> dict[str, Array]:
        """Run one inference; return the outputs by their names in the model."""
        outputs = self.run_all(self._in_order(inputs, named)).outputs
        return dict(zip((port.name for port in self.outputs), outputs, strict=True))

    def run_all(self, inputs: Sequence[Array]) -> Any:
        """Run one inference and return outputs, instructions, cycles and stack bytes."""
        if self._closed:
            raise EdgecError(
                f"the model {self.built.manifest.model} is closed", hint="compile it again"
            )
        if len(inputs) != len(self.inputs):
            raise EdgecError(f"{len(self.inputs)} inputs are needed, {len(inputs)} were given")
        arrays = [
            fit_input(np.asarray(x), port) for x, port in zip(inputs, self.inputs, strict=True)
        ]
        if self._session is None:
            self._session = open_session(self.engine, self.built).__enter__()
        return self._session.run(arrays)

    def _in_order(self, inputs: Sequence[Array], named: Mapping[str, Array]) -> list[Array]:
        ports = self.inputs[len(inputs) :]
        known = {name: port for port in ports for name in (port.name, port.c_name)}
        for name in named:
            if name not in known:
                raise EdgecError(
                    f"{name!r} is not an input, or was given before",
                    hint=f"inputs: {', '.join(port.name for port in self.inputs)}",
                )
        given = {known[name].name: array for name, array in named.items()}
        return [*inputs, *(given[port.name] for port in ports if port.name in given)]

    def _repr_html_(self) -> str:
        """Tables of inputs, outputs, sizes and layers, for notebooks."""
        return model_html(self.built.manifest, self.report)

    def reset(self) -> None:
        """Give the model's state its initial values; between runs it is kept."""
        if self._session is not None:
            self._session.reset()

    def close(self) -> None:
        """Stop the engine and remove the temporary project, if it was one."""
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None
        self._closed = True
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
    progress: Progress | None = None,
    **options: Unpack[CompileOptions],
) -> Model:
    """Compile and build a model file for a board.

    output: the project folder to write; a temporary one if None. calibration: samples that a float
    model is first made int8 with, each the arrays of the inputs; read once, one by one. progress:
    hears how far it is. options: fields of `edgec.options.Options`. Raises EdgecError with what is
    wrong and what to do.
    """
    chosen = load_board(board)
    name = engine or default_engine(chosen)
    require_engine(name, chosen)  # before all the work
    compiled = _compiled(Path(path), chosen, Options.of_words(options), calibration, progress)
    return _built(compiled, chosen, name, output, progress)


def verify(
    path: str | Path,
    *,
    board: str = "host",
    engine: str | None = None,
    inputs: Iterable[Sequence[Array]] | None = None,
    random: int = 4,
    layers: bool = False,
    reference: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[CompileOptions],
) -> Verification:
    """Compare a board's values with the model's own framework, as `edgec verify` does."""
    from edgec.oracle.verify import Runner, verify_model

    chosen = load_board(board)
    name = engine or default_engine(chosen)
    require_engine(name, chosen)
    read = Options.of_words(options)
    if inputs is None:
        main = at_largest(read_model(Path(path), read).main)
        types = [(param.type.shape, param.type.dtype) for param in main.inputs]
        drawn = (generate_inputs(seed, types) for seed in range(1, random + 1))
        inputs = [within_limits(arrays, index_limits(main)) for arrays in drawn]
    runner = Runner(name, progress=progress)
    with work_folder("verify") as work:
        return verify_model(
            Path(path), chosen, read, runner, inputs, work, layers=layers, reference=reference
        )


class TorchModel:
    """A PyTorch module as edgec sees it: imported, not yet built.

    module: the graph. made: of a quantized one, what was decided and why (`made.explain(samples)`).
    Made by `from_torch`.
    """

    def __init__(self, module: Module, made: PostTraining | None = None) -> None:
        self.module, self.made = module, made

    def quantize(
        self,
        samples: Iterable[Sequence[Any]],
        *,
        from_start: bool = False,
        progress: Progress | None = None,
        **recipe: Any,
    ) -> TorchModel:
        """The same model in integers; parameters as of `quantize`, samples may be tensors.

        State is kept from each sample to the next, unless they start anew (`from_start`). Where a
        batch is open, a sample's rows are repeated up to the largest.
        """
        extents = input_extents(self.module.main)
        main, cuts = without_cuts(self.module.main)
        shapes = [param.type.shape if extents else () for param in main.inputs]
        arrays: Iterable[Sequence[Array]] = (_filled(sample, shapes) for sample in samples)
        states = () if from_start else main.states
        if states:
            arrays = samples_with_states(main, arrays)
            main = open_states(main)
        module = replace(self.module, functions={"main": main})
        function = float_function(module, from_start=from_start)
        arrays = _with_progress(arrays, samples, progress)
        made = Quantization.of(quantize_function(function, arrays, Recipe(**recipe)))
        quantized = made.module(self.module.source)
        closed = with_views_of(close_states(quantized.main, states), self.module.main)
        again = with_cuts_again(closed, cuts) if cuts else closed
        opened = opened_function(again, extents) if extents else closed
        return TorchModel(replace(quantized, functions={"main": opened}), made)

    def build(
        self,
        *,
        board: str = "host",
        engine: str | None = None,
        output: str | Path | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Model:
        """Compile and build for a board; parameters as of `compile`."""
        chosen = load_board(board)
        name = engine or default_engine(chosen)
        require_engine(name, chosen)
        _tell(progress, "compiling")
        compiled = compile_module(self.module, chosen.core, Options.of_words(options), board=chosen)
        return _built(compiled, chosen, name, output, progress)


def _filled(sample: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """A sample as arrays; rows are repeated up to these shapes, if any."""
    arrays = [np.asarray(value) for value in sample]
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=False)):
        if array.size and len(shape) == array.ndim:
            missing = [
                (0, max(most - own, 0)) for most, own in zip(shape, array.shape, strict=True)
            ]
            arrays[number] = np.pad(array, missing, mode="wrap")
    return arrays


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> TorchModel:
    """Import a PyTorch module (`torch.nn.Module`) or an `ExportedProgram`.

    example_inputs, kwargs: the arguments of `forward`, tensors of the shapes and dtypes that the
    model will get, and numbers, which are fixed; tensors inside lists, dicts and dataclasses are
    inputs in the order of torch's `tree_leaves`. dynamic_shapes: the dimensions that are open, as
    `torch.export.export` takes them; each needs a largest value.
    Buffers that the module changes become state that is kept between runs. Raises ImportFailed with
    every operator that is not supported, by module name and source line; ToolMissing without torch.
    """
    from edgec.frontends.torch_export import exported, import_program
    from edgec.frontends.torch_sizes import has_open_sizes, import_dynamic, import_open

    if hasattr(module, "edgec_module"):  # of `quantize_aware`: its integers
        return TorchModel(module.edgec_module())
    is_program = hasattr(module, "graph_signature")
    source = "model.pt2" if is_program else f"{type(module).__name__.lower()}.pt2"
    if not is_program and dynamic_shapes is not None:
        given = example_inputs, kwargs
        return TorchModel(import_dynamic(module, given, dynamic_shapes, source))
    program = module if is_program else exported(module, example_inputs, kwargs=kwargs)
    if not has_open_sizes(program):
        return TorchModel(import_program(program, source))
    return TorchModel(import_open(program, program.module(), source))


def _tell(progress: Progress | None, what: str, done: int = 0, total: int = 0) -> None:
    if progress is not None:
        progress(what, done, total)


def _with_progress(
    arrays: Iterable[Sequence[Array]], samples: object, progress: Progress | None
) -> Iterator[Sequence[Array]]:
    """The samples; each is reported when it is taken."""
    total = len(samples) if isinstance(samples, Sized) else 0
    for number, sample in enumerate(arrays, 1):
        _tell(progress, "calibrating", number, total)
        yield sample
    _tell(progress, "choosing ranges")


def _built(
    compiled: Compiled,
    board: Board,
    engine: str,
    output: str | Path | None,
    progress: Progress | None = None,
) -> Model:
    """A compiled model as a project in `output`, or in a folder that goes with the model."""
    _tell(progress, f"building for {board.name}")
    with ExitStack() as folder:
        if output is None:
            output = folder.enter_context(work_folder("model")) / "project"
        model = Model(compiled, deploy(compiled, board, Path(output)), board, engine)
        model._folder = folder.pop_all()
        weakref.finalize(model, model._folder.close)  # also when Python ends
    return model


def quantize(
    path: str | Path,
    samples: Iterable[Sequence[Array]],
    *,
    output: str | Path | None = None,
    from_start: bool = False,
    progress: Progress | None = None,
    **recipe: Any,
) -> Quantization:
    """Make a float model int8, as `edgec quantize` does.

    samples: each the arrays of the model's inputs, float32 in their own shapes; read once, one by
    one. output: where the QDQ model (`.onnx`) is written. from_start: each sample is a separate
    sequence that starts from the initial states. progress: called with the progress. recipe: fields
    of `edgec.quantizer.post_training.Recipe`. Raises EdgecError with what is wrong and what to do.
    """
    function = float_function(import_model(Path(path)), from_start=from_start)
    samples_of = _with_progress(samples, samples, progress)
    made = Quantization.of(quantize_function(function, samples_of, Recipe(**recipe)))
    if output is not None:
        from edgec.frontends.onnx_writer import onnx_bytes  # onnx takes a while to import

        with staged_file(Path(output), hint="choose another output") as temporary:
            temporary.write_bytes(onnx_bytes(made.quantized.function))
    return made


def _compiled(
    path: Path,
    board: Board,
    options: Options,
    calibration: Iterable[Sequence[Array]] | None,
    progress: Progress | None,
) -> Compiled:
    file = None if options.tuned.groups or options.tuned.is_alone else beside(path)
    if file is not None:
        options = replace(options, tuned=read_tuned(file))
    _tell(progress, f"reading {path.name}")
    module = read_model(path, options)
    if calibration is not None:
        samples = _with_progress(calibration, calibration, progress)
        made = quantize_function(float_function(module), samples, Recipe())
        module = made.module(module.source)
    _tell(progress, f"compiling {path.name}")
    return compile_module(module, board.core, options, board=board)

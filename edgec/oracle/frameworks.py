"""Oracles: the results of a model's own framework, for models and for every tensor inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ImportFailed, RunFailed, ToolMissing
from edgec.frontends.onnx_file import read_onnx
from edgec.ops.tflite_windows import WRONG_REFERENCES
from edgec.oracle.builtin_operators import with_builtin_operators
from edgec.oracle.onnx_edits import as_uint8, edit_onnx, float_weights_of_integers

Array = npt.NDArray[Any]


#: An optimizer of ONNX Runtime that makes one of two pairs of QuantizeLinear and DequantizeLinear
#: in a row, with parameters that are not in the file.
PAIRS_REMOVER = "DoubleQDQPairsRemover"
#: An optimizer that stores float weights between quantized values in int8, and float biases in
#: int32. Biases must be, else a convolution is computed in floats; weights must not.
WEIGHT_QUANTIZER = "WeightBiasQuantization"


@dataclass(frozen=True)
class OracleResult:
    """The result of one inference.

    `outputs` are the model's outputs in file order. `tensors` maps the source tensor's name to
    its value, for the inputs and every tensor that an operator computes (constants are left
    out); `indexed` holds the same values by TFLite tensor index of subgraph 0, and is what
    distinguishes tensors that share a name (`tensors` then holds the first). Both are empty
    when tensors were not asked for.
    """

    outputs: tuple[Array, ...]
    tensors: Mapping[str, Array] = field(default_factory=dict)
    indexed: Mapping[int, Array] = field(default_factory=dict)


class Oracle:
    """A model opened in its own framework. Runs many inputs; keeps state until `reset`.

    some_in_floats: it computes some integers in floats, so that it rounds otherwise at times.
    """

    name = ""
    some_in_floats = False

    def __init__(self, model_file: Path) -> None:
        self.model_file = model_file

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        """Return (name, shape, dtype) of each input in file order."""
        raise NotImplementedError

    def run(self, inputs: Sequence[Array], *, tensors: bool = False) -> OracleResult:
        """Run one inference on `inputs` (file order, exact shapes and dtypes).

        Raises RunFailed for wrong inputs or when the framework refuses to run.
        """
        checked = self._check(inputs)
        try:
            return self._run(checked, tensors)
        except (RuntimeError, ValueError) as error:
            raise RunFailed(
                f"{self.name} failed to run {self.model_file.name}", details=(str(error).strip(),)
            ) from error

    def reset(self) -> None:
        """Reset the model's state (variables, RNN state) to its value after opening."""

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        raise NotImplementedError

    def _check(self, inputs: Sequence[Array]) -> list[Array]:
        expected = self.input_types()
        if len(inputs) != len(expected):
            raise RunFailed(
                f"{self.model_file.name} takes {len(expected)} inputs, {len(inputs)} were given"
            )
        for (name, shape, dtype), value in zip(expected, inputs, strict=True):
            # A symbolic dimension has no number to compare with; ONNX Runtime checks those.
            same = len(value.shape) == len(shape) and all(
                want in (-1, got) for want, got in zip(shape, value.shape, strict=True)
            )
            if not same or value.dtype != dtype:
                raise RunFailed(
                    f"input '{name}' of {self.model_file.name} is {dtype} {list(shape)}, "
                    f"was given {value.dtype} {list(value.shape)}"
                )
        return [np.asarray(value, order="C") for value in inputs]


class TfliteMicroOracle(Oracle):
    """TFLite Micro's interpreter, keeping every tensor."""

    name = "tflm"

    def __init__(self, model_file: Path) -> None:
        super().__init__(model_file)
        try:
            from tflite_micro import runtime
        except ImportError as error:
            raise _missing("tflite_micro", error) from error
        data = _read(model_file)
        self._graph = _TfliteTensors(model_file, data)
        # Every tensor kept: all of them at once, and persistent data of the kernels beside them.
        arena = max(10 * len(data), 2 * self._graph.activation_bytes() + (4 << 20))
        self._open = partial(
            runtime.Interpreter.from_bytes,
            data,
            arena_size=arena,
            intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
        )
        self.reset()

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        return self._graph.inputs

    def reset(self) -> None:
        """Reset the model's state to its value after opening.

        By opening it again: the interpreter's own reset leaves resource variables at zero, as
        CALL_ONCE does not run a second time.
        """
        try:
            self._interpreter = self._open()
        except (RuntimeError, ValueError) as error:
            raise RunFailed(
                f"TFLite Micro refused {self.model_file.name}",
                details=(str(error).strip(),),
                hint="compare with LiteRT instead: --reference litert",
            ) from error

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        for index, value in enumerate(inputs):
            self._interpreter.set_input(value, index)
        self._interpreter.invoke()
        outputs = tuple(
            np.array(self._interpreter.get_output(index))
            for index in range(self._graph.output_count)
        )
        if not tensors:
            return OracleResult(outputs)
        # GetTensor crashes the process for an index out of range: only ask for known ones.
        indexed = {
            index: np.array(self._interpreter.GetTensor(index, 0)["tensor_data"])
            for index in self._graph.computed
        }
        return OracleResult(outputs, self._graph.by_name(indexed), indexed)


class LiteRtOracle(Oracle):
    """LiteRT with its reference kernels (BUILTIN_REF), keeping every tensor.

    A model with operators whose reference kernel is missing or wrong takes the default kernels.
    MediaPipe's custom operators, which LiteRT does not support, are replaced by LiteRT's own first.
    """

    name = "litert"

    def __init__(self, model_file: Path) -> None:
        super().__init__(model_file)
        try:
            import tflite
            from ai_edge_litert import interpreter
        except ImportError as error:
            raise _missing("ai_edge_litert", error) from error
        data = _read(model_file)
        self._graph = _TfliteTensors(model_file, data)
        wrong = {getattr(tflite.BuiltinOperator, kind) for kind in WRONG_REFERENCES}
        kinds = interpreter.OpResolverType
        resolvers = [kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES]
        if wrong & self._graph.kinds:
            del resolvers[0]
        try:
            content = with_builtin_operators(data)
            self._interpreter = _first_that_knows(interpreter.Interpreter, content, resolvers)
        except (RuntimeError, ValueError) as error:
            raise RunFailed(
                f"LiteRT refused {model_file.name}", details=(str(error).strip(),)
            ) from error

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        return self._graph.inputs

    def reset(self) -> None:
        self._interpreter.reset_all_variables()

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        details = self._interpreter.get_input_details()
        for entry, value in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(entry["index"], value)
        self._interpreter.invoke()
        outputs = tuple(
            np.array(self._interpreter.get_tensor(entry["index"]))
            for entry in self._interpreter.get_output_details()
        )
        if not tensors:
            return OracleResult(outputs)
        indexed = {
            index: np.array(self._interpreter.get_tensor(index)) for index in self._graph.computed
        }
        return OracleResult(outputs, self._graph.by_name(indexed), indexed)


def _first_that_knows(interpreter: Any, content: bytes, resolvers: Sequence[Any]) -> Any:
    """An interpreter with the first kernels that have all of a model's operators."""
    for number, resolver in enumerate(resolvers, 1):
        try:
            made = interpreter(
                model_content=content, experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=True, num_threads=1,
            )  # fmt: skip
            made.allocate_tensors()
        except ValueError as error:
            if number == len(resolvers) or "Didn't find op" not in str(error):
                raise
        else:
            return made
    raise ValueError("no kernels were given")


class OnnxRuntimeOracle(Oracle):
    """ONNX Runtime on the CPU, one thread.

    `outputs` come from the file after edits that make the runtime compute a QDQ model's integers
    (`edgec/oracle/onnx_edits.py`). Tensors come from copies with more graph outputs. A float output
    between Conv and QuantizeLinear would keep the runtime from fusing the QDQ pattern into one
    integer operator, so one copy shows only integer tensors (the results of QuantizeLinear, which
    are the fused operators' own outputs, so fusion stays) and floats that no integer tensor depends
    on, and a second one shows the rest, computed in float. `quantized` names the integer tensors
    from the first copy: a fused integer model must equal their bits. The results of their
    DequantizeLinear nodes are computed here from these bits.
    """

    name = "onnx"
    some_in_floats = True  # it has integer kernels of int8 and uint8 alone, and not of all

    def __init__(self, model_file: Path, values: Mapping[str, float] | None = None) -> None:
        """values: of inputs that are always this number, and that `run` is not given."""
        super().__init__(model_file)
        try:
            import onnxruntime
        except ImportError as error:
            raise _missing("onnxruntime", error) from error
        self._onnxruntime = onnxruntime
        self._data, changed = edit_onnx(read_onnx(model_file).SerializeToString())
        self._moved = changed["int8_values"]
        self._session = self._open(self._data)
        self._values = dict(values or {})
        self._integer: Any = None
        self._float: Any = None
        self.quantized: frozenset[str] = frozenset()
        self._dequantized: list[tuple[str, str, Array, Array]] = []

    def input_types(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any]], ...]:
        return tuple(
            (
                entry.name,
                tuple(size if isinstance(size, int) else -1 for size in entry.shape),
                _onnx_dtype(entry.type),
            )
            for entry in self._session.get_inputs()
            if entry.name not in self._values
        )

    def _open(self, data: bytes) -> Any:
        options = self._onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only
        # Without this, x86 runs int8 activations as uint8 with instructions that saturate pairs of
        # products at 16 bits: then results depend on the CPU and differ from the file's meaning.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        # Without this, products by weights of 4 or 8 bits round their float inputs to 8 bits.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        unwanted = [PAIRS_REMOVER]
        try:
            if float_weights_of_integers(data):
                unwanted.append(WEIGHT_QUANTIZER)
            return self._onnxruntime.InferenceSession(
                data, options, providers=["CPUExecutionProvider"], disabled_optimizers=unwanted
            )
        # Its exceptions share no base class but Exception.
        except Exception as error:
            raise ImportFailed(
                f"ONNX Runtime cannot read {self.model_file.name}", details=(str(error).strip(),)
            ) from error

    def _open_tensors(self) -> None:
        """Make the two copies whose intermediate tensors are outputs."""
        import onnx

        model = onnx.load_model_from_string(self._data)
        shown = {entry.name for entry in model.graph.output}
        integer: list[str] = []
        others: list[str] = []
        stored: set[str] = set()
        for node in model.graph.node:
            is_stored = node.op_type == "QuantizeLinear" or (
                node.op_type == "Clip" and node.input[0] in stored
            )
            target = integer if is_stored else others
            if is_stored:
                stored.update(node.output)
            target.extend(name for name in node.output if name and name not in shown)
        self.quantized = frozenset(integer)
        self._dequantized = _dequantized(onnx, model, self.quantized)
        if integer:
            before = _before_quantize(model)
            integer += [name for name in others if name not in before]
            others = [name for name in others if name in before]
        self._integer = self._open(_with_outputs(model, integer)) if integer else self._session
        self._float = self._open(_with_outputs(model, others)) if others else self._session

    def _run(self, inputs: Sequence[Array], tensors: bool) -> OracleResult:
        feed = {name: value for (name, _, _), value in zip(self.input_types(), inputs, strict=True)}
        for entry in self._session.get_inputs():
            if entry.name in self._values:
                shape = [size if isinstance(size, int) else 1 for size in entry.shape]
                number = np.full(shape, self._values[entry.name])
                feed[entry.name] = number.astype(_onnx_dtype(entry.type))
        outputs = tuple(np.asarray(value) for value in self._call(self._session, feed))
        if not tensors:
            return OracleResult(outputs)
        if self._integer is None:
            self._open_tensors()
        found: dict[str, Array] = {}
        for session in (self._float, self._integer, self._session):  # the later is the better
            names = [entry.name for entry in session.get_outputs()]
            for name, value in zip(names, self._call(session, feed), strict=True):
                found[name] = np.asarray(value)
        for stored, real, scale, zero_point in self._dequantized:
            difference = found[stored].astype(np.int64) - zero_point
            found[real] = difference.astype(np.float32) * scale
        found.update((name, as_uint8(found[name])) for name in self._moved & set(found))
        found.update(feed)
        return OracleResult(outputs, found)

    def _call(self, session: Any, feed: dict[str, Array]) -> list[Any]:
        try:
            result: list[Any] = session.run(None, feed)
        except Exception as error:  # no common base class
            raise RuntimeError(str(error)) from error
        return result


#: The only reference that runs files of this suffix.
_REFERENCES = {".onnx": "onnx", ".pt2": "torch"}


def open_oracle(
    model_file: Path, reference: str | None = None, values: Mapping[str, float] | None = None
) -> Oracle:
    """Open `model_file` in `reference` ("tflm", "litert", "onnx", "torch"; None: by its ending).

    values: of inputs of an ONNX file that are always this number (`Options.input_values`).

    Raises ToolMissing when the package is absent, ImportFailed or RunFailed when the framework
    refuses the file.
    """
    name = reference or _REFERENCES.get(model_file.suffix, TfliteMicroOracle.name)
    oracles: dict[str, Callable[[Path], Oracle]] = {
        TfliteMicroOracle.name: TfliteMicroOracle,
        LiteRtOracle.name: LiteRtOracle,
        OnnxRuntimeOracle.name: partial(OnnxRuntimeOracle, values=values),
        "torch": _open_torch,
    }
    if name not in oracles:
        raise RunFailed(f"no reference is called '{name}'", hint=f"known: {', '.join(oracles)}")
    own = _REFERENCES.get(model_file.suffix)
    if name != own and (own is not None or name in _REFERENCES.values()):
        raise RunFailed(
            f"the reference {name} cannot run {model_file.name}",
            hint="onnx runs .onnx files, torch .pt2 files, tflm and litert .tflite files",
        )
    return oracles[name](model_file)


def _open_torch(model_file: Path) -> Oracle:
    from edgec.oracle.torch_program import TorchOracle

    return TorchOracle(model_file)


class _TfliteTensors:
    """Names, shapes and roles of the tensors of a .tflite file's first subgraph."""

    def __init__(self, model_file: Path, data: bytes) -> None:
        import tflite

        try:
            model = tflite.Model.GetRootAs(data)
            graph = model.Subgraphs(0)
            codes = (model.OperatorCodes(n) for n in range(model.OperatorCodesLength()))
            self.kinds = {max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes}
            self._types = [_tensor_type(tflite, tensor) for tensor in _all_tensors(graph)]
            inputs = [int(graph.Inputs(i)) for i in range(graph.InputsLength())]
            self.output_count = int(graph.OutputsLength())
            written = {
                int(op.Outputs(i))
                for op in (graph.Operators(n) for n in range(graph.OperatorsLength()))
                for i in range(op.OutputsLength())
            }
            states = {i for i, t in enumerate(_all_tensors(graph)) if t.IsVariable()}
        # The flatbuffer reader has no verifier: a damaged file raises whatever it hits first.
        except Exception as error:
            raise ImportFailed(
                f"{model_file.name} is not a readable TFLite file", details=(repr(error),)
            ) from error
        self.inputs = tuple(self._types[index] for index in inputs)
        self.computed = sorted(
            index
            for index in {*inputs, *written, *states}
            if index >= 0 and self._types[index][2] != np.dtype(np.void)
        )

    def activation_bytes(self) -> int:
        """Return the bytes of all tensors that an inference writes."""
        return sum(
            int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            for _, shape, dtype in (self._types[index] for index in self.computed)
        )

    def by_name(self, indexed: Mapping[int, Array]) -> dict[str, Array]:
        """Return the same tensors by name, the first of each name."""
        named: dict[str, Array] = {}
        for index, value in indexed.items():
            named.setdefault(self._types[index][0], value)
        return named


def _all_tensors(graph: Any) -> Iterator[Any]:
    for index in range(graph.TensorsLength()):
        yield graph.Tensors(index)


def _tensor_type(tflite: Any, tensor: Any) -> tuple[str, tuple[int, ...], np.dtype[Any]]:
    kinds = tflite.TensorType
    known = {
        kinds.FLOAT32: np.float32,
        kinds.FLOAT16: np.float16,
        kinds.FLOAT64: np.float64,
        kinds.INT8: np.int8,
        kinds.UINT8: np.uint8,
        kinds.INT16: np.int16,
        kinds.UINT16: np.uint16,
        kinds.INT32: np.int32,
        kinds.UINT32: np.uint32,
        kinds.INT64: np.int64,
        kinds.UINT64: np.uint64,
        kinds.BOOL: np.bool_,
    }
    shape = tuple(int(tensor.Shape(i)) for i in range(tensor.ShapeLength()))
    # void stands for types without an array: resource handles, strings.
    dtype: np.dtype[Any] = np.dtype(known.get(tensor.Type(), np.void))
    return (tensor.Name() or b"").decode("utf-8", "replace"), shape, dtype


def _onnx_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of ONNX Runtime's type text, such as "tensor(float)".

    Raises RunFailed for types that numpy lacks.
    """
    inner = text.removeprefix("tensor(").removesuffix(")")
    names = {"float": "float32", "double": "float64"}
    try:
        return np.dtype(names.get(inner, inner))
    except TypeError as error:
        raise RunFailed(
            f"ONNX Runtime takes no inputs of {inner} from Python",
            hint="compare a model that has a float32 input and casts it",
        ) from error


def _before_quantize(model: Any) -> set[str]:
    """Tensors that a QuantizeLinear reads, or something that it reads is made of."""
    found: set[str] = set()
    for node in reversed(model.graph.node):
        if node.op_type == "QuantizeLinear" or not found.isdisjoint(node.output):
            found.update(node.input)
    return found


def _dequantized(
    onnx: Any, model: Any, stored: frozenset[str]
) -> list[tuple[str, str, Array, Array]]:
    """(integers, floats, scale, zero point) of values that are dequantized with one scale."""
    constants = {entry.name: entry for entry in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in stored:
            continue
        if all(name in constants for name in node.input[1:]):
            arrays = [onnx.numpy_helper.to_array(constants[name]) for name in node.input[1:]]
            scale, zero_point = (*arrays, np.zeros(1, np.int64))[:2]
            if scale.size == 1 and scale.dtype == np.float32:
                parameters = scale.reshape(()), zero_point.astype(np.int64).reshape(())
                found.append((node.input[0], node.output[0], *parameters))
    return found


def _with_outputs(model: Any, names: Sequence[str]) -> bytes:
    """Return the model's bytes with `names` as further graph outputs; types are inferred."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    data: bytes = copy.SerializeToString()
    return data


def _read(model_file: Path) -> bytes:
    try:
        return model_file.read_bytes()
    except OSError as error:
        raise ImportFailed(f"cannot read {model_file}: {error.strerror}") from error


def _missing(package: str, error: ImportError) -> ToolMissing:
    return ToolMissing(
        f"the reference to compare with needs the Python package {package}",
        details=(str(error),),
        hint='pip install "edgec[verify]"',
    )

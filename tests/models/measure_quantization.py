"""Measure quantization for `docs/quantization.toml`, of which `make docs` makes a page.

    python tests/models/measure_quantization.py [NAME...]     all cases, or these

Samples are dealt into four parts. Float models are calibrated on each part in turn and compared on
the three others, with the published int8 file of the same model and with ONNX Runtime's static
quantizer given the same samples, by its defaults and with weights per channel: every sample is
compared three times, with three calibrations none of which it was part of. Cases whose files are
not there are left as they are in the table.
OPENBLAS_NUM_THREADS=1 is faster where the machine has other work.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

REPO_ROOT = Path(__file__).resolve().parents[2]
TABLE = REPO_ROOT / "docs" / "quantization.toml"
sys.path.insert(0, str(REPO_ROOT / "tests"))

from measured_table import write_entry  # noqa: E402  tests are no package
from quantized_files import float_function  # noqa: E402  tests are no package
from shared_folder import find_shared  # noqa: E402  tests are no package

from edgec import __version__  # noqa: E402
from edgec.frontends import import_model  # noqa: E402
from edgec.frontends.onnx_writer import to_onnx  # noqa: E402
from edgec.graph.ir import Function  # noqa: E402
from edgec.oracle.frameworks import open_oracle  # noqa: E402
from edgec.passes.sequence import run_passes  # noqa: E402
from edgec.quantizer.batches import Batch, parts_of  # noqa: E402
from edgec.quantizer.float_model import without_states  # noqa: E402
from edgec.quantizer.post_training import Recipe, quantize_function  # noqa: E402
from edgec.report.mlperf_data import area_under_curve, load_samples  # noqa: E402

#: Parts that samples are dealt into.
PARTS = 4
#: Samples of a set, and windows of a recording, at most.
MOST = 5000
MOST_WINDOWS = 60
#: Half a step of an int8 softmax, which says 0 for all that is less.
LEAST_PROBABILITY = 1 / 512
#: From inputs one by one to the outputs of each, [inputs, elements].
Run = Callable[[Sequence[np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Case:
    """float_file: relative to the repository or the samples. key: of the benchmark's data.

    from_start: each sample is a sequence of its own. most: samples that are taken.
    """

    float_file: str
    published: str
    key: str
    from_start: bool = False
    most: int = MOST


CASES = {
    "digits": Case("examples/digits/digits_float.onnx", "examples/digits/digits_int8.onnx", ""),
    "kws": Case("mlperf_kws_dscnn_f32.tflite", "mlperf_kws_dscnn_int8.tflite", "kws"),
    "ic": Case("mlperf_ic_resnet8_f32.tflite", "mlperf_ic_resnet8_int8.tflite", "ic"),
    "ic, from ONNX": Case("mlperf_ic_resnet8_f32.onnx", "mlperf_ic_resnet8_int8.tflite", "ic"),
    "vww": Case("mlperf_vww_mbv1_f32.tflite", "mlperf_vww_mbv1_int8.tflite", "vww"),
    "vww, from ONNX": Case("mlperf_vww_mbv1_f32.onnx", "mlperf_vww_mbv1_int8.tflite", "vww"),
    "ad": Case("mlperf_ad_autoencoder_f32.tflite", "mlperf_ad_autoencoder_int8.tflite", "ad"),
    "lstm": Case("tflm_mnist_lstm_f32.tflite", "tflm_mnist_lstm_int8.tflite", "mnist", True, 2000),
}


def file_of(name: str) -> Path:
    return REPO_ROOT / name if "/" in name else find_shared() / "models" / name


@dataclass(frozen=True)
class Data:
    """Real inputs in the float model's channels-last shape, and a label for each.

    groups: which recording an input is a part of, for anomaly detection.
    """

    inputs: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None


def data_of(case: Case, published: Function) -> Data:
    """What the published model's stored inputs stand for."""
    if not case.key:
        stored = np.load(REPO_ROOT / "examples" / "digits" / "digits_test.npz")
        return Data(stored["x"].astype(np.float32), stored["y"].astype(int))
    if case.key == "kws":
        stored = np.load(find_shared() / "data" / "speechcmd_v2_test_dev_mfcc49x10.npz")
        return Data(stored["mfcc"][..., np.newaxis].astype(np.float32), stored["y"].astype(int))
    if case.key == "mnist":
        with np.load(find_shared() / "data" / "mnist_test_dev.npz") as stored:
            pixels = stored["x"].reshape(-1, 28, 28).astype(np.float32)
            return Data(pixels / np.float32(255), stored["y"].astype(int))
    samples = load_samples(case.key, find_shared() / "data", MOST_WINDOWS if case.key == "ad"
                           else MOST)  # fmt: skip
    if case.key == "ad":
        windows = [np.frombuffer(x, "<f4") for sample in samples for x in sample.inputs]
        groups = [n for n, sample in enumerate(samples) for _ in sample.inputs]
        labels = [sample.label or 0 for sample in samples]
        return Data(np.stack(windows), np.array(labels), np.array(groups))
    scale, zero_point = published.inputs[0].type.scalar_quant()
    bytes_ = np.stack([np.frombuffer(sample.inputs[0], np.uint8) for sample in samples])
    real = (bytes_.astype(np.float32) - 128 - zero_point) * np.float32(scale)
    shape = published.inputs[0].type.shape[1:]
    return Data(real.reshape(-1, *shape), np.array([sample.label for sample in samples]))


def fitted(inputs: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Inputs one by one in a model's own shape, channels-first if it is so."""
    if len(shape) == 4 and inputs.ndim == 4 and inputs.shape[1:] != shape[1:]:
        inputs = inputs.transpose(0, 3, 1, 2)
    return [np.ascontiguousarray(x.reshape(shape)) for x in inputs]


def by_reference(function: Function) -> Run:
    def run(inputs: Sequence[np.ndarray]) -> np.ndarray:
        batch = Batch(function)
        parts = parts_of([[x] for x in inputs], batch.count)
        return np.concatenate([rows_of(batch.run(part)[0], len(part[0])) for part in parts])

    return run


def rows_of(outputs: np.ndarray, count: int) -> np.ndarray:
    return np.asarray(outputs).reshape(count, -1)


def by_published(path: Path, function: Function) -> Run:
    """The published file on real inputs, its output as real numbers."""
    x_type, y_type = function.inputs[0].type, function.outputs[0].type
    if x_type.quant is None or y_type.quant is None:
        return by_reference(function)
    (scale, zero), (y_scale, y_zero) = x_type.scalar_quant(), y_type.scalar_quant()

    run_stored = by_reference(function)

    def run(inputs: Sequence[np.ndarray]) -> np.ndarray:
        stored = [
            np.clip(np.rint(x / np.float32(scale)) + zero, -128, 127).astype(np.int8)
            for x in inputs
        ]
        found = run_stored([x.reshape(x_type.shape) for x in stored])
        return (found.astype(np.float32) - y_zero) * np.float32(y_scale)

    return run


def without_limits(function: Function) -> Function:
    """Without limits of LSTMs' cells, which ONNX does not know."""
    nodes = tuple(
        replace(node, attrs=replace(node.attrs, clip=0.0)) if node.op.name == "lstm_float" else node
        for node in function.nodes
    )
    return function.with_nodes(nodes, function.results)


def by_onnxruntime(
    function: Function, samples: Sequence[np.ndarray], folder: Path, *, per_channel: bool
) -> Run:
    """ONNX Runtime's static quantizer with its defaults, QDQ, int8.

    per_channel: with a scale for each channel of weights, which is not its default.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    source, target = folder / "float.onnx", folder / "int8.onnx"
    model = to_onnx(function, producer_version=__version__)
    source.write_bytes(model.SerializeToString())
    name = model.graph.input[0].name

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self.left, None)
            return None if sample is None else {name: sample}

    quantize_static(
        source, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=per_channel,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    oracle = open_oracle(target)
    return lambda inputs: np.stack([np.asarray(oracle.run([x]).outputs[0]).reshape(-1)
                                    for x in inputs])  # fmt: skip


def decibels(exact: np.ndarray, found: np.ndarray) -> float:
    noise = float(np.sum((exact.astype(np.float64) - found) ** 2))
    return 10 * math.log10(float(np.sum(exact.astype(np.float64) ** 2)) / noise) if noise else 99.9


def log_loss(outputs: np.ndarray, labels: np.ndarray, is_logits: bool) -> float:
    """The mean of -ln p, with p the probability that outputs give to the right answer.

    At least `LEAST_PROBABILITY`. is_logits: a softmax makes probabilities of them.
    """
    values = outputs.astype(np.float64)
    if is_logits:
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        values = powers / powers.sum(axis=1, keepdims=True)
    given = values[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(given, LEAST_PROBABILITY)).mean())


def are_logits(outputs: np.ndarray) -> bool:
    """Whether outputs [samples, classes] are no probabilities yet."""
    return bool(np.any(np.abs(outputs.sum(axis=1) - 1) > 1e-3))


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values)).astype(np.float64)


@dataclass(frozen=True)
class Dealt:
    """A case with its samples dealt into parts: what stands for one sample stands at one place.

    kept: which samples of the set. part_of: the part of each. others: the same inputs in the layout
    of the published file, which may differ from the float file's.
    """

    function: Function
    path: Path
    published: Function
    data: Data
    kept: np.ndarray
    part_of: np.ndarray
    inputs: list[np.ndarray]
    others: list[np.ndarray]

    def calibration(self, part: int) -> list[np.ndarray]:
        return [self.inputs[n] for n in np.flatnonzero(self.part_of == part)]

    def after(self, part: int, count: int) -> np.ndarray:
        """The places of the samples of `count` parts after one."""
        return np.flatnonzero((self.part_of - part - 1) % PARTS < count)


def deal(case: Case, most: int | None = None) -> Dealt:
    """most: samples, spread over the set."""
    function = float_function(file_of(case.float_file), from_start=case.from_start)
    path = file_of(case.published)
    module = import_model(path)
    main = without_states(module.main) if case.from_start else module.main
    published = run_passes(main, "onnx" if module.format == "onnx" else "tflm")
    data = data_of(case, published)
    count = min(most or case.most, len(data.inputs))
    kept = np.unique(np.linspace(0, len(data.inputs) - 1, count).astype(int))
    inputs, others = (
        fitted(data.inputs[kept], each.inputs[0].type.shape) for each in (function, published)
    )
    return Dealt(
        function, path, published, data, kept, np.arange(len(kept)) % PARTS, inputs, others
    )


#: The quantizers that are given samples.
QUANTIZERS = ("ours", "per_channel", "onnxruntime")
WHO = ("float", "published", *QUANTIZERS)


def quantized_outputs(
    function: Function, calibration: Sequence[np.ndarray], tests: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """What the integers that each quantizer makes of a float function answer."""
    made = quantize_function(function, [[x] for x in calibration], Recipe())
    with tempfile.TemporaryDirectory() as folder:
        theirs = [
            by_onnxruntime(without_limits(function), calibration, Path(folder), per_channel=per)
            for per in (True, False)
        ]
        runs = (by_reference(made.integers), *theirs)
        return {who: run(tests) for who, run in zip(QUANTIZERS, runs, strict=True)}


def measure(
    case: Case,
    most: int | None = None,
    parts: Sequence[int] = range(PARTS),
    compared: int = PARTS - 1,
) -> dict[str, Any]:
    """All figures of one case.

    most: samples, spread over the set. parts: those that are calibrated with, in turn. compared:
    parts after it that each is compared on.
    """
    dealt = deal(case, most)
    data, kept, inputs = dealt.data, dealt.kept, dealt.inputs
    outputs: dict[str, list[np.ndarray]] = {who: [] for who in WHO}
    tested: list[int] = []
    wanted = by_reference(dealt.function)(inputs)
    makers = by_published(dealt.path, dealt.published)(dealt.others)
    for part in parts:
        test = dealt.after(part, compared)
        tests = [inputs[n] for n in test]
        rows = quantized_outputs(dealt.function, dealt.calibration(part), tests)
        for who, row in {"float": wanted[test], "published": makers[test], **rows}.items():
            outputs[who].append(row)
        tested += test.tolist()
    found = {who: np.concatenate(rows) for who, rows in outputs.items()}
    entry: dict[str, Any] = {
        "calibration": len(kept) // PARTS, "samples": len(set(tested)), "runs": len(tested)
    }  # fmt: skip
    for who in WHO[1:]:
        entry[f"{who}_db"] = round(decibels(found["float"], found[who]), 2)
    if data.groups is None:
        return {**entry, **_answers(found, data.labels[kept][tested], np.asarray(tested))}
    real = np.stack([inputs[n] for n in tested]).reshape(len(tested), -1)
    return {**entry, **_rankings(found, real, data.groups[kept][tested], data.labels)}


def _answers(
    outputs: dict[str, np.ndarray], labels: np.ndarray, samples: np.ndarray
) -> dict[str, float]:
    """How many runs are right, and the same as in float; log losses; samples won and lost.

    A sample is won if ours is right in more of its runs.
    """
    entry: dict[str, float] = {}
    right = {who: np.argmax(found, axis=1) == labels for who, found in outputs.items()}
    is_logits = are_logits(outputs["float"])
    for who, found in outputs.items():
        entry[f"{who}_right"] = int(right[who].sum())
        entry[f"{who}_log_loss"] = round(log_loss(found, labels, is_logits), 4)
        same = np.argmax(found, axis=1) == np.argmax(outputs["float"], axis=1)
        entry[f"{who}_same"] = int(same.sum())
    for who in (name for name in WHO if name != "ours"):
        more = np.bincount(samples, right["ours"].astype(int) - right[who].astype(int))
        entry[f"won_against_{who}"] = int((more > 0).sum())
        entry[f"lost_against_{who}"] = int((more < 0).sum())
    return entry


def _rankings(
    outputs: dict[str, np.ndarray], real: np.ndarray, groups: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """How reconstruction errors rank recordings, and windows beside the float model's."""
    entry = {}
    errors = {who: np.mean((found - real) ** 2, axis=1) for who, found in outputs.items()}
    seen = [group for group in range(len(labels)) if np.any(groups == group)]
    for who, found in errors.items():
        scores = [float(found[groups == group].mean()) for group in seen]
        entry[f"{who}_auc"] = round(area_under_curve(scores, [int(labels[g]) for g in seen]), 4)
        entry[f"{who}_rank_correlation"] = rank_correlation(found, errors["float"])
    return entry


def rank_correlation(found: np.ndarray, wanted: np.ndarray) -> float:
    return round(float(np.corrcoef(ranks(found), ranks(wanted))[0, 1]), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CASES, []])
    for name in parser.parse_args().names or CASES:
        case = CASES[name]
        missing = [f for f in (case.float_file, case.published) if not file_of(f).exists()]
        if missing:
            print(f"{name}: {missing[0]} is not there", flush=True)
            continue
        entry = measure(case)
        write_entry(TABLE, Path(__file__).name, name, entry, CASES)
        print(name, entry, flush=True)


if __name__ == "__main__":
    main()

"""The integer reference equals TFLite Micro in every bit, layer by layer, on six real models."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from against_tflm import differences
from real_samples import SAMPLES

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module
from edgec.graph.verify import verify_module
from edgec.oracle.frameworks import Oracle, open_oracle
from edgec.runners.samples import generate_inputs, outputs_fnv1a32


@dataclass(frozen=True)
class Subject:
    """A sample model, imported, with its oracle and what was measured of it."""

    name: str
    module: Module
    oracle: Oracle
    output_fnv1a: list[str]
    macs: int
    data: Path

    def samples(self, start: int, count: int | None, step: int = 1) -> list[np.ndarray]:
        """Real inputs start, start + step ...; skips where the data are absent."""
        if not self.data.is_dir():
            pytest.skip(f"no sample data in {self.data}")
        stop = None if count is None else start + count * step
        return list(itertools.islice(SAMPLES[self.name](self.data), start, stop, step))


@pytest.fixture(scope="module", params=list(SAMPLES))
def subject(request: Any, shared_dir: Path, sample_model: Any) -> Subject:
    name = request.param
    measured = json.loads((shared_dir / "baselines.json").read_text(encoding="utf-8"))
    path = sample_model(measured["models"][name]["file"])
    return Subject(
        name=name,
        module=import_model(path),
        oracle=open_oracle(path, "tflm"),
        output_fnv1a=measured["models"][name]["output_fnv1a"],
        macs=measured["tflm_cmsis_nn"]["m4"][name]["macs"],
        data=shared_dir / "data",
    )


def test_module_is_well_formed_and_counts_the_published_macs(subject: Subject) -> None:
    verify_module(subject.module)
    nodes = subject.module.main.nodes
    assert sum(node.op.macs(node.attrs, node.input_types) for node in nodes) == subject.macs
    assert subject.module.format == "tflite"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_generated_inputs(subject: Subject, seed: int) -> None:
    main = subject.module.main
    inputs = generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in main.params])
    assert outputs_fnv1a32(interpret(main, inputs)) == subject.output_fnv1a[seed - 1]
    assert differences(subject.module, subject.oracle, inputs) == []


def test_every_layer_on_real_samples(subject: Subject) -> None:
    # Far apart, so that they are not of one class.
    samples = subject.samples(0, 8, step=1 if subject.name == "person_detect" else 5)
    assert samples
    for sample in samples:
        assert differences(subject.module, subject.oracle, [sample]) == []


def check_answers(subject: Subject, samples: list[np.ndarray]) -> None:
    """Every output equals the oracle's, sample by sample, and they are not all the same."""
    answers = set()
    for number, sample in enumerate(samples):
        (mine,) = interpret(subject.module.main, [sample])
        expected = subject.oracle.run([sample]).outputs[0]
        assert np.array_equal(mine, expected), f"sample {number}"
        answers.add(mine.tobytes())
    assert len(answers) > 1


def test_answers_on_real_data(subject: Subject) -> None:
    check_answers(subject, subject.samples(0, 50))


@pytest.mark.full
def test_answers_on_all_real_data(subject: Subject) -> None:
    check_answers(subject, subject.samples(0, None))


@pytest.mark.parametrize(
    "name",
    [
        "mlperf_ic_resnet_large_int8.tflite",
        "silabs_kws_on_off_v3_int8.tflite",
        "tflm_hello_world_int8.tflite",
        "tflm_micro_speech_int8.tflite",
        "tinymaix_cifar10_int8.tflite",
    ],
)
def test_other_models_of_the_same_operators(name: str, sample_model: Any) -> None:
    path = sample_model(name)
    module, oracle = import_model(path), open_oracle(path, "tflm")
    types = [(v.type.shape, v.type.dtype) for v in module.main.params]
    for seed in (1, 2):
        assert differences(module, oracle, generate_inputs(seed, types)) == []


def test_operators_are_named_after_their_tensors(sample_model: Any) -> None:
    main = import_model(sample_model("mlperf_kws_dscnn_int8.tflite")).main
    assert [value.name for value in main.params] == ["input_1"]
    assert [value.name for value in main.results] == ["Identity"]
    by_name = {node.name: node for node in main.nodes}
    conv = by_name["functional_1/activation/Relu"]
    assert conv.op.name == "conv2d" and conv.output.origin is None
    rescale = by_name["functional_1/activation/Relu/requantize"]
    assert rescale.sources == ("functional_1/activation/Relu",)
    origin = rescale.output.origin
    assert origin is not None and origin.index == 22
    assert origin.tensor.startswith("functional_1/activation/Relu;")

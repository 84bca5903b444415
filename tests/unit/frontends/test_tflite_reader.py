"""Damaged TFLite files: one clear error each, in bounded time and memory, never a traceback."""

from __future__ import annotations

import resource
import struct
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.errors import EdgecError, ImportFailed
from edgec.frontends import import_model
from edgec.frontends.tflite_reader import read_model

QUANT = {"scale": 0.5, "zero_point": -3}
STRIDES = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}

#: Far more than any import of a file of some kilobytes takes.
MAX_SECONDS = 2.0
MAX_EXTRA_KIB = 100_000


def small_model() -> bytes:
    """A depthwise and a plain convolution, pool, sum, dense and softmax: 2 KB."""
    rng = np.random.default_rng(1)
    model = TfliteBuilder()

    def weights(name: str, *shape: int) -> int:
        data = rng.integers(-128, 128, shape).astype(np.int8)
        return model.tensor(name, shape, "int8", scale=0.02, zero_point=0, data=data)

    def value(name: str, *shape: int) -> int:
        return model.tensor(name, shape, "int8", **QUANT)

    x, a, b = value("x", 1, 4, 4, 2), value("a", 1, 4, 4, 4), value("b", 1, 4, 4, 4)
    model.operator(
        "DEPTHWISE_CONV_2D", [x, weights("wa", 1, 3, 3, 4)], [a], "DepthwiseConv2DOptions",
        DepthMultiplier=2, **STRIDES,
    )  # fmt: skip
    model.operator("CONV_2D", [a, weights("wb", 4, 1, 1, 4)], [b], "Conv2DOptions", **STRIDES)
    c, d = value("c", 1, 4, 4, 4), value("d", 1, 1, 1, 4)
    model.operator("ADD", [a, b], [c], "AddOptions")
    pool = {"StrideH": 4, "StrideW": 4, "FilterHeight": 4, "FilterWidth": 4, "Padding": 1}
    model.operator("AVERAGE_POOL_2D", [c], [d], "Pool2DOptions", **pool)
    e, f = value("e", 1, 4), value("f", 1, 3)
    shape = model.tensor("shape", (2,), "int32", data=np.array([1, 4], np.int32))
    model.operator("RESHAPE", [d, shape], [e])
    model.operator("FULLY_CONNECTED", [e, weights("wf", 3, 4), -1], [f], "FullyConnectedOptions")
    y = model.tensor("y", (1, 3), "int8", scale=1 / 256, zero_point=-128)
    model.operator("SOFTMAX", [f], [y], "SoftmaxOptions", Beta=1.0)
    return model.build([x], [y])


def damage_report(variants: list[bytes], folder: Path) -> Counter[str]:
    """Import every variant; only success and EdgecError are allowed, soon and in little memory."""
    path = folder / "damaged.tflite"
    outcomes: Counter[str] = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, data in enumerate(variants):
        path.write_bytes(data)
        start = time.process_time()
        try:
            import_model(path)
            outcomes["read"] += 1
        except EdgecError as error:
            assert error.message and "Traceback" not in error.render()
            outcomes["refused"] += 1
        assert time.process_time() - start < MAX_SECONDS, f"variant {number}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MAX_EXTRA_KIB, f"{grown} KiB more"
    return outcomes


def flipped(data: bytes, count: int, seed: int) -> list[bytes]:
    """Copies with one to four bytes replaced."""
    rng = np.random.default_rng(seed)
    variants = []
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(int(rng.choice([1, 1, 2, 4]))):
            copy[int(rng.integers(len(copy)))] = int(rng.integers(256))
        variants.append(bytes(copy))
    return variants


def overwritten(data: bytes, count: int, seed: int) -> list[bytes]:
    """Copies with one aligned word replaced by a number that offsets and lengths fear."""
    rng = np.random.default_rng(seed)
    words = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), len(data) - 4, len(data) // 4]
    variants = []
    for _ in range(count):
        copy = bytearray(data)
        at = 4 * int(rng.integers(len(copy) // 4))
        copy[at : at + 4] = struct.pack("<I", words[int(rng.integers(len(words)))])
        variants.append(bytes(copy))
    return variants


def test_small_model_is_sound(tmp_path) -> None:
    assert damage_report([small_model()], tmp_path) == {"read": 1}


def test_truncations(tmp_path) -> None:
    data = small_model()
    report = damage_report([data[:size] for size in range(0, len(data), 8)], tmp_path)
    # Written from back to front: every byte of the end is needed.
    assert report["read"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_byte_flips(seed: int, tmp_path) -> None:
    report = damage_report(flipped(small_model(), 500, seed), tmp_path)
    assert min(report["read"], report["refused"]) > 20


def test_words_overwritten(tmp_path) -> None:
    report = damage_report(overwritten(small_model(), 1000, 1), tmp_path)
    assert min(report["read"], report["refused"]) > 20


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("mlperf_sww_int8.tflite", marks=pytest.mark.full),
        "tflm_hello_world_int8.tflite",
    ],
)
def test_damage_to_real_models(name: str, sample_model, tmp_path) -> None:
    data = sample_model(name).read_bytes()
    truncated = [data[:size] for size in range(0, len(data), 64)]
    assert damage_report(truncated, tmp_path)["refused"] > len(truncated) * 0.9
    damage_report(flipped(data, 300, 7), tmp_path)
    damage_report(overwritten(data, 300, 8), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", ["mlperf_sww_int8.tflite", "tflm_hello_world_int8.tflite"])
def test_much_damage_to_real_models(name: str, sample_model, tmp_path) -> None:
    data = sample_model(name).read_bytes()
    damage_report(flipped(data, 2000, 17), tmp_path)
    damage_report(overwritten(data, 2000, 18), tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a TFLite model"),
        (b"\x1c\0\0\0TFL", "is not a TFLite model"),
        (b"\x1c\0\0\0TFL3", "is damaged at its header: an offset leads outside of the file\n"),
        (b"\xff\xff\xff\xffTFL3" + bytes(40), "is damaged at its header"),
    ],
)
def test_words_for_what_is_no_model(data: bytes, words: str) -> None:
    with pytest.raises(ImportFailed, match=words) as caught:
        read_model(data, "m.tflite")
    assert caught.value.message.startswith("m.tflite ")
    assert "truncated" in caught.value.hint


def broken(change, **kinds) -> str:
    """The message for a model that was written wrong by `change(model, x, y)`."""
    model = TfliteBuilder(**kinds)
    x, y = (model.tensor(name, (6,), "int8", **QUANT) for name in "xy")
    inputs, outputs = change(model, x, y)
    with pytest.raises(ImportFailed) as caught:
        read_model(model.build(inputs, outputs), "m.tflite")
    return caught.value.message


def test_words_for_contradictions() -> None:
    def reads_99(model, x, y):
        model.operator("RESHAPE", [99], [y])
        return [x], [y]

    def writes_nowhere(model, x, y):
        model.operator("RESHAPE", [x], [-1])
        return [x], [y]

    def outputs_99(model, x, y):
        model.operator("RESHAPE", [x], [y])
        return [x], [99]

    def buffer_99(model, x, y):
        model.tensor("z", (1,), "int8", buffer=99)
        model.operator("RESHAPE", [x], [y])
        return [x], [y]

    assert broken(reads_99) == "m.tflite is damaged at its operator 0: tensor 99 of 2"
    assert broken(writes_nowhere) == "m.tflite is damaged at its operator 0: an output is absent"
    assert broken(outputs_99).endswith("inputs and outputs: tensor 99 of 2")
    assert broken(buffer_99) == "m.tflite is damaged at its tensor 2: buffer 99 of 3"
    assert broken(lambda model, x, y: ([x], [y])).endswith("no operators or no outputs")
    assert broken(reads_99, version=2).endswith("header: schema version 2, not 3")


def test_names_cannot_disturb_a_terminal() -> None:
    model = TfliteBuilder()
    x, y = (model.tensor(name, (6,), "int8", **QUANT) for name in ('a\x1b[31m"', "b\ncdé"))
    model.operator("RESHAPE", [x], [y])
    read = read_model(model.build([x], [y]), "m.tflite")
    assert [tensor.name for tensor in read.main.tensors] == ["a?[31m?", "b?cdé"]

"""What callers may give as samples, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantized_files import qdq_bytes

from edgec import api
from edgec.errors import EdgecError
from edgec.graph.ir import Value
from edgec.graph.types import TensorType
from edgec.quantizer.check_samples import checked_samples

IMAGE = Value("image", TensorType((1, 2, 3), "float32"))
OTHER = Value("other", TensorType((4,), "float32"))
FLOAT = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_float.onnx"
TEST_SET = FLOAT.with_name("digits_test.npz")


def image(**changes: Any) -> np.ndarray:
    return np.full(changes.get("shape", (1, 2, 3)), changes.get("value", 0.5),
                   changes.get("dtype", np.float32))  # fmt: skip


def test_one_array_for_each_input() -> None:
    samples = [[image(), np.zeros(4, np.float32)], (image(value=2.0), np.ones(4))]
    found = list(checked_samples([IMAGE, OTHER], iter(samples)))
    assert [x.dtype for x in found[1]] == [np.float32, np.float32]
    assert found[1][0].max() == 2.0 and found[1][1].min() == 1.0


def test_a_single_input_may_be_given_as_it_is() -> None:
    (found,) = checked_samples([IMAGE], [image(dtype=np.float64)])
    assert found[0].dtype == np.float32 and found[0].shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ([image(shape=(2, 3))], r"sample 2, input image: float32\[1, 2, 3\] .* float32\[2, 3\]"),
        ([image(dtype=np.uint8)], "uint8"),
        ([image(value=np.nan)], "sample 2, input image: it holds a NaN or an infinity"),
        ([image(value=np.inf)], "NaN or an infinity"),
        ([image(value=1e300, dtype=np.float64)], "NaN or an infinity"),
        ([image(), image()], "1 arrays are needed, not 2"),
        ([], "1 arrays are needed, not 0"),
        ("image", "1 arrays are needed, not str"),
        (None, "1 arrays are needed, not NoneType"),
        ([np.zeros((0,), np.float32)], r"float32\[0\] was given"),
        ([[["a"]]], "was given"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_with_its_number(sample: Any, said: str) -> None:
    with pytest.raises(EdgecError, match=said):
        list(checked_samples([IMAGE], [[image()], sample]))


def test_samples_must_be_many() -> None:
    with pytest.raises(EdgecError, match="an iterable, not 5"):
        list(checked_samples([IMAGE], 5))  # type: ignore[arg-type]


def test_the_python_interface_quantizes(tmp_path: Path) -> None:
    stored = np.load(TEST_SET)
    asked = []

    def samples() -> Iterator[list[np.ndarray]]:
        for x in stored["x"][:40]:
            asked.append(1)
            yield [x[np.newaxis].astype(np.float64)]

    out = tmp_path / "digits_int8.onnx"
    made = api.quantize(FLOAT, samples(), output=out, observer="mse")
    assert len(asked) == 40 and made.statistics.count == 40
    assert out.read_bytes() == qdq_bytes(made)
    tests = [[x[np.newaxis]] for x in stored["x"][40:120]]
    explanation = made.explain(tests, list(stored["y"][40:120]))
    assert explanation.accuracy is not None and explanation.accuracy >= 0.95
    assert explanation.agreement >= 0.98
    assert explanation.output_sqnr_db > 25


@pytest.mark.parametrize("count", [1, 2])
def test_few_samples_are_enough_to_go_on(count: int) -> None:
    samples = np.load(TEST_SET)["x"][:count, np.newaxis]
    made = api.quantize(FLOAT, list(samples))
    assert made.statistics.count == count
    assert np.isfinite(made.explain([[samples[0]]]).output_sqnr_db)


def test_no_samples_and_unknown_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match="no sample to calibrate with"):
        api.quantize(FLOAT, [], output=tmp_path / "no.onnx")
    assert not (tmp_path / "no.onnx").exists()
    with pytest.raises(EdgecError, match="no observer 'best'"):
        api.quantize(FLOAT, [], observer="best")

"""Forms of a model that compute the same function, and what quantizers make of them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from equivalent_forms import equivalent_form
from measure_equivalent_forms import FORMS, TABLE, measure
from measure_quantization import CASES, by_reference, deal
from measured_table import read_table
from quantized_files import float_function

from edgec.graph.ir import Constant, Function
from edgec.report.accuracy import difference, shares


def constants(function: Function) -> list[np.ndarray]:
    operands = [value for node in function.nodes for value in node.inputs]
    return [value.data for value in operands if isinstance(value, Constant)]


def test_forms_are_the_same_function_with_other_weights() -> None:
    dealt = deal(CASES["digits"], 40)
    given = by_reference(dealt.function)(dealt.inputs)
    forms = [equivalent_form(dealt.function, seed) for seed in (0, 0, 1)]
    for form in forms:
        np.testing.assert_allclose(by_reference(form)(dealt.inputs), given, atol=1e-5)
    first, again, other = ([data.tobytes() for data in constants(form)] for form in forms)
    assert first == again
    assert first != other != [data.tobytes() for data in constants(dealt.function)]


def test_what_has_no_free_factor_is_refused(shared_dir: Path) -> None:
    lstm = float_function(shared_dir / "models" / CASES["lstm"].float_file, from_start=True)
    with pytest.raises(ValueError, match="free factor"):
        equivalent_form(lstm, 0)


def test_forms_of_digits_are_as_accurate_as_the_table_says() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    found, entry = measure(CASES["digits"], 1), read_table(TABLE)["digits"]
    assert found["runs"] == entry["runs"][:1]
    assert found["ours_right"][0] >= entry["ours_right"][0] - 1
    assert found["ours_db"][0] > max(found["onnxruntime_db"][0], found["per_channel_db"][0])


@pytest.mark.parametrize("name", read_table(TABLE))
@pytest.mark.parametrize("who", ["onnxruntime", "per_channel"])
def test_ours_is_as_accurate_over_all_forms(name: str, who: str) -> None:
    """At least as accurate as ONNX Runtime's defaults; with weights per channel, which ours has,
    too, as far as the forms can tell."""
    entry = read_table(TABLE)[name]
    assert len(entry["runs"]) == FORMS[name]
    assert fmean(entry["ours_db"]) > fmean(entry[f"{who}_db"])
    if "ours_right" not in entry:
        key = "rank_correlation"
        assert fmean(entry[f"ours_{key}"]) > fmean(entry[f"{who}_{key}"])
        return
    mean, error = difference(shares(entry, "ours"), shares(entry, who))
    assert mean >= (0.0 if who == "onnxruntime" else -2.0 * error)
    assert fmean(entry["ours_log_loss"]) <= 1.01 * fmean(entry[f"{who}_log_loss"])

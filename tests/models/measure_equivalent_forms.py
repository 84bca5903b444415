"""Measure quantizers on equivalent forms, for `docs/quantization_forms.toml`.

    python tests/models/measure_equivalent_forms.py [NAME...]     all cases, or these

Whether an integer network answers a sample near the border of two answers as the labels say is
luck of how its weights round, and a file is one draw of it. Forms of a float model that compute
the same function (`equivalent_forms.py`) are further draws: each is quantized with the samples of
one part and compared on the three others, by all quantizers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from equivalent_forms import equivalent_form
from measure_quantization import (
    CASES,
    PARTS,
    QUANTIZERS,
    REPO_ROOT,
    Case,
    are_logits,
    by_reference,
    deal,
    decibels,
    log_loss,
    quantized_outputs,
    rank_correlation,
)
from measured_table import write_entry

TABLE = REPO_ROOT / "docs" / "quantization_forms.toml"
#: How many forms of each: about as long for each model. LSTMs have no factors that are free.
FORMS = {"digits": 24, "kws": 24, "ic": 48, "vww": 16, "ad": 16}


def measure(case: Case, forms: int, most: int | None = None) -> dict[str, Any]:
    """Figures of each form, by lists. most: samples, spread over the set.

    Raises ValueError for a form that is not equivalent.
    """
    dealt = deal(case, most)
    exact = by_reference(dealt.function)(dealt.inputs)
    entry: dict[str, Any] = {"runs": []}
    for seed in range(forms):
        part = seed % PARTS
        test = dealt.after(part, PARTS - 1)
        tests = [dealt.inputs[n] for n in test]
        form = equivalent_form(dealt.function, seed)
        same = by_reference(form)(tests[:8])
        if decibels(exact[test][:8], same) < 90.0:
            raise ValueError(f"form {seed} computes something else")
        found = quantized_outputs(form, dealt.calibration(part), tests)
        entry["runs"].append(len(test))
        rows = {"float": exact[test], **found}
        for who in QUANTIZERS:
            entry.setdefault(f"{who}_db", []).append(round(decibels(rows["float"], rows[who]), 2))
        if dealt.data.groups is None:
            labels = dealt.data.labels[dealt.kept][test]
            for who, row in rows.items():
                right = int(np.count_nonzero(np.argmax(row, axis=1) == labels))
                loss = round(log_loss(row, labels, are_logits(exact)), 4)
                entry.setdefault(f"{who}_right", []).append(right)
                entry.setdefault(f"{who}_log_loss", []).append(loss)
            continue
        real = np.stack(tests).reshape(len(test), -1)
        errors = {who: np.mean((row - real) ** 2, axis=1) for who, row in rows.items()}
        for who in QUANTIZERS:
            correlation = rank_correlation(errors[who], errors["float"])
            entry.setdefault(f"{who}_rank_correlation", []).append(correlation)
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*FORMS, []])
    for name in parser.parse_args().names or FORMS:
        entry = measure(CASES[name], FORMS[name])
        write_entry(TABLE, Path(__file__).name, name, entry, FORMS)
        print(name, entry, flush=True)


if __name__ == "__main__":
    main()

"""Search the schedules that ship with edgec, `tuned/CORE.tune.json`.

    PYTHONPATH=tests python tests/models/ship_tuned.py [CORE [MODEL ...]] [--workers N]

Each model is searched as `--optimize time` and as the default with `--lean` have its layers. What
is known already is kept where it is better. All of it takes some hours of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from shared_folder import find_shared

from edgec.build.staging import staged_file
from edgec.options import Optimize, Options
from edgec.pipeline import read_model
from edgec.targets.core import Core, find_core
from edgec.tune.model import Plan, TunedLayers, tune
from edgec.tune.workers import Workers, open_workers
from edgec.tuned import (
    SUFFIX,
    Tuned,
    TunedGroup,
    best_instructions,
    brief,
    merged,
    read_tuned,
    to_json,
)

FOLDER = Path(__file__).resolve().parents[2] / "tuned"
INTEGERS = (
    "mlperf_kws_dscnn_int8.tflite", "mlperf_ad_autoencoder_int8.tflite", "mlperf_sww_int8.tflite",
    "mlperf_ic_resnet8_int8.tflite", "mlperf_vww_mbv1_int8.tflite",
)  # fmt: skip
FLOATS = (
    "onnxzoo_mnist8.onnx", "mlperf_ic_resnet8_f32.tflite", "mlperf_kws_dscnn_f32.tflite",
    "mlperf_vww_mbv1_f32.tflite",
)  # fmt: skip
#: Where rules have kernels, little is left.
MODELS = {"cortex-m3": INTEGERS, "cortex-m4": FLOATS}
TRIALS = 100
#: What a winner takes at most of the fastest of the rules: in a model, less than 1 % may be lost to
#: what lies around a layer.
WORTH = 0.99


def searched(model: Path, core: Core, optimize: Optimize, known: Tuned, workers: Workers) -> (
    list[TunedLayers]
):  # fmt: skip
    """The nests of a model at one level."""
    options = Options(optimize=optimize)
    plan = Plan(core, options, TRIALS, lean=optimize == "balanced", takes_shipped=False)
    module = read_model(model, options)
    return tune(module, plan, workers, known, lambda _: None, lambda _: None)[1]


def of_both(fast: Iterable[TunedLayers], lean: Iterable[TunedLayers]) -> Tuned:
    """The nests of both levels with the winners of both, brief."""
    groups: dict[tuple[str, str, str], TunedGroup] = {}
    for found in (*fast, *lean):
        group, known = found.group, groups.get(found.group.key)
        offered = {f for f in (*found.offered, *(known.figures if known else ()))}
        figures = {**(known.figures if known else {}), **group.figures}
        winners = dict.fromkeys((*(known.winners if known else ()), *group.winners))
        whole = worthwhile(replace(group, figures=figures, winners=tuple(winners)), offered)
        groups[group.key] = brief(whole, len(group.tried), sorted(offered))
    return Tuned(groups)


def worthwhile(group: TunedGroup, offered: Iterable[str]) -> TunedGroup:
    """The group with those winners that take clearly less than all that the rules offer."""
    figures = group.figures
    rules = min(f.instructions for key in offered if (f := figures.get(key)))
    won = (
        w for w in group.winners if (f := figures.get(w.made)) and f.instructions <= WORTH * rules
    )
    return replace(group, winners=tuple(won))


def ship(core: Core, models: Iterable[str], workers: Workers) -> None:
    """Search models, and write the core's file after each."""
    path = FOLDER / f"{core.name}{SUFFIX}"
    for name in models:
        model = find_shared() / "models" / name
        lean = searched(model, core, "balanced", Tuned(), workers)
        so_far = Tuned({each.group.key: each.group for each in lean})
        fast = searched(model, core, "time", so_far, workers)
        known = read_tuned(path) if path.is_file() else Tuned()
        both = merged((known, of_both(fast, lean)))
        with staged_file(path, "") as staged:
            staged.write_text(to_json(both), encoding="utf-8")
        for group in both.groups.values():
            print(core.name, group.title, best_instructions(group), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core", nargs="?", choices=MODELS)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--workers", default="1")
    given = parser.parse_args()
    with open_workers(given.workers) as workers:
        for name in [given.core] if given.core else MODELS:
            ship(find_core(name), given.models or MODELS[name], workers)


if __name__ == "__main__":
    main()

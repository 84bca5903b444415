"""Search the schedules that ship with edgec, `tuned/CORE.tune.json`.

    PYTHONPATH=tests python tests/models/ship_tuned.py [CORE [MODEL ...]] [--workers N] [--again]

Each model is searched as `--optimize time` and as the default with `--lean` have its layers. What
is known already is kept where it is better. All of it takes some hours of one core. With `--again`
nothing is searched: what the files have is measured again, in some minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from shared_folder import find_shared

from edgec.boards.compiler_name import compiler_of
from edgec.build.staging import staged_file
from edgec.loop.tuned import (
    SUFFIX,
    Figures,
    Tuned,
    TunedGroup,
    best_instructions,
    brief,
    merged,
    read_tuned,
    to_json,
)
from edgec.options import Optimize, Options
from edgec.passes.tuned_variants import replayed
from edgec.pipeline import read_model
from edgec.targets.core import Core, find_core
from edgec.tune.candidates import Candidates, Found
from edgec.tune.model import Plan, TunedLayers, distinct_layers, measure_found, tune
from edgec.tune.workers import Workers, open_workers

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
MODELS = {"cortex-m3": INTEGERS, "cortex-m4": FLOATS, "rv32imc": INTEGERS}
TRIALS = 100
LEVELS: tuple[Optimize, ...] = ("time", "balanced")
#: A schedule may take this many, measured again.
MOST_INSTRUCTIONS = 10**9
#: What a winner takes at most of the fastest of the rules: in a model, less than 1 % may be lost to
#: what lies around a layer. MOST_CODE: the bytes of code that it may add for an instruction saved.
WORTH, MOST_CODE = 0.99, 8


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
    rules = min((f for k in offered if (f := figures.get(k))), key=lambda f: f.instructions)

    def pays(found: Figures) -> bool:
        saved, more = rules.instructions - found.instructions, found.code_bytes - rules.code_bytes
        return found.instructions <= WORTH * rules.instructions and MOST_CODE * saved >= more

    won = (w for w in group.winners if (f := figures.get(w.made)) and pays(f))
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


def measure_again(core: Core, models: Iterable[str], workers: Workers) -> None:
    """Measure the schedules of a core's file again, and write it."""
    path = FOLDER / f"{core.name}{SUFFIX}"
    known = read_tuned(path)
    figures: dict[tuple[str, str, str], dict[str, Figures]] = {}
    offered: set[str] = set()
    for name in models:
        module = read_model(find_shared() / "models" / name, Options())
        for level in LEVELS:
            plan = Plan(core, Options(optimize=level, tuned=Tuned(is_alone=True)), 0)
            target, layers = distinct_layers(module, core, plan.options)
            for each in layers:
                candidates = Candidates(each.group, target)
                key = (candidates.nest, core.name, compiler_of(core, plan.options))
                offered |= {found.digest for found in candidates.defaults}
                if key in known.groups:
                    own = figures.setdefault(key, {})
                    unknown = [
                        f for f in _known(candidates, known.groups[key]) if f.digest not in own
                    ]
                    made = measure_found(candidates, unknown, MOST_INSTRUCTIONS, plan, workers)
                    own.update((digest, found) for digest, found in made.items() if found)
                    print(each.title, list(own.values()), flush=True)
    groups = {}
    for key, own in figures.items():
        whole, rules = replace(known.groups[key], figures=own), sorted(offered & set(own))
        groups[key] = brief(worthwhile(whole, rules), whole.trials, rules)
    path.write_text(to_json(Tuned({**known.groups, **groups})), encoding="utf-8")


def _known(candidates: Candidates, group: TunedGroup) -> list[Found]:
    """What the rules offer for a nest, and the winners of its group."""
    replays = [(w, replayed(candidates.group, w)) for w in group.winners]
    return [
        *candidates.defaults,
        *(Found(variant, winner.made, {}, {}, winner) for winner, variant in replays if variant),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core", nargs="?", choices=MODELS)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--workers", default="1")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    with open_workers(given.workers) as workers:
        for name in [given.core] if given.core else MODELS:
            work = measure_again if given.again else ship
            work(find_core(name), given.models or MODELS[name], workers)


if __name__ == "__main__":
    main()

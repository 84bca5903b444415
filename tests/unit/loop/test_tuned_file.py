"""The file of what was tuned: written, read, merged, damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.errors import EdgecError
from edgec.loop.tuned import Figures, Tuned, TunedGroup, Winner, brief, merged, read_tuned, to_json

GROUP = TunedGroup(
    "nest", "cortex-m3", "gcc 12 -O2", "conv2d", "d0",
    {"d0": Figures(100, 120, 40, 0), "d1": Figures(80, 90, 60, 4, 16), "d2": None},
    ("d0", "d2", "d1"), (Winner("high", "[]", "d1"),), 7,
)  # fmt: skip


def of(*groups: TunedGroup) -> Tuned:
    return Tuned({group.key: group for group in groups})


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    tuned = of(GROUP, replace(GROUP, core="cortex-m4"))
    path = tmp_path / "m.tune.json"
    path.write_text(to_json(tuned))
    assert read_tuned(path) == tuned
    assert to_json(read_tuned(path)) == to_json(tuned)


def test_merging_keeps_the_better_winners_and_all_figures() -> None:
    better = replace(
        GROUP, figures={"d0": Figures(100, 120, 40, 0), "d3": Figures(70, 90, 60, 4)},
        tried=("d0", "d3"), winners=(Winner("", "[]", "d3"),),
    )  # fmt: skip
    other = replace(GROUP, nest="other")
    for several in ((of(GROUP), of(better, other)), (of(better, other), of(GROUP))):
        tuned = merged(several)
        group = tuned.groups[GROUP.key]
        assert group.winners == better.winners and set(group.tried) == {"d0", "d1", "d2", "d3"}
        assert group.figures.keys() == {"d0", "d1", "d2", "d3"}
        assert tuned.groups[other.key] == other


def test_a_brief_group_has_the_figures_of_winners_and_of_what_rules_offer() -> None:
    short = brief(replace(GROUP, trials=0), 3, ("d0", "unknown"))
    assert short.figures.keys() == {"d0", "d1"} and set(short.tried) == {"d0", "d1"}
    assert (short.winners, short.default, short.trials) == (GROUP.winners, "d0", 3)


def test_files_of_before_have_no_trials_and_shorter_rows(tmp_path: Path) -> None:
    data = json.loads(to_json(of(GROUP)))
    del data["groups"][0]["trials"], data["groups"][0]["figures"]["d1"][4]
    path = tmp_path / "m.tune.json"
    path.write_text(json.dumps(data))
    (group,) = read_tuned(path).groups.values()
    assert group.trials == 0 and group.figures["d1"] == Figures(80, 90, 60, 4, None)


def test_none_is_no_file_but_nothing_at_all(tmp_path: Path) -> None:
    assert read_tuned(tmp_path / "none") == Tuned(is_alone=True)
    assert read_tuned(Path("none")).is_alone


def test_groups_are_for_one_core_and_compiler() -> None:
    tuned = of(GROUP, replace(GROUP, core="cortex-m4"), replace(GROUP, compiler="gcc 13 -O2"))
    assert tuned.usable("cortex-m3", "gcc 12 -O2") == of(GROUP)
    assert tuned.usable("cortex-m3", "gcc 14 -O2") == Tuned()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("groups"),
        lambda data: data.update(groups=[1]),
        lambda data: data["groups"][0].pop("nest"),
        lambda data: data["groups"][0].update(core=3),
        lambda data: data["groups"][0]["figures"].update(d1=[1, 2]),
        lambda data: data["groups"][0]["figures"].update(d1=[1, -2, 3, 4]),
        lambda data: data["groups"][0]["figures"].update(d1=[10**400, 2, 3, 4]),
        lambda data: data["groups"][0]["winners"].append({"trace": "[]"}),
        lambda data: data.update(version=2),
        lambda data: data.update(format="other"),
    ],
)
def test_a_damaged_file_is_one_error(tmp_path: Path, change: object) -> None:
    data = json.loads(to_json(of(GROUP)))
    change(data)  # type: ignore[operator]
    path = tmp_path / "m.tune.json"
    path.write_text(json.dumps(data))
    with pytest.raises(EdgecError, match=r"m\.tune\.json"):
        read_tuned(path)


def test_what_is_no_json_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "m.tune.json"
    for text in ("", "{", "[]"):
        path.write_text(text)
        with pytest.raises(EdgecError, match=r"m\.tune\.json"):
            read_tuned(path)
    with pytest.raises(EdgecError):
        read_tuned(tmp_path / "absent.json")


def test_an_error_does_not_repeat_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"format": "edgec-tuned", "version": "x" * 1_000_000}))
    with pytest.raises(EdgecError, match="has version") as caught:
        read_tuned(path)
    assert len(str(caught.value)) < 3000 and "characters)" in str(caught.value)

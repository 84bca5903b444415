"""What ships with edgec: for the compiler it was measured with, brief, and only what is faster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgec.boards import compiler_name
from edgec.boards.compiler_name import shipped, with_usable
from edgec.loop.tuned import SUFFIX, Tuned, read_tuned, to_json
from edgec.options import Options
from edgec.resources import resource_dir
from edgec.targets.core import find_core

FILES = sorted(resource_dir("tuned").iterdir())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_winner_beats_the_first_of_the_rules(path: Path) -> None:
    core = find_core(path.name.removesuffix(SUFFIX))
    tuned = read_tuned(path)
    assert to_json(tuned) == path.read_text(encoding="utf-8") and tuned.groups
    for group in tuned.groups.values():
        assert group.core == core.name and group.trials > 0 and group.title
        made = {winner.made for winner in group.winners}
        default = group.figures[group.default]
        assert default is not None and len(group.figures) <= 12, "not brief"
        for key in made:
            figures = group.figures[key]
            assert figures is not None and figures.stack_bytes is not None
            assert figures.instructions < default.instructions


def test_cores_with_the_same_instructions_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = shipped(find_core("cortex-m4"))
    (compiler,) = {group.compiler for group in ours.groups.values()}
    monkeypatch.setattr(compiler_name, "compiler_of", lambda core, options: compiler)
    for name in ("cortex-m7", "cortex-m33"):
        found = with_usable(Options(), find_core(name)).tuned.shipped
        assert {key[0] for key in found} == {group.nest for group in ours.groups.values()}
        assert {group.core for group in found.values()} == {name}
        assert not shipped(find_core(name)).groups, "the tuner measures them anew"
    assert not with_usable(Options(), find_core("cortex-m55")).tuned.shipped


def test_they_are_for_the_compiler_that_they_were_measured_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = find_core("cortex-m3")
    ours = shipped(core)
    (compiler,) = {group.compiler for group in ours.groups.values()}
    monkeypatch.setattr(compiler_name, "compiler_of", lambda core, options: compiler)
    assert with_usable(Options(), core).tuned.shipped == ours.groups
    alone = Options(tuned=Tuned(is_alone=True))
    assert not with_usable(alone, core).tuned.shipped
    monkeypatch.setattr(compiler_name, "compiler_of", lambda core, options: f"{compiler} else")
    assert not with_usable(Options(), core).tuned.shipped
    assert not with_usable(Options(), replace(core, name="cortex-m0")).tuned.shipped

"""The manifest round-trips and says where everything is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from c_harness import conv_program

from edgec.codegen.manifest import MANIFEST_NAME, Manifest
from edgec.codegen.project import write_project
from edgec.errors import BuildFailed, ContractError


def test_round_trip(tmp_path: Path) -> None:
    manifest = write_project(conv_program(), tmp_path)
    assert Manifest.load(tmp_path) == manifest
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_contents(tmp_path: Path) -> None:
    manifest = write_project(conv_program(), tmp_path)
    assert manifest.inputs[0].offset == 0
    assert manifest.inputs[0].scale == (0.5,)
    assert manifest.outputs[0].bytes == 288
    assert [trace.id for trace in manifest.traces] == [2, 3]
    assert [trace.source for trace in manifest.traces] == ["net/first", "net/second"]
    assert manifest.macs == 2 * 6 * 6 * 8 * 8 * 9
    assert manifest.weights_bytes == 576 + 32 + 32 + 8
    assert set(manifest.files) == {p.name for p in tmp_path.iterdir()}
    assert manifest.sources == ("tiny.c", "tiny_weights.c")
    assert manifest.include_dirs == (".",)


def test_hash_follows_the_interface() -> None:
    from dataclasses import replace

    program = conv_program()
    assert program.schema_hash == conv_program(seed=2).schema_hash
    assert replace(program, arena_bytes=1000).schema_hash != program.schema_hash
    assert conv_program("other").schema_hash != program.schema_hash


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1}'])
def test_unreadable_manifests_are_one_clear_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=MANIFEST_NAME):
        Manifest.from_json(text)
    with pytest.raises(BuildFailed, match="is not an edgec project"):
        Manifest.load(tmp_path)
    (tmp_path / MANIFEST_NAME).write_bytes(b"\xff\xfe{}")
    with pytest.raises(ContractError, match="it is not UTF-8"):
        Manifest.load(tmp_path)


def places(value: Any) -> list[tuple[Any, ...]]:
    """The way to each value of an object of JSON, the first of each list alone."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1])
    found: list[tuple[Any, ...]] = []
    for key, each in inside:
        found.append((key,))
        if isinstance(each, (dict, list)):
            found += [(key, *rest) for rest in places(each)]
    return found


def test_each_value_of_another_type_is_refused(tmp_path: Path) -> None:
    """A changed file ended in tracebacks wherever the value was used."""
    text = write_project(conv_program(), tmp_path).to_json()
    ways = places(json.loads(text))
    assert len(ways) > 60
    for way in ways:
        changed = json.loads(text)
        part = changed
        for key in way[:-1]:
            part = part[key]
        part[way[-1]] = {"x": 1}
        with pytest.raises(ContractError, match=f"{MANIFEST_NAME} "):
            Manifest.from_json(json.dumps(changed))

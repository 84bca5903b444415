"""The manifest round-trips and says where everything is."""

from __future__ import annotations

from pathlib import Path

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
    with pytest.raises(BuildFailed, match="is no edgec project"):
        Manifest.load(tmp_path)

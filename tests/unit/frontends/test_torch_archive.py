"""A `.pt2` file is checked before torch reads it: what would run code is refused."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import ImportFailed
from edgec.frontends.torch_archive import checked_archive

TREE = '[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]'


def program(**changes: Any) -> dict[str, Any]:
    """What torch writes, as little of it as the checks look at."""
    node = {"target": "torch.ops.aten.relu.default", "inputs": [], "metadata": {"custom": "x"}}
    node.update(changes.pop("node", {}))
    return {
        "graph_module": {
            "graph": {"nodes": [node]},
            "module_call_graph": [{"signature": {"in_spec": TREE, "out_spec": TREE}}],
        },
        "guards_code": ["import os"],
        **changes,
    }


def write(path: Path, model: Any, extra: dict[str, bytes] | None = None) -> Path:
    config = {"config": {"w": {"path_name": "weight_0", "use_pickle": False}}}
    members = {
        "m/models/model.json": json.dumps(model).encode(),
        "m/data/weights/model_weights_config.json": json.dumps(config).encode(),
        "m/data/weights/weight_0": b"\0" * 8,
        "m/data/sample_inputs/model.pt": b"a pickle that nobody may open",
        "m/archive_version": b"0",
        **(extra or {}),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_the_copy_has_no_guards_samples_or_unknown_metadata(tmp_path: Path) -> None:
    with zipfile.ZipFile(checked_archive(write(tmp_path / "m.pt2", program()))) as copy:
        assert copy.read("m/data/sample_inputs/model.pt") == b""
        assert copy.read("m/data/weights/weight_0") == b"\0" * 8
        model = json.loads(copy.read("m/models/model.json"))
    assert model["guards_code"] == []
    assert model["graph_module"]["graph"]["nodes"][0]["metadata"] == {}


@pytest.mark.parametrize(
    "target",
    [
        "torch.load",
        "torch.serialization.load",
        "torch.ops.load_library",
        "torch.hub.load",
        "_operator.methodcaller",
        "_operator.attrgetter",
        "math.os",
        "#extension:x",
        "torch.ops.aten.relu.default.__class__",
        "os.system",
    ],
)
def test_a_node_may_call_known_operators_only(tmp_path: Path, target: str) -> None:
    path = write(tmp_path / "m.pt2", program(node={"target": target}))
    with pytest.raises(ImportFailed, match="a node calls"):
        checked_archive(path)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch x')",
        "exec('1')",
        "s0.__class__",
        "s0 if s1 else lambda: 1",
        "[s0]",
        "Symbol('os', positive=True)",
        "Symbol('s0', commutative=True)",
        "1" * 5000 + "'",
        "9**9**9",
        "Mod(3**(10**7), 7)",
        "((((((9**4)**4)**4)**4)**4)**4)",
        "s0 + " * 1000 + "1",
        5,
    ],
)
def test_a_size_is_arithmetic(tmp_path: Path, text: object) -> None:
    path = write(tmp_path / "m.pt2", program(range_constraints=[{"expr_str": text}]))
    with pytest.raises(ImportFailed, match="is not arithmetic"):
        checked_archive(path)


@pytest.mark.parametrize(
    "text",
    ["s77", "2*s0 + 1", "s0**2 + 2*s0", "(s0 + 1)**3", "Mod(s0, 8)", "(s0//2) - u3", "Max(1, s0)",
     "Mul(Integer(2), Symbol('s31', positive=True, integer=True))",
     "LessThan(Symbol('u0', integer=True), Integer(5))"],
)  # fmt: skip
def test_sizes_that_torch_writes_pass(tmp_path: Path, text: str) -> None:
    checked_archive(write(tmp_path / "m.pt2", program(sizes=[{"expr_str": text}])))


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        ("collections.defaultdict", '{"default_factory_module": "os"}'),
        ("builtins.tuple", '{"__enum__": true, "fqn": "os:sep"}'),
        ("my.Type", "null"),
        ("builtins.dict", '[{"__enum__": true}]'),
        ("builtins.dict", "5"),
    ],
)
def test_inputs_are_plain_containers(tmp_path: Path, kind: str, context: str) -> None:
    tree = json.dumps([1, {"type": kind, "context": context, "children_spec": []}])
    path = write(tmp_path / "m.pt2", program(signature={"in_spec": tree}))
    with pytest.raises(ImportFailed, match="its inputs have the type"):
        checked_archive(path)


def test_a_damaged_tree_is_named(tmp_path: Path) -> None:
    for context in ("abc", "[" * 100_000):
        tree = json.dumps([1, {"type": "builtins.dict", "context": context, "children_spec": []}])
        with pytest.raises(ImportFailed, match="a tree description is damaged"):
            checked_archive(write(tmp_path / "m.pt2", program(signature={"in_spec": tree})))


def test_pickles_and_custom_objects_are_refused(tmp_path: Path) -> None:
    pickled = {"config": {"w": {"path_name": "weight_0", "use_pickle": True}}}
    name = "m/data/weights/model_weights_config.json"
    path = write(tmp_path / "m.pt2", program(), {name: json.dumps(pickled).encode()})
    with pytest.raises(ImportFailed, match="is a pickle"):
        checked_archive(path)
    with pytest.raises(ImportFailed, match="custom object"):
        checked_archive(write(tmp_path / "c.pt2", program(x={"as_custom_obj": {"name": "o"}})))


@pytest.mark.parametrize(
    "name", ["m/data/constants/custom_obj_0", "m/../../evil", "m/data/aotinductor/model.so",
             "m/data/constants/tensor_0.pt"],
)  # fmt: skip
def test_unknown_members_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImportFailed, match="it holds"):
        checked_archive(write(tmp_path / "m.pt2", program(), {name: b"x"}))


def without_encoding(whole: bytes) -> bytes:
    """The archive with a name that says that it is UTF-8 and is not."""
    at = whole.index(b"PK\x01\x02")  # the first entry of the directory: flags at 8, name at 46
    return whole[: at + 9] + b"\x08" + whole[at + 10 : at + 46] + b"\xff" + whole[at + 47 :]


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "m.pt2", program()).read_bytes()
    half = whole[: len(whole) // 2]
    for content in (b"", half, b"PK\x03\x04" + b"x" * 50, without_encoding(whole)):
        path = tmp_path / "cut.pt2"
        path.write_bytes(content)
        with pytest.raises(ImportFailed, match="not a readable PyTorch archive"):
            checked_archive(path)
    with pytest.raises(ImportFailed, match="is damaged"):
        checked_archive(write(tmp_path / "j.pt2", program(), {"m/models/other.json": b"{"}))
    with pytest.raises(ImportFailed, match="holds no exported program"):
        checked_archive(write(tmp_path / "e.pt2", []))


def test_what_expands_is_refused(tmp_path: Path) -> None:
    """Compressed zeros, and members that are the same bytes many times over."""
    path = write(tmp_path / "bomb.pt2", program())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data/weights/weight_1", bytes(1 << 20))
    with pytest.raises(ImportFailed, match="more than its own size"):
        checked_archive(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data/weights/weight_0", bytes(1 << 10))
        (first,) = archive.infolist()
        for number in range(1, 9):
            again = copy.copy(first)
            again.filename = f"m/data/weights/weight_{number}"
            archive.filelist.append(again)
    with pytest.raises(ImportFailed, match=r"its own size|not a readable"):
        checked_archive(path)


def test_archives_in_archives_are_refused(tmp_path: Path) -> None:
    inner = write(tmp_path / "inner.pt2", program()).read_bytes()
    for name in ("m/inner.pt2", "m/data/weights/inner.zip", "inner.pt2"):
        with pytest.raises(ImportFailed, match="it holds"):
            checked_archive(write(tmp_path / "outer.pt2", program(), {name: inner}))
    path = write(tmp_path / "model.pt2", program(), {"m/models/other.json": inner})
    with pytest.raises(ImportFailed, match=r"other\.json is damaged"):
        checked_archive(path)

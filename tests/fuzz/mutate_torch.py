"""Damage to PyTorch's archives: to the program and the lists of weights, which are JSON, and to
members. Some texts would end the process if anything ran them as code.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from mutate import Rng, change_integer, change_list, change_text, mutate_bytes

#: What ends a process that runs it, which the fuzzer sees; and sizes that take forever.
CODE = (
    "exec('raise SystemExit(77)')", "__import__('os')._exit(77)", "9**9**9**9", "s0**9", "(" * 300,
    "Max(1, s0)", "torch.load", "torch.ops.aten.relu.default", "builtins.list", "os.system",
    '[1, {"type": "builtins.dict", "context": "x", "children_spec": []}]', "u0", "int_oo",
)  # fmt: skip
_LIMIT = 1 << 63


def mutate_torch(data: bytes, changes: int, rng: Rng) -> bytes:
    """A copy of a `.pt2` file in which this many of its members are changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
    for _ in range(changes):
        names = sorted(members)
        programs = [name for name in names if name.endswith(".json")]
        name = str(rng.choice(programs if rng.random() < 0.8 else names))
        if name.endswith(".json") and rng.random() < 0.95:
            members[name] = _changed_json(members[name], rng)
        else:
            _change_member(members, name, rng)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def _change_member(members: dict[str, bytes], name: str, rng: Rng) -> None:
    content = members.pop(name)
    what = rng.integers(4)
    if what == 0:
        members[name] = mutate_bytes(content, rng)
    elif what == 1:
        members[f"{name}{rng.choice(['x', '_0', '/../../evil', '.pt'])}"] = content
    elif what == 2:
        members[name] = content[: int(rng.integers(len(content) + 1))]


def _changed_json(content: bytes, rng: Rng) -> bytes:
    try:
        whole = json.loads(content)
    except ValueError:  # an earlier change
        return content
    places = [(whole, key) for key in _keys(whole)]
    for parent, key in places:  # grows
        places += [(parent[key], inner) for inner in _keys(parent[key])]
    if places:
        parent, key = places[int(rng.integers(len(places)))]
        if isinstance(parent, dict) and rng.random() < 0.1:
            del parent[key]
        else:
            other, at = places[int(rng.integers(len(places)))]
            swapped = json.loads(json.dumps(other[at]))
            parent[key] = swapped if rng.random() < 0.2 else _changed(parent[key], rng)
    return json.dumps(whole).encode()


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []


def _changed(value: Any, rng: Rng) -> Any:
    """Another value of the same kind; texts may become code."""
    if isinstance(value, bool) or value is None:
        return [True, False, None, 1, "x"][int(rng.integers(5))]
    if isinstance(value, int):
        return change_integer(value, rng, -_LIMIT, _LIMIT)
    if isinstance(value, str) and rng.random() < 0.6:
        return CODE[int(rng.integers(len(CODE)))]
    if isinstance(value, str):
        return change_text(value.encode(), rng).decode("latin-1")
    if isinstance(value, list):
        return change_list(value, rng)
    return {}

"""A copy of a `.pt2` file that `torch.export.load` can read without running code from it.

`torch.export.load` trusts its file: sizes are handed to sympy's parser as text, weights and sample
inputs may be pickles, and a node's target may be any function inside `torch`. So the archive is
checked first, and a copy is written that holds only

- the program, with targets from a list of known names, sizes of a small grammar, tree
  descriptions of plain tuples, lists and dicts, and the metadata that reports need;
- raw little-endian weights and constants;
- *empty* sample inputs (torch wants the member to exist).

Source of the layout: torch 2.13, `torch/export/pt2_archive/_package.py` and
`torch/_export/serde/schema.py`.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgec.errors import ImportFailed

#: Largest size of an archive's members. They are stored uncompressed, so it limits the file too.
MAX_ARCHIVE_BYTES = 1 << 30
#: Targets of nodes: operators of these namespaces, control flow, and arithmetic of sizes.
_TARGET = re.compile(
    r"torch\.ops\.(aten|quantized_decomposed|torchao|_quantized)\.\w+(\.\w+)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled)"
    r"|_operator\.(getitem|add|sub|mul|floordiv|mod|truediv|neg|pow|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|torch\.sym_(max|min|not|float|int|ite|sum)"
    r"|math\.(ceil|floor|trunc)"
)
#: A size as text: integers, symbols, and the functions that torch prints for them.
_EXPRESSION = re.compile(
    r"(?:\d++|[su]\d++|zuf\d++|(?:Strict)?(?:Less|Greater)Than|(?:Une|E)quality"
    r"|Mod|FloorDiv|CeilDiv|CleanDiv|PythonMod|Max|Min|Eq|Ne|Ge|Gt|Le|Lt"
    r"|Symbol\('[su]\d++'(?:, (?:positive|nonnegative|integer)=True)*+\)|Add|Mul"
    r"|Integer|True|False|int_oo|[-+*/%(),<>=&|~ ])*+"
)
#: Powers are small and of few: `9**9**9` alone would take forever.
_LARGE_POWER = re.compile(r"\*\*(?! *[2-4](?![\d*]| *\*))|(\*\*.*){5}")
#: Characters of a size.
_MOST_CHARACTERS = 2000
_MEMBERS = re.compile(
    r"(?P<model>models/(?P<name>[\w-]+)\.json)"
    r"|(?P<config>data/(weights|constants)/[\w-]+_config\.json)"
    r"|(?P<raw>data/(weights/weight|constants/tensor)_\d+)"
    r"|(?P<samples>data/sample_inputs/[\w-]+\.pt)"
    r"|(?P<plain>archive_format|archive_version|byteorder|\.data/version|\.data/serialization_id)"
)
#: Exceptions of zipfile for damaged archives; ValueError is for names in no encoding.
_DAMAGED = (zipfile.BadZipFile, ValueError, struct.error, zlib.error)
_TREE_TYPES = (None, "builtins.tuple", "builtins.list", "builtins.dict")
_METADATA = ("stack_trace", "nn_module_stack", "torch_fn")


def checked_archive(path: Path) -> io.BytesIO:
    """The copy of a `.pt2` file. Raises ImportFailed if it is damaged or would run code."""
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(made, "w") as copy:
            members = archive.infolist()
            total, most = sum(m.file_size for m in members), path.stat().st_size
            if total > min(most, MAX_ARCHIVE_BYTES):
                reason = "its own size" if most < MAX_ARCHIVE_BYTES else "1 GiB"
                raise ImportFailed(
                    f"{path.name} expands to {total:,} bytes, more than {reason}",
                    hint="torch.export.save compresses nothing: write it with that",
                )
            for member in members:
                content = _checked_member(path, archive, member)
                if content is not None:
                    copy.writestr(member.filename, content)
    except (*_DAMAGED, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ImportFailed(
            f"{path} is not a readable PyTorch archive ({error})",
            hint="write it with torch.export.save; torch.save files are not read",
        ) from None
    made.seek(0)
    return made


def _checked_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    """The bytes of one member in the copy; None to omit it."""
    _, _, name = member.filename.partition("/")
    kind = _MEMBERS.fullmatch(name)
    if kind is None or ".." in member.filename or member.filename.startswith("/"):
        if name.startswith("extra/"):
            return None
        raise _refused(path, f"it holds {member.filename!r}")
    if kind["samples"]:
        return b""
    content = archive.read(member)
    if kind["model"]:
        return json.dumps(_checked_program(path, _parsed(path, name, content))).encode()
    if kind["config"]:
        for value in _dicts(_parsed(path, name, content)):
            if value.get("use_pickle"):
                raise _refused(path, f"{value.get('path_name')!r} is a pickle")
    return content


def _parsed(path: Path, name: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"{path.name}: {name} is damaged ({error})") from None


def _checked_program(path: Path, program: Any) -> Any:
    """The program without guards and without metadata that nothing needs."""
    if not isinstance(program, dict) or "graph_module" not in program:
        raise ImportFailed(f"{path.name} holds no exported program")
    program["guards_code"] = []
    for value in _dicts(program):
        for key, entry in value.items():
            if key == "expr_str" and not _is_size(entry):
                raise _refused(path, f"the size {str(entry)[:60]!r} is not arithmetic")
            if key in ("in_spec", "out_spec") and isinstance(entry, str):
                _check_tree(path, entry)
            if key in ("as_custom_obj", "as_opaque", "custom_obj") and entry is not None:
                raise _refused(path, "it holds a custom object")
        if isinstance(value.get("target"), str) and "inputs" in value:
            if not _TARGET.fullmatch(value["target"]):
                raise _refused(path, f"a node calls {value['target'][:60]!r}")
            metadata = value.get("metadata")
            if isinstance(metadata, dict):
                value["metadata"] = {k: v for k, v in metadata.items() if k in _METADATA}
    return program


def _is_size(text: Any) -> bool:
    """Whether torch may read a text as a size: arithmetic that ends."""
    return (
        isinstance(text, str)
        and len(text) <= _MOST_CHARACTERS
        and _EXPRESSION.fullmatch(text) is not None
        and _LARGE_POWER.search(text) is None
    )


def _check_tree(path: Path, text: str) -> None:
    """Refuse a description of nested inputs that names types to import."""
    for value in _dicts(_parsed(path, "a tree description", text.encode())):
        plain = value.get("type") in _TREE_TYPES and isinstance(
            value.get("context"), (str, type(None))
        )
        context = value.get("context") if plain else None
        names = _parsed(path, "a tree description", context.encode()) if context else None
        if not plain or not (
            names is None or (isinstance(names, list) and all(isinstance(n, str) for n in names))
        ):
            raise _refused(path, f"its inputs have the type {str(value.get('type'))[:60]!r}")


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object inside a value, in order."""
    waiting = [value]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield entry
            waiting.extend(entry.values())
        elif isinstance(entry, list):
            waiting.extend(entry)


def _refused(path: Path, what: str) -> ImportFailed:
    return ImportFailed(
        f"{path.name} is refused: {what}",
        details=("torch.export.load would run code from such a file",),
        hint="export the model again from its source, with plain tensors",
    )

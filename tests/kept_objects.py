"""Object files that are compiled once for all tests of a session, and quickly where that will do.

A test that builds a model compiles the runtime and the port of its board too, and often a model
that another test has built before. An object is kept under a hash of all that it depends on: the
compiler and its version, its flags, and the contents of the C file and of what that includes.
Compilers that write paths or other files beside the object (debug data, sanitizers) always run.

Kernels for a desktop's vectors take gcc seconds with -O3. Tests of bits and instructions compile
them as they ship. Tests of what is around them (the command line, the quantizer), and builds whose
values are all looked at, have gcc leave the optimization out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from edgec.boards.toolchain import Toolchain
from edgec.deploy.project import TRACE_DEFINE

_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*(.*)$", re.MULTILINE)
_NAMED = re.compile(rb'"([^"]+)"|<([^>]+)>')
#: Files that a user's macro names: nothing where it has no value.
_MACRO = b"EC_CONFIG_FILE"
#: Beginnings of flags whose objects name the folder that they were made in, or that write more.
_NOT_KEPT = ("-g", "-fsanitize", "-M", "-save", "--coverage", "-fprofile", "-include", "-x", "@")
_KEPT_ANYWAY = ("-g0",)
#: How hosts' libraries are compiled by default.
SHIPPED_LEVEL = "-O3"
_run = Toolchain.run


class KeptObjects:
    """Objects in a folder that the workers of a session share."""

    #: Whether C for this computer is compiled without optimization.
    is_quick = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(self) -> None:
        """Compile by way of this folder from now on, in this process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        keeper = self

        def run(
            toolchain: Toolchain, command: Sequence[str], folder: Path
        ) -> subprocess.CompletedProcess[str]:
            return keeper.run(toolchain, list(command), folder)

        Toolchain.run = run  # type: ignore[method-assign]

    def run(
        self, toolchain: Toolchain, command: list[str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """What `Toolchain.run` gives."""
        is_host = toolchain.family == "gcc" and not toolchain.core.is_embedded
        if is_host and (KeptObjects.is_quick or f"-D{TRACE_DEFINE}" in command):
            command = ["-O0" if word == SHIPPED_LEVEL else word for word in command]
        key = key_of(toolchain, command)
        if key is None:
            return _run(toolchain, command, folder)
        target = Path(command[-1])
        kept = self._folder / key
        if kept.is_dir():
            # Those who count the programs that start, or let one fail, count this one.
            sys.audit("subprocess.Popen", command[0], command, str(folder), None)
            for path in kept.iterdir():
                _copy(path, target.with_suffix(path.suffix))
            return subprocess.CompletedProcess(command, 0, "", "")
        done = _run(toolchain, command, folder)
        if done.returncode == 0 and not done.stdout and not done.stderr:
            self._keep(target, kept)
        return done

    def _keep(self, target: Path, kept: Path) -> None:
        """Keep an object and what gcc says of its stack, whole or not at all."""
        own = self._folder / f"{kept.name}.{os.getpid()}"
        own.mkdir(exist_ok=True)
        for path in (target, target.with_suffix(".su")):
            if path.is_file():
                _copy(path, own / f"object{path.suffix}")
        try:
            own.rename(kept)
        except OSError:  # another worker was first
            shutil.rmtree(own)


def key_of(toolchain: Toolchain, command: Sequence[str]) -> str | None:
    """The name of an object among the kept; None for what is no plain compilation."""
    if len(command) < 4 or command[-4] != "-c" or command[-2] != "-o":
        return None
    source, flags = Path(command[-3]), command[:-4]
    if any(f.startswith(_NOT_KEPT) and f not in _KEPT_ANYWAY for f in flags):
        return None
    if any(f.startswith(f"-D{_MACRO.decode()}") for f in flags):
        return None
    dirs = [Path(flag[2:]) for flag in flags if flag.startswith("-I")]
    found = _contents(source, dirs)
    if found is None:
        return None
    rest = [flag for flag in flags if not flag.startswith("-I")]
    return hashlib.sha256(repr((toolchain.version, rest, source.name, found)).encode()).hexdigest()


def _contents(source: Path, dirs: Sequence[Path]) -> list[tuple[str, str]] | None:
    """Names and hashes of a C file and of the files that it includes; None if these are unclear.

    Headers in none of the folders are the compiler's own.
    """
    found: list[tuple[str, str]] = []
    todo, seen = [source], {source}
    while todo:
        path = todo.pop()
        try:
            state = path.stat()
        except OSError:
            return None
        digest, names = _read(path, state.st_mtime_ns, state.st_size)
        if names is None:
            return None
        found.append((path.name, digest))
        for is_quoted, name in names:
            for folder in [path.parent, *dirs] if is_quoted else dirs:
                if (folder / name).is_file():
                    found.append((name, ""))
                    if folder / name not in seen:
                        seen.add(folder / name)
                        todo.append(folder / name)
                    break
    return found


@lru_cache(maxsize=4096)
def _read(
    path: Path, changed_ns: int, size: int
) -> tuple[str, tuple[tuple[bool, str], ...] | None]:
    """The hash of a file, and the names it includes; None in their place if one is unclear."""
    data = path.read_bytes()
    names = []
    if b".incbin" in data:  # another file, of which the compiler says nothing
        return "", None
    for line in _INCLUDE.findall(data):
        match = _NAMED.match(line)
        if line.strip() == _MACRO and b"define " + _MACRO not in data:
            continue
        if match is None:
            return "", None
        names.append((match[1] is not None, (match[1] or match[2]).decode()))
    return hashlib.sha256(data).hexdigest(), tuple(names)


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())

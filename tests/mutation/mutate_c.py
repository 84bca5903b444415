"""Judge the tests of the C runtime by planted faults, as `mutate_package.py` does with Python.

    python tests/mutation/mutate_c.py            # all files
    python tests/mutation/mutate_c.py link       # those whose path has the word

A mutant has one token changed: another comparison or sign, a number that is one more, an `if` that
always or never holds. It is written into a copy of the repository, whose tests build it. A mutant
that no compiler takes is none.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import mutate_package
import pytest

#: Each file and the tests nearest to it.
FILES = {
    "runtime_c/include/edgec/ec_fixed_point.h": ("tests/runtime_c/test_fixed_point_c.py",),
    "runtime_c/link/ec_link_seal.c": ("tests/link/test_key.py",),
    "runtime_c/link/ec_link_siphash.c": ("tests/link/test_key.py",),
}  # fmt: skip
_COPIED = ("edgec", "runtime_c", "templates", "boards", "tests", "docs", "pyproject.toml",
           "README.md", "CHANGELOG.md")  # fmt: skip
#: What another token stands for one.
_OTHER = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    " + ": " - ", " - ": " + ", "<<": ">>", ">>": "<<", " & ": " | ", " | ": " & ", " ^ ": " & ",
    "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "^=": "|=",
}  # fmt: skip
_SKIPPED = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:\\\n|[^\n])*|->'
_TOKEN = re.compile(
    rf"(?P<skipped>{_SKIPPED})|(?P<if>\bif \()|(?P<number>\b\d+(?=u?\b)(?![.\w]*[.xX]))"
    r"|(?P<sign><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+|&^]=| [-+&|^] |(?<= )[<>](?= ))",
    re.DOTALL | re.MULTILINE,
)


def mutants(text: str, most: int) -> Iterator[tuple[int, str, str]]:
    """(line, what is changed, the text with it) of `most` mutants, spread evenly."""
    changed = []
    for token in _TOKEN.finditer(text):
        word, kind = token.group(), token.lastgroup
        if kind == "number":
            changed.append((token, str(int(word) + 1)))
        elif kind == "if":
            changed += [(token, "if (1 || "), (token, "if (0 && ")]
        elif kind == "sign" and word in _OTHER:
            changed.append((token, _OTHER[word]))
    most = min(most, len(changed))
    for token, word in (changed[n * len(changed) // most] for n in range(most)):
        line = text.count("\n", 0, token.start()) + 1
        fresh = text[: token.start()] + word + text[token.end() :]
        yield line, f"{text.splitlines()[line - 1].strip()} -> {word.strip()}", fresh


class Judge:
    """A plugin of pytest: with the tests collected once, forks a process for each mutant."""

    def __init__(self, path: str, most: int) -> None:
        self.path, self.most, self.found = Path(path), most, (0, [])

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop over the tests."""
        items = [i for i in session.items if "size" not in i.name and "libfuzzer" not in i.name]
        if not passes(session, items):
            sys.exit(f"tests of {self.path} fail without a mutant")
        text, count, survivors = self.path.read_text("utf-8"), 0, []
        for line, what, fresh in mutants(text, self.most):
            self.path.write_text(fresh, "utf-8")
            if is_c(self.path):
                count += 1
                if passes(session, items):
                    survivors.append((line, what))
                    print(f"{self.path}:{line}: {what}", file=sys.__stderr__, flush=True)
        self.path.write_text(text, "utf-8")
        self.found = (count, survivors)
        return True


def is_c(path: Path) -> bool:
    """Whether a compiler takes a file."""
    command = ["gcc", "-std=c99", "-w", "-fsyntax-only", "-x", "c", "-Iruntime_c/include",
               "-Iruntime_c/include/edgec", "-Iruntime_c/link"]  # fmt: skip
    return subprocess.run([*command, path], capture_output=True, check=False).returncode == 0


def passes(session: pytest.Session, items: Sequence[pytest.Item]) -> bool:
    """Whether all of these tests pass, in a process of their own."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            mutate_package._be_quiet()
            signal.alarm(mutate_package.MOST_SECONDS)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            status = int(bool(session.testsfailed))
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def judge(path: str) -> tuple[int, list[tuple[int, str]]]:
    """How many mutants a file has, and which survived. In the copy, in a process of its own."""
    plugin = Judge(path, mutate_package.MOST)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no", "-m", "not full"]
    pytest.main([*options, *FILES[path]], plugins=[plugin])
    return plugin.found


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory(prefix="edgec_mutants_") as folder:
        for name in _COPIED:
            source, copy = mutate_package.REPO_ROOT / name, Path(folder) / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
        environment = {**os.environ, "PYTHONPATH": folder}
        for path in FILES:
            if word in path:
                command = [sys.executable, "tests/mutation/mutate_c.py", "--here", path]
                subprocess.run(command, cwd=folder, env=environment, check=True)
        kept = Path(folder) / mutate_package.SCORES.relative_to(mutate_package.REPO_ROOT)
        shutil.copy(kept, mutate_package.SCORES)
        mutate_package.write({})
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        mutate_package.write({sys.argv[2]: judge(sys.argv[2])})
        sys.exit(0)
    sys.exit(main())

"""Judge the tests of the checkers by planted faults, and write the score into docs/mutation.md.

    python tests/mutation/mutate_checkers.py            # all of them, some minutes
    python tests/mutation/mutate_checkers.py memory     # those whose path has the word

A mutant is a checker with one change: another comparison, another number, `and` for `or`, a
condition that always or never holds, a statement left out. The tests of the checker's own folder
run in a process that is forked for each mutant; one whose tests all pass has survived. A survivor
that means the same as the checker is listed in EQUAL, with why.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

REPO_ROOT = Path(__file__).resolve().parents[2]
PAGE = REPO_ROOT / "docs" / "mutation.md"
#: What the last run of each checker found; a run of some leaves the others' as they are.
SCORES = Path(__file__).with_name("scores.json")
#: Seconds after which a mutant that loops counts as found.
MOST_SECONDS = 120
#: Each checker and the tests nearest to it.
CHECKERS = {
    "edgec/memory/check.py": ("tests/unit/memory/test_check.py",),
    "edgec/graph/verify.py": ("tests/unit/graph/test_graph_verify.py",),
    "edgec/loop/verify.py": ("tests/unit/loop/test_verify.py",),
    "edgec/build/check_image.py": ("tests/unit/build/test_check_image.py",),
    "edgec/oracle/verify.py": (
        "tests/unit/oracle/test_verify_faults.py", "tests/unit/oracle/test_verify_tolerance.py",
        "tests/unit/oracle/test_verify_choices.py",
    ),
}  # fmt: skip
#: Survivors that mean the same: (file, the mutant's text) and why.
_NOTHING = "a statement that is None is looked at, in which there is nothing"
EQUAL: dict[tuple[str, str], str] = {
    (
        "edgec/build/check_image.py",
        "1 -> 2",
    ): "of a name cut at its dots, the last part is the same",
} | {
    ("edgec/loop/verify.py", text): why
    for text, why in (
        ("if block.init is not None: -> if True:", _NOTHING),
        ("if stmt.otherwise is not None: -> if True:", _NOTHING),
        ("True -> False", "the lengths are compared before `zip` does so again"),
    )
}

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
#: A change to a copy of a node in place.
Change = Callable[[ast.AST], None]


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """(line, what is changed, the module with it) of each mutant of a file."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    inside = {id(n) for f in nodes if isinstance(f, (ast.FunctionDef, ast.Lambda))
              for n in ast.walk(f)} - _annotations(tree)  # fmt: skip
    for number, node in enumerate(nodes):
        if id(node) not in inside:
            continue
        for change in changes(node):
            changed = copy.deepcopy(tree)
            target = list(ast.walk(changed))[number]
            before = ast.unparse(target)
            change(target)
            ast.fix_missing_locations(changed)
            yield getattr(node, "lineno", 0), _difference(before, ast.unparse(target)), changed


def _annotations(tree: ast.AST) -> set[int]:
    """Parts of types, texts and defaults of dataclasses, which mean nothing at run time."""
    found: set[int] = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            found |= {id(n) for n in ast.walk(part)} if part is not None else set()
        if isinstance(node, ast.JoinedStr):
            found |= {id(n) for n in ast.walk(node)}
    return found


def _difference(before: str, after: str) -> str:
    """The lines that a mutant changes, in one line."""
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return " -> ".join(" ".join(" ".join(part).split())[:100] for part in (old, new))


def changes(node: ast.AST) -> Iterator[Change]:
    """What a mutant may do to a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield lambda n: n.ops.__setitem__(0, _OTHER[type(n.ops[0])]())  # type: ignore[attr-defined]
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield lambda n: setattr(n, "op", _ARITHMETIC[type(n.op)]())  # type: ignore[attr-defined]
    if isinstance(node, ast.BoolOp):
        yield lambda n: setattr(
            n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())  # type: ignore  # fmt: skip
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        is_bool = isinstance(node.value, bool)
        yield lambda n: setattr(n, "value", not n.value if is_bool else n.value + 1)  # type: ignore
    if isinstance(node, (ast.If, ast.IfExp)):
        yield lambda n: setattr(n, "test", ast.Constant(True))
        yield lambda n: setattr(n, "test", ast.Constant(False))
    if isinstance(node, (ast.FunctionDef, ast.If, ast.For, ast.With)):
        for position, statement in enumerate(node.body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if isinstance(statement, (ast.Expr, ast.Raise, ast.AugAssign)) and not is_text:
                yield lambda n, at=position: n.body.__setitem__(at, ast.Pass())  # type: ignore


def replace_code(module: ModuleType, tree: ast.Module) -> None:
    """Give the functions of a module, which others have imported, the code of the mutant."""
    fresh: dict[str, object] = {**vars(module)}
    exec(compile(tree, str(module.__file__), "exec"), fresh)
    for name, old in list(vars(module).items()):
        _replace(module, old, fresh.get(name))


def _replace(module: ModuleType, old: object, new: object) -> None:
    if getattr(old, "__module__", None) != module.__name__:
        return
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
    elif inspect.isclass(old) and inspect.isclass(new):
        for name, member in vars(old).items():
            for part in ("fget", "func", "__func__", "__wrapped__"):
                inner = getattr(member, part, None)
                if inner is not None:
                    _replace(module, inner, getattr(vars(new).get(name), part, None))
            _replace(module, member, vars(new).get(name))
    else:
        inner = getattr(old, "__wrapped__", None)
        if inner is not None:
            _replace(module, inner, getattr(new, "__wrapped__", None))


class Judge:
    """A plugin of pytest: with the tests collected once, forks a process for each mutant."""

    def __init__(self, path: str) -> None:
        self.path, self.count = path, 0
        self.survivors: list[tuple[int, str]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop over the tests."""
        module = importlib.import_module(self.path.removesuffix(".py").replace("/", "."))
        if not survives(session, module, None):
            sys.exit(f"tests of {self.path} fail without a mutant")
        for line, text, tree in mutants((REPO_ROOT / self.path).read_text("utf-8")):
            self.count += 1
            if survives(session, module, tree):
                self.survivors.append((line, text))
                print(f"{self.path}:{line}: {text}", file=sys.__stderr__, flush=True)
        return True


def survives(session: pytest.Session, module: ModuleType, tree: ast.Module | None) -> bool:
    """Whether all tests pass with a mutant; None stands for the checker itself."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            signal.alarm(MOST_SECONDS)
            if tree is not None:
                replace_code(module, tree)
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            status = int(bool(session.testsfailed))
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def judge(path: str) -> tuple[int, list[tuple[int, str]]]:
    """How many mutants a checker has, and which survived."""
    plugin = Judge(path)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no"]
    pytest.main([*options, *CHECKERS[path]], plugins=[plugin])
    return plugin.count, plugin.survivors


def page(results: dict[str, tuple[int, list[tuple[int, str]]]]) -> str:
    """The page of the docs."""
    lines = [
        "# How the checkers are tested", "",
        "Every claim of edgec stands on a few checkers. `python tests/mutation/mutate_checkers.py`"
        " plants faults in them one by one, runs the tests nearest to each, and writes this page:"
        " a fault that no test notices has survived.", "",
        "| checker | mutants | killed | the same meaning | survived |", "|---|---|---|---|---|",
    ]  # fmt: skip
    listed = []
    for path, (count, survivors) in results.items():
        equal = [text for _, text in survivors if (path, text) in EQUAL]
        open_ = [(line, text) for line, text in survivors if (path, text) not in EQUAL]
        killed = count - len(survivors)
        lines.append(f"| `{path}` | {count} | {killed} | {len(equal)} | {len(open_)} |")
        listed += [f"- `{path}`: `{text}`: {EQUAL[path, text]}" for text in equal]
        listed += [f"- `{path}`: `{text}`: survived" for _, text in open_]
    total = sum(count for count, _ in results.values())
    left = sum(
        1 for path, (_, found) in results.items() for _, t in found if (path, t) not in EQUAL
    )
    lines += [
        "",
        f"{100 * (total - left) / total:.1f} % of {total} mutants are killed or explained.",
    ]
    return "\n".join([*lines, "", *listed]).rstrip() + "\n"


def main() -> int:
    for name in ("tests", "tests/unit/memory", "tests/fuzz"):
        sys.path.insert(0, str(REPO_ROOT / name))
    os.chdir(REPO_ROOT)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    start = time.monotonic()
    scores = json.loads(SCORES.read_text("utf-8")) if SCORES.exists() else {}
    scores |= {path: judge(path) for path in CHECKERS if word in path}
    SCORES.write_text(json.dumps(scores, indent=1) + "\n", "utf-8")
    text = page({path: scores[path] for path in CHECKERS if path in scores})
    PAGE.write_text(text, "utf-8")
    print(text, f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

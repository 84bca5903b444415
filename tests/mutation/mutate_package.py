"""Judge tests by planted faults, and write the score into docs/mutation.md.

    python tests/mutation/mutate_package.py            # all of them, an hour
    python tests/mutation/mutate_package.py memory     # those whose path has the word
    python tests/mutation/mutate_package.py cut tests/unit/memory/test_cut.py   # by these tests

A mutant is a file with one change: another comparison, another number, `and` for `or`, a condition
that always or never holds, a statement left out. Of the checkers all mutants are tried, of the
PARTS some. A process is forked for each mutant and runs the tests nearest to its file that reach
the changed line; a mutant has survived if they all pass. A survivor that means the same as the
file is listed in `equal.toml`, with why.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import inspect
import json
import os
import pickle
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

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
        "tests/unit/oracle/test_verify_choices.py", "tests/unit/oracle/test_verify_parts.py",
    ),
}  # fmt: skip
#: Files of which MOST mutants each are tried, by the folder of their tests; C is in `mutate_c.py`.
PARTS = {
    "tests/unit/numerics": ("numerics/fixed_point", "numerics/term"),
    "tests/unit/graph": ("graph/extents", "graph/interpret", "graph/limits", "graph/parser",
                         "graph/printer"),
    "tests/unit/codegen": ("codegen/c_data", "codegen/c_term", "codegen/collapse",
                           "codegen/expand", "codegen/names", "codegen/ranges"),
    "tests/unit/memory": ("memory/certificate", "memory/cut", "memory/layout", "memory/order",
                          "memory/problem", "memory/row_flow", "memory/solve"),
    "tests/unit/loop": ("loop/access", "loop/bound", "loop/in_place", "loop/overlap",
                        "loop/parser", "loop/simplify", "loop/unify"),
}  # fmt: skip
MOST = 20
#: Seconds of the slowest test that is run for each mutant of a part.
SLOW_SECONDS = 5
#: Survivors that mean the same: by file and the mutant's text, why.
EQUAL: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("equal.toml").read_text("utf-8")
)

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
#: How many mutants each file has, and which survived.
Results = dict[str, tuple[int, list[tuple[int, str]]]]
#: A change to a copy of a node in place.
Change = Callable[[ast.AST], None]


def mutants(source: str, most: int | None = None) -> Iterator[tuple[int, str, ast.Module]]:
    """(line, what is changed, the module with it) of each mutant of a file, or of `most` of them.

    These are spread evenly.
    """
    tree, lines = ast.parse(source), source.splitlines()
    nodes = list(ast.walk(tree))
    inside = {id(n) for f in nodes if isinstance(f, (ast.FunctionDef, ast.Lambda))
              for n in ast.walk(f)} - _annotations(tree)  # fmt: skip
    all_ = [(number, at) for number, node in enumerate(nodes) if id(node) in inside
            for at in range(len(list(changes(node))))]  # fmt: skip
    if most is not None and most < len(all_):
        all_ = [all_[n * len(all_) // most] for n in range(most)]
    for number, at in all_:
        changed = copy.deepcopy(tree)
        target = list(ast.walk(changed))[number]
        before = ast.unparse(target)
        list(changes(target))[at](target)
        ast.fix_missing_locations(changed)
        line, text = getattr(nodes[number], "lineno", 0), _difference(before, ast.unparse(target))
        if not isinstance(target, ast.stmt):  # an expression alone does not show where it is
            text = f"{lines[line - 1].strip()}: {text}"
        yield line, text, changed


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
        old.__kwdefaults__ = new.__kwdefaults__
        _replace(module, getattr(old, "__wrapped__", None), getattr(new, "__wrapped__", None))
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

    def __init__(self, paths: Sequence[str], most: int | None) -> None:
        self.paths, self.most = paths, most
        self.found: Results = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop over the tests."""
        reached = lines_by_test(session, self.paths)
        if self.most is None and len(reached) < len(session.items):
            sys.exit(f"tests of {self.paths} fail without a mutant")
        for path in self.paths:
            start, survivors, count = time.monotonic(), [], 0
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            lines = {n: found[path] for n, found in reached.items() if path in found}
            for line, text, tree in mutants((REPO_ROOT / path).read_text("utf-8"), self.most):
                count += 1
                if survives(session, tests_of(session, lines, line), module, tree):
                    survivors.append((line, text))
                    print(f"{path}:{line}: {text}", file=sys.__stderr__, flush=True)
            write({path: (count, survivors)})
            took = f"{count - len(survivors)} of {count}, {time.monotonic() - start:.0f} s"
            print(f"{path}: {took}", file=sys.__stderr__, flush=True)
        return True


def tests_of(session: pytest.Session, lines: dict[int, set[int]], line: int) -> list[pytest.Item]:
    """The tests that reach a line, or the next one that is one: of what is inside a statement."""
    following = min((n for each in lines.values() for n in each if n >= line), default=line)
    return [session.items[n] for n, each in lines.items() if {line, following} & each]


def lines_by_test(session: pytest.Session, paths: Sequence[str]) -> dict[int, dict[str, set[int]]]:
    """The lines of each file that each test reaches, the quickest tests first; those that pass."""
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                _be_quiet()
                pickle.dump(
                    _lines(session, {str(REPO_ROOT / path): path for path in paths}), answer
                )
                answer.flush()
            os._exit(0)
        os.waitpid(child, 0)
        answer.seek(0)
        found: dict[int, dict[str, set[int]]] = pickle.load(answer)
        return found


def _lines(session: pytest.Session, paths: dict[str, str]) -> dict[int, dict[str, set[int]]]:
    found, seconds = {}, {}
    for number, item in enumerate(session.items):
        lines: dict[str, set[int]] = {}

        def inside(frame: Any, event: str, _: object, lines: Any = lines) -> Any:
            lines.setdefault(paths[frame.f_code.co_filename], set()).add(frame.f_lineno)
            return inside

        def called(frame: Any, event: str, argument: object, inside: Any = inside) -> Any:
            is_ours = frame.f_code.co_filename in paths
            return inside(frame, event, argument) if is_ours else None

        failed, start = session.testsfailed, time.process_time()
        sys.settrace(called)
        run_test(item)
        sys.settrace(None)
        seconds[number] = time.process_time() - start
        if session.testsfailed == failed and seconds[number] < SLOW_SECONDS:
            found[number] = lines
    return {number: found[number] for number in sorted(found, key=lambda n: seconds[n])}


def run_test(item: pytest.Item) -> None:
    """One test, with a set-up of its own."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _be_quiet() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def survives(
    session: pytest.Session, items: Sequence[pytest.Item], module: ModuleType, tree: ast.Module
) -> bool:
    """Whether all of these tests pass with a mutant."""
    child = os.fork()
    if child == 0:
        status = 0  # one that cannot be planted has survived
        with contextlib.suppress(BaseException):
            _be_quiet()
            signal.alarm(MOST_SECONDS)
            replace_code(module, tree)
            status = 1
            for item in items:
                run_test(item)
                if session.testsfailed:
                    break
            status = int(bool(session.testsfailed))
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def judge(paths: Sequence[str], tests: Sequence[str], most: int | None) -> None:
    """Find which mutants of these files survive these tests."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no", "-m", "not full"]
    pytest.main([*options, *tests], plugins=[Judge(paths, most)])


def page(results: Results) -> str:
    """The page of the docs."""
    checkers = {path: found for path, found in results.items() if path in CHECKERS}
    others = {path: found for path, found in results.items() if path not in CHECKERS}
    lines = [
        "# How the tests are tested", "",
        "A fault is planted, the tests nearest to it run, and one that no test notices has"
        " survived. `python tests/mutation/mutate_package.py` does so with Python, `mutate_c.py`"
        " beside it with C; both write this page.", "",
        "## Checkers", "",
        "Every claim of edgec stands on a few checkers. All their mutants are tried.", "",
        *_table(checkers), "", "## Parts", "",
        f"Of the compiler and of the C that it ships, up to {MOST} mutants of each file, spread"
        " evenly over it.", "",
        *_table(others), "", "## Survivors", "",
    ]  # fmt: skip
    for path, (_, survivors) in results.items():
        equal = EQUAL.get(path, {})
        lines += [f"- `{path}`: `{text}`: {equal.get(text, 'survived')}" for _, text in survivors]
    return "\n".join(lines).rstrip() + "\n"


def _table(results: Results) -> list[str]:
    lines = ["| file | mutants | killed | the same meaning | survived |", "|---|---|---|---|---|"]
    total = left = 0
    for path, (count, survivors) in sorted(results.items()):
        equal = sum(text in EQUAL.get(path, {}) for _, text in survivors)
        open_ = len(survivors) - equal
        total, left = total + count, left + open_
        lines.append(f"| `{path}` | {count} | {count - len(survivors)} | {equal} | {open_} |")
    percent = 100 * (total - left) / max(total, 1)
    return [*lines, "", f"{percent:.1f} % of {total} mutants are killed or explained."]


def write(found: Results) -> None:
    """Keep what was found, and write the page anew."""
    scores = json.loads(SCORES.read_text("utf-8")) if SCORES.exists() else {}
    scores |= found
    SCORES.write_text(json.dumps(dict(sorted(scores.items())), indent=1) + "\n", "utf-8")
    PAGE.write_text(page({path: tuple(each) for path, each in scores.items()}), "utf-8")


def main() -> int:
    for name in ("tests", "tests/unit/memory", "tests/fuzz"):
        sys.path.insert(0, str(REPO_ROOT / name))
    os.chdir(REPO_ROOT)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    jobs = [([path], tests, None) for path, tests in CHECKERS.items() if word in path]
    for folder, names in PARTS.items():
        paths = [f"edgec/{name}.py" for name in names if word in f"edgec/{name}.py"]
        jobs += [(paths, tuple(sys.argv[2:]) or (folder,), MOST)] if paths else []
    for job in jobs:
        child = os.fork()  # each with modules of its own
        if child == 0:
            judge(*job)
            os._exit(0)
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())

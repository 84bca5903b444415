"""Judge tests by planted faults, and write the score into docs/mutation.md.

    python tests/mutation/mutate.py            # all of them, an hour
    python tests/mutation/mutate.py memory     # those whose path has the word

A mutant is a file with one change: another comparison, another number, `and` for `or`, a condition
that always or never holds, a statement left out. Of the checkers all mutants are tried, of the
PARTS some. The tests nearest to a file, those of them that reach the changed line, run in a process
that is forked for each mutant; one whose tests all pass has survived. A survivor that means the
same as the file is listed in EQUAL, with why.
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
        "tests/unit/oracle/test_verify_choices.py",
    ),
}  # fmt: skip
#: Of these, MOST mutants each; of C, see `mutate_c.py`.
PARTS = {
    "edgec/codegen/c_data.py": ("tests/unit/codegen/test_c_data.py",),
    "edgec/codegen/c_term.py": ("tests/unit/codegen/test_c_term.py",),
    "edgec/codegen/collapse.py": ("tests/unit/codegen/test_collapse.py",),
    "edgec/codegen/expand.py": ("tests/unit/codegen/test_expand.py",),
    "edgec/codegen/names.py": ("tests/unit/codegen/test_names.py",),
    "edgec/codegen/ranges.py": ("tests/unit/codegen/test_ranges.py",),
    "edgec/graph/extents.py": ("tests/unit/graph/test_extents.py",),
    "edgec/graph/interpret.py": ("tests/unit/graph/test_graph_interpret.py",),
    "edgec/graph/limits.py": ("tests/unit/graph/test_limits.py",),
    "edgec/graph/parser.py": ("tests/unit/graph/test_graph_parser.py",),
    "edgec/graph/printer.py": ("tests/unit/graph/test_graph_printer.py",),
    "edgec/loop/access.py": ("tests/unit/loop/test_access.py",),
    "edgec/loop/bound.py": ("tests/unit/loop/test_bound.py",),
    "edgec/loop/in_place.py": ("tests/unit/loop/test_in_place.py",),
    "edgec/loop/overlap.py": ("tests/unit/loop/test_overlap.py",),
    "edgec/loop/parser.py": ("tests/unit/loop/test_parser.py",),
    "edgec/loop/simplify.py": ("tests/unit/loop/test_simplify.py",),
    "edgec/loop/unify.py": ("tests/unit/loop/test_unify.py",),
    "edgec/memory/certificate.py": ("tests/unit/memory/test_certificate.py",),
    "edgec/memory/cut.py": ("tests/unit/memory/test_cut.py",),
    "edgec/memory/layout.py": ("tests/unit/memory/test_layout.py",),
    "edgec/memory/order.py": ("tests/unit/memory/test_order.py",),
    "edgec/memory/problem.py": ("tests/unit/memory/test_problem.py",),
    "edgec/memory/row_flow.py": ("tests/unit/memory/test_row_flow.py",),
    "edgec/memory/solve.py": ("tests/unit/memory/test_solve.py",),
    "edgec/numerics/fixed_point.py": ("tests/unit/numerics/test_fixed_point.py",),
}
MOST = 20
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


def mutants(source: str, most: int | None = None) -> Iterator[tuple[int, str, ast.Module]]:
    """(line, what is changed, the module with it) of each mutant of a file, or of `most` of them.

    These are spread evenly.
    """
    tree = ast.parse(source)
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
        yield getattr(nodes[number], "lineno", 0), _difference(before, ast.unparse(target)), changed


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

    def __init__(self, path: str, most: int | None) -> None:
        self.path, self.most, self.count = path, most, 0
        self.survivors: list[tuple[int, str]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own loop over the tests."""
        module = importlib.import_module(self.path.removesuffix(".py").replace("/", "."))
        reached = lines_by_test(session, str(module.__file__))
        if len(reached) < len(session.items):
            sys.exit(f"tests of {self.path} fail without a mutant")
        for line, text, tree in mutants((REPO_ROOT / self.path).read_text("utf-8"), self.most):
            self.count += 1
            least = min((n for lines in reached.values() for n in lines if n >= line), default=line)
            tests = [n for n, lines in reached.items() if {line, least} & lines]
            items = [session.items[n] for n in tests]
            if not items or survives(session, items, module, tree):
                self.survivors.append((line, text))
                print(f"{self.path}:{line}: {text}", file=sys.__stderr__, flush=True)
        return True


def lines_by_test(session: pytest.Session, path: str) -> dict[int, set[int]]:
    """The lines of a file that each test reaches, the quickest tests first; those that pass."""
    with tempfile.TemporaryFile() as answer:
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                _be_quiet()
                pickle.dump(_lines(session, path), answer)
                answer.flush()
            os._exit(0)
        os.wait()
        answer.seek(0)
        found: dict[int, set[int]] = pickle.load(answer)
        return found


def _lines(session: pytest.Session, path: str) -> dict[int, set[int]]:
    found, seconds = {}, {}
    for number, item in enumerate(session.items):
        lines: set[int] = set()

        def inside(frame: Any, event: str, _: object, lines: set[int] = lines) -> Any:
            lines.add(frame.f_lineno)
            return inside if frame.f_code.co_filename == path else None

        def called(frame: Any, event: str, argument: object, inside: Any = inside) -> Any:
            is_ours = frame.f_code.co_filename == path
            return inside(frame, event, argument) if is_ours else None

        start = time.monotonic()
        sys.settrace(called)
        run_test(item)
        sys.settrace(None)
        if not session.testsfailed:
            found[number], seconds[number] = lines, time.monotonic() - start
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
        status = 1
        with contextlib.suppress(BaseException):
            _be_quiet()
            signal.alarm(MOST_SECONDS)
            replace_code(module, tree)
            for item in items:
                run_test(item)
                if session.testsfailed:
                    break
            status = int(bool(session.testsfailed))
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def judge(path: str) -> tuple[int, list[tuple[int, str]]]:
    """How many mutants a file has, and which survived."""
    plugin = Judge(path, None if path in CHECKERS else MOST)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=no", "-m", "not full"]
    pytest.main([*options, *(CHECKERS | PARTS)[path]], plugins=[plugin])
    return plugin.count, plugin.survivors


Results = dict[str, tuple[int, list[tuple[int, str]]]]


def page(results: Results) -> str:
    """The page of the docs."""
    checkers = {path: found for path, found in results.items() if path in CHECKERS}
    others = {path: found for path, found in results.items() if path not in CHECKERS}
    lines = [
        "# How the tests are tested", "",
        "A fault is planted, the tests nearest to it run, and one that no test notices has"
        " survived. `python tests/mutation/mutate.py` does so with Python, `mutate_c.py` beside it"
        " with C; both write this page.", "",
        "## Checkers", "",
        "Every claim of edgec stands on a few checkers. All their mutants are tried.", "",
        *_table(checkers), "", "## Parts", "",
        f"Of the compiler and of the C that it ships, up to {MOST} mutants of each file, spread"
        " evenly over it.", "",
        *_table(others), "", "## Survivors", "",
    ]  # fmt: skip
    for path, (_, survivors) in results.items():
        lines += [f"- `{path}`: `{text}`: {EQUAL.get((path, text), 'survived')}"
                  for _, text in survivors]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def _table(results: Results) -> list[str]:
    lines = ["| file | mutants | killed | the same meaning | survived |", "|---|---|---|---|---|"]
    total = left = 0
    for path, (count, survivors) in sorted(results.items()):
        equal = sum((path, text) in EQUAL for _, text in survivors)
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
    PAGE.write_text(page(scores), "utf-8")


def main() -> int:
    for name in ("tests", "tests/unit/memory", "tests/fuzz"):
        sys.path.insert(0, str(REPO_ROOT / name))
    os.chdir(REPO_ROOT)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    for path in CHECKERS | PARTS:
        if word in path:
            start = time.monotonic()
            count, survivors = judge(path)
            write({path: (count, survivors)})
            print(f"{path}: {count - len(survivors)} of {count}, {time.monotonic() - start:.0f} s",
                  file=sys.__stderr__, flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())

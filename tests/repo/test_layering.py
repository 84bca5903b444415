"""Imports run one way, as docs/layout.md says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from repo_files import REPO_ROOT, relative

#: Each row may import the rows above it; within a row, an area may import those before it.
ROWS = (
    ("errors", "resources", "numerics"),
    ("graph", "loop"),
    ("options",),
    ("ops",),
    ("frontends", "targets", "boards", "passes", "quantizer"),
    ("memory",),
    ("codegen",),
    ("build", "exporters", "link", "sim", "runners", "external"),
    ("pipeline", "deploy", "tune"),
    ("report",),
    ("oracle", "api", "onnx_backend", "serve"),
    ("cli", "dynamo", "training"),
)
ORDER = [area for row in ROWS for area in row]
#: Pairs that the order above would allow but that stay apart.
APART = {("loop", "graph"), ("passes", "frontends"), ("quantizer", "frontends")}

#: Foreign packages and the only places that may import them. The oracle runs the models' own
#: frameworks and asks them for inner tensors, so it reads their files too, and rewrites some.
FOREIGN = {
    "onnx": ("edgec/frontends/", "edgec/onnx_backend.py", "edgec/oracle/"),
    "tflite": ("edgec/frontends/", "edgec/oracle/"),
    "flatbuffers": ("edgec/frontends/", "edgec/oracle/"),
    "torch": ("edgec/frontends/", "edgec/oracle/", "edgec/dynamo/", "edgec/training/"),
    "unicorn": ("edgec/sim/",),
    "starlette": ("edgec/serve/",),
    "uvicorn": ("edgec/serve/",),
    "distributed": ("edgec/tune/workers.py",),
}

#: The program that runs in a process of its own, since unicorn's licence is the GPL.
WORKER = "edgec.sim.worker"

FILES = sorted((REPO_ROOT / "edgec").rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import in a file, inside functions and TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(path)}:{node.lineno}: a relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value)


def area_of(path: Path) -> str:
    return path.relative_to(REPO_ROOT / "edgec").parts[0].removesuffix(".py")


def faults(path: Path) -> list[str]:
    found = []
    area = area_of(path)
    for line, module in imported(path):
        where = f"{relative(path)}:{line} imports {module}"
        package, *rest = module.split(".")
        owners = FOREIGN.get(package)
        if owners is not None and not relative(path).startswith(owners):
            found.append(f"{where}, which only {' and '.join(owners)} may")
        if package != "edgec" or not rest or rest[0] in (area, "__version__"):
            continue
        # `edgec` itself is the public face above the pipeline; `python -m edgec` starts the cli.
        if area not in ("__init__", "__main__"):
            assert rest[0] in ORDER, f"{where}: {rest[0]} has no place in ROWS"
            if ORDER.index(rest[0]) > ORDER.index(area) or (area, rest[0]) in APART:
                found.append(f"{where}, against the one-way order")
    return found


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_imports_run_one_way(path: Path) -> None:
    assert faults(path) == []


def test_unicorn_stays_in_the_worker_process() -> None:
    names = {".".join(path.relative_to(REPO_ROOT).with_suffix("").parts): path for path in FILES}
    imports = {name: {module for _, module in imported(path)} for name, path in names.items()}

    def needs(name: str, package: str) -> bool:
        return any(
            module == package or module.startswith(f"{package}.") for module in imports[name]
        )

    tainted = {name for name in names if needs(name, "unicorn")}
    assert tainted, "nothing imports unicorn: this test looks for the wrong name"
    while more := {n for n in names if any(needs(n, t) for t in tainted)} - tainted:
        tainted |= more
    assert all(name.startswith("edgec.sim.") for name in tainted), tainted
    assert not [name for name in names if needs(name, WORKER)], "the worker is a program"
    # Whatever is tainted is reached from the worker alone.
    reached, before = {WORKER}, set[str]()
    while reached != before:
        before = set(reached)
        reached |= {t for t in tainted if any(needs(r, t) for r in before)}
    assert tainted <= reached, tainted - reached


def test_every_folder_has_a_place() -> None:
    areas = {area_of(path) for path in FILES} - {"__init__", "__main__"}
    assert areas <= set(ORDER)


def test_the_check_sees_what_it_should(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(globals(), "REPO_ROOT", tmp_path)
    monkeypatch.setattr("repo_files.REPO_ROOT", tmp_path)
    file = tmp_path / "edgec" / "graph" / "bad.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "def late():\n"
        "    from edgec.passes import fold\n"
        "    import onnx.helper\n"
        "    importlib.import_module('unicorn.unicorn')\n"
        "    from edgec.graph.types import Array\n"
        "    from edgec.errors import EdgecError\n"
    )
    assert [fault.partition(" imports ")[2].split(",")[0] for fault in faults(file)] == [
        "edgec.passes.fold",
        "onnx.helper",
        "unicorn.unicorn",
    ]

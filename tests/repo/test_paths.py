"""Every path, module and make target that the documentation names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from repo_files import CODE_SUFFIXES, REPO_ROOT, relative, text_files

PAGES = [
    path
    for path in text_files()
    if path.suffix == ".md" and (path.parent in (REPO_ROOT, REPO_ROOT / "docs"))
]
TOP_LEVEL = {path.name for path in REPO_ROOT.iterdir()}

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_PATH = re.compile(r"[\w.*<>{},-]+(?:/[\w.*<>{},-]+)*/?")
_MODULE = re.compile(r"edgec(?!\.toml$)(?:\.\w+)+")
_DOC_MENTION = re.compile(r"\bdocs/[\w/]+\.md\b")


def expand(text: str) -> list[str]:
    """`a/{b,c}/<op>.py` as patterns: `a/b/*.py` and `a/c/*.py`."""
    braces = re.search(r"\{([^{}]*)\}", text)
    if braces is None:
        return [re.sub(r"<[^<>]*>", "*", text)]
    before, after = text[: braces.start()], text[braces.end() :]
    return [path for word in braces[1].split(",") for path in expand(before + word + after)]


def exists(pattern: str) -> bool:
    if "*" in pattern:
        return any(REPO_ROOT.glob(pattern.rstrip("/")))
    path = REPO_ROOT / pattern
    # git keeps no empty folder: in a fresh clone it would be missing.
    return path.is_file() or any(file.is_file() for file in path.rglob("*"))


def module_exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something that a module defines."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        base = REPO_ROOT.joinpath(*parts[:count])
        source = next(
            (p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()), ""
        )
        if source:
            rest = parts[count : count + 1]
            return not rest or re.search(rf"\b{rest[0]}\b", source.read_text("utf-8")) is not None
    return False


def is_path(text: str) -> bool:
    return (
        _PATH.fullmatch(text) is not None
        and "/" in text
        and text.split("/")[0] in TOP_LEVEL | {"edgec", "docs", "tests"}
    )


def faults(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    found = []
    for code in _CODE.findall(text):
        if is_path(code):
            found += [code for pattern in expand(code) if not exists(pattern)]
        elif _MODULE.fullmatch(code) and not module_exists(code):
            found.append(code)
    for target in _LINK.findall(text):
        if not (page.parent / target).exists():
            found.append(f"link to {target}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_what_a_page_names_exists(page: Path) -> None:
    assert faults(page) == []


def test_pages_that_the_code_names_exist() -> None:
    missing = {
        f"{relative(path)} names {name}"
        for path in text_files()
        if path.suffix in CODE_SUFFIXES | {".toml"}
        for name in _DOC_MENTION.findall(path.read_text("utf-8"))
        if not (REPO_ROOT / name).exists()
    }
    assert missing == set()


def test_make_targets_exist() -> None:
    makefile = (REPO_ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z-]+)`", page.read_text("utf-8")):
            assert target in targets, f"{relative(page)}: make {target}"


def test_the_check_sees_what_it_should(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`edgec/errors.py` `edgec/<area>/` `edgec/{graph,loop}/ir.py` `edgec.graph.ir.Module`\n"
        "`edgec/no_such.py` `tests/{unit,no_such}/` `edgec.no_such` `edgec.graph.ir.NoSuch`\n"
        "`a / b` `x/y` [gone](gone.md) [here](page.md#top)\n"
    )
    assert faults(page) == [
        "edgec/no_such.py",
        "tests/{unit,no_such}/",
        "edgec.no_such",
        "edgec.graph.ir.NoSuch",
        "link to gone.md",
    ]

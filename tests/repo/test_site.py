"""The documentation as a site: it builds without a warning, its search finds the answers, and
everybody can use it. Pages are opened from disk, as a reader without a network has them.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from browser import leaves_sideways, show, violations
from repo_files import REPO_ROOT

QUESTIONS: dict[str, str] = tomllib.loads(
    (REPO_ROOT / "tests" / "repo" / "reader_questions.toml").read_text("utf-8")
)["questions"]
PAGES = sorted(path.with_suffix(".html").name for path in (REPO_ROOT / "docs").glob("*.md"))
#: One of each kind: prose with code, long tables, pictures.
SOME = ("index.html", "command_line.html", "operators.html", "gallery.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (edgec[docs])")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPO_ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr
    return folder


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (REPO_ROOT / "mkdocs.yml").read_text("utf-8")
    missing = [path.name for path in (REPO_ROOT / "docs").glob("*.md") if path.name not in menu]
    assert missing == []


def test_nothing_comes_from_the_web(site: Path) -> None:
    for page in site.glob("*.html"):
        for word in ('src="http', 'src="//', '@import "http', 'rel="stylesheet" href="http'):
            assert word not in page.read_text("utf-8"), page.name


_ASK = """
const box = document.querySelector("input.md-search__input");
const list = document.querySelector(".md-search-result__list");
list.replaceChildren();
box.focus();
box.value = arguments[0];
box.dispatchEvent(new Event("keyup", { bubbles: true }));
"""
_FIRST = "const a = document.querySelector('.md-search-result__item > a'); return a && a.href"


def first_page(browser: Any, words: str) -> str:
    """The page that the site's own search shows first; "" if it shows none in ten seconds."""
    browser.execute_script(_ASK, words)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = browser.execute_script(_FIRST)
        if found:
            return str(found).rpartition("/")[2].partition("?")[0].partition("#")[0]
        time.sleep(0.03)
    return ""


def test_the_search_finds_the_answers_of_newcomers_first(site: Path, browser: Any) -> None:
    """The questions and the answers are in reader_questions.toml."""
    assert len(QUESTIONS) == 40
    sections = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    texts: dict[str, str] = {}
    for section in sections:
        page = section["location"].partition("#")[0]
        texts[page] = texts.get(page, "") + html.unescape(section["text"]) + "\n"
    show(browser, (site / "index.html").as_uri())
    wrong = {}
    for words, answer in QUESTIONS.items():
        page = first_page(browser, words)
        if answer not in texts.get(page, ""):
            wrong[words] = page
    assert wrong == {}


@pytest.mark.parametrize(
    "page", [p if p in SOME else pytest.param(p, marks=pytest.mark.full) for p in PAGES]
)
def test_everybody_can_use_the_pages(site: Path, browser: Any, page: str) -> None:
    for width, dark in ((1200, False), (420, True)):
        show(browser, (site / page).as_uri(), width=width, dark=dark)
        assert not leaves_sideways(browser)
        assert violations(browser) == []

"""The documentation as a site: it builds without a warning, and its search finds the answers."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from repo_files import REPO_ROOT

#: What a newcomer would type, and words of the answer that the first page found must have.
QUESTIONS = (
    ("arena size", "_ARENA_BYTES"),
    ("reduce ram usage", "--optimize ram"),
    ("model does not fit", "--max-ram"),
    ("flash size of the model", "--board stm32"),
    ("stack usage", "--max-stack"),
    ("malloc heap", "No heap"),
    ("share arena between two models", "share one arena"),
    ("put weights in external flash", "--place"),
    ("supported operators", "edgec ops"),
    ("pytorch", "edgec.from_torch"),
    ("keras tensorflow", ".tflite"),
    ("scikit-learn", "Not yet"),
    ("open dimension input shape", "--input-shape"),
    ("quantize to int8", "edgec quantize"),
    ("how many calibration samples", "few hundred"),
    ("accuracy worse after quantization", "--activations int16"),
    ("lstm gru state", "_reset"),
    ("stream audio", "one frame per call"),
    ("supported boards", "edgec boards"),
    ("add my own board", "edgec boards new"),
    ("try without a board", "edgec run"),
    ("flash the firmware", "edgec flash"),
    ("debug gdb", "edgec debug"),
    ("call from C++", "extern"),
    ("use in cmake", "edgec_add_model"),
    ("zephyr module", "--format zephyr"),
    ("arduino library", "--format arduino"),
    ("freertos task", "EC_YIELD"),
    ("rust crate", "--format rust"),
    ("call from an interrupt", "Interrupts are never masked"),
    ("licence of generated code", "Yours"),
    ("misra", "MISRA"),
    ("same result on pc and device", "-ffp-contract=off"),
    ("selftest crc", "CRC-32"),
    ("which layer is wrong", "--layers"),
    ("inference time cycles", "--profile"),
    ("make it faster", "--optimize time"),
    ("compare with tensorflow lite micro", "edgec bench"),
    ("avx desktop vector", "x86-64-v3"),
    ("migrate from x-cube-ai", "stedgeai"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (edgec[docs])")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPO_ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr
    return folder


@pytest.fixture(scope="module")
def first_found(site: Path) -> Callable[[str], str]:
    """A function from words to the text of the page whose section the search shows first."""
    lunr = pytest.importorskip("lunr", reason="lunr is not installed (edgec[docs])").lunr
    found = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    fields = [{"field_name": "title", "boost": 10}, "text"]
    index = lunr(ref="location", fields=fields, documents=found)

    def search(words: str) -> str:
        page = index.search(words)[0]["ref"].partition("#")[0]
        assert page.endswith(".html")
        return "\n".join(each["text"] for each in found if each["location"].startswith(page))

    return search


def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (REPO_ROOT / "mkdocs.yml").read_text("utf-8")
    missing = [path.name for path in (REPO_ROOT / "docs").glob("*.md") if path.name not in menu]
    assert missing == []


@pytest.mark.parametrize(("words", "answer"), QUESTIONS)
def test_the_search_finds_the_answer_first(
    words: str, answer: str, first_found: Callable[[str], str]
) -> None:
    assert answer in html.unescape(first_found(words))

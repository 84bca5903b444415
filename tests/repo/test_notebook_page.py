"""The tutorial from a notebook to a blinking board: its cells, its commands and its C work."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_main import blocks, edit_main, first_lines
from repo_files import REPO_ROOT
from test_doc_commands import commands_of

from edgec.cli.main import main

PAGE = "notebook_to_board"
TEXT = REPO_ROOT / "docs" / f"{PAGE}.md"
#: A sensor that hears a knock in every second window.
DRIVER = """#include <stdbool.h>
static float microphone_read(void) {
    static uint32_t n;
    const uint32_t at = n++ % 32u;
    return at >= 6u && at < 10u ? 1.0f : 0.0f;
}
"""


@pytest.mark.full
def test_every_step_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (edgec[torch])")
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    monkeypatch.chdir(tmp_path)
    Path("knock.py").write_text("\n".join(blocks(TEXT, "python")))
    shown = subprocess.run([sys.executable, "knock.py"], check=True, capture_output=True, text=True)
    share, *words = shown.stdout.splitlines()[0].split()
    assert float(share) > 0.95 and words == ["right", "on", "the", "board"]
    for program, *arguments in commands_of(PAGE):
        assert program == "edgec"
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0, f"edgec {shlex.join(arguments)}\n{capsys.readouterr().err}"
        if arguments[0] == "new":
            edit_main(Path("blink/main.c"), DRIVER + "".join(blocks(TEXT, "c")))
    said = first_lines(Path("blink/build/build/firmware.elf"), "stm32", 4)
    assert said == [b"on\r\n", b"off\r\n"] * 2

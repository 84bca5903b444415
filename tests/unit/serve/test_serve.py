"""`edgec explore --serve`: who may ask, what is refused, and a model dropped on the page."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import leaves_sideways, objections, show, violations

pytest.importorskip("uvicorn", reason="uvicorn is not installed (edgec[serve])")

from edgec.cli.main import main
from edgec.serve.app import App, safe_name
from edgec.serve.guard import Guard

REPO_ROOT = Path(__file__).resolve().parents[3]
DIGITS = REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"
MOST_BYTES = 200_000
NO_HEADERS: Mapping[str, str] = {}


def ask(
    host: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] = NO_HEADERS
) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@dataclass
class Served:
    """A server in a process of its own, with its temporary files in `folder`."""

    process: subprocess.Popen[str]
    address: str
    folder: Path

    def ask(
        self, path: str, method: str = "GET", body: Any = None, **headers: str
    ) -> tuple[int, str]:
        """Status and text of what the server answers below its token."""
        parts = urlsplit(self.address)
        return ask(parts.netloc, method, parts.path + path, body, headers)

    def wait(self) -> dict[str, Any]:
        """The last state of what is built."""
        lines = [x for x in self.ask("events")[1].splitlines() if x.startswith("data: ")]
        state: dict[str, Any] = json.loads(lines[-1].removeprefix("data: "))
        return state


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serve")
    words = ["explore", "--serve", "--board", "stm32", "--optimize", "size", "--workers", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgec", *words, "--max-upload", str(MOST_BYTES)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().split()[1]
    yield Served(process, address, folder)
    process.kill()
    process.communicate()


def test_only_the_page_of_this_server_may_ask(served: Served) -> None:
    status, text = served.ask("")
    assert status == 200 and "Drop a model" in text
    assert served.address.startswith("http://127.0.0.1:")
    port = urlsplit(served.address).netloc
    for headers in (
        {"Host": "evil.example"},
        {"Host": "evil.example:" + port.partition(":")[2]},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert served.ask("", **headers)[0] == 403
        assert served.ask("stop", "POST", **headers)[0] == 403
    assert served.ask("", Host=port.replace("127.0.0.1", "localhost"))[0] == 200
    for path in ("/", "/wrong/", "/wrong/models", f"/{urlsplit(served.address).path[1:-2]}/"):
        assert ask(port, "GET", path)[0] == 404


def test_uploads_are_bounded(served: Served) -> None:
    assert served.ask("models?name=a.txt", "POST", b"x")[0] == 415
    assert served.ask("models", "POST", b"x")[0] == 415
    status, text = served.ask("models?name=a.onnx", "POST", b"x" * (MOST_BYTES + 1))
    assert status == 413 and "200,000 bytes" in text
    # Chunks, whose sum no header says.
    chunks = (b"x" * 50_000 for _ in range(5))
    assert served.ask("models?name=a.onnx", "POST", chunks)[0] == 413
    assert [p for p in served.folder.rglob("*") if p.suffix == ".onnx"] == []


@pytest.mark.parametrize("kept", [700, 0])
def test_a_damaged_model_is_an_error_without_a_traceback(served: Served, kept: int) -> None:
    damaged = DIGITS.read_bytes()[:kept]
    assert served.ask("models?name=damaged.onnx", "POST", damaged)[0] == 200
    state = served.wait()
    assert state["state"] == "failed" and "damaged.onnx" in state["problem"]
    assert "Traceback" not in state["problem"] and str(served.folder) not in state["problem"]
    assert list(served.folder.rglob("damaged.onnx")) == [], "what was read is removed"


@pytest.mark.parametrize(
    ("given", "safe"),
    [("kws.tflite", "kws.tflite"), ("../../etc/a b.ONNX", "a_b.ONNX"), ("C:\\x\\m.pt2", "m.pt2"),
     (".onnx", None), ("a.txt", None), ("", None), ("..tflite", None), ("x" * 300 + ".onnx", 100)],
)  # fmt: skip
def test_names_of_uploads(given: str, safe: str | int | None) -> None:
    found = safe_name(given)
    assert (len(found or "") if isinstance(safe, int) else found) == safe


def test_what_is_no_http_is_not_answered() -> None:
    async def nothing(*_: Any) -> None:
        raise AssertionError

    guard = Guard(nothing, "127.0.0.1:1", "token")
    asyncio.run(guard({"type": "websocket"}, nothing, nothing))


DROP = """
const data = new DataTransfer();
const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
data.items.add(new File([bytes], arguments[1]));
document.body.dispatchEvent(new DragEvent("dragover", {dataTransfer: data, bubbles: true}));
const over = document.getElementById("drop").className;
document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
return over;
"""


def text_of(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def wait_for(browser: Any, name: str, word: str) -> None:
    until = time.monotonic() + 120
    while word not in text_of(browser, name):
        assert time.monotonic() < until, f"no {word!r} in {text_of(browser, name)!r}"
        time.sleep(0.1)


def test_everybody_can_use_the_page_after_a_model_is_dropped_and_built(
    browser: Any, served: Served
) -> None:
    show(browser, served.address)
    browser.get_log("browser")
    model = base64.b64encode(DIGITS.read_bytes()).decode()
    assert browser.execute_script(DROP, model, "digits.onnx") == "over"
    wait_for(browser, "status", "Done: 1 builds")
    assert text_of(browser, "model") == "digits.onnx" and text_of(browser, "problem") == ""
    rows = browser.find_elements("css selector", "#rows tr")
    assert len(rows) == 1 and rows[0].text.endswith("fits")
    rows[0].find_element("css selector", "button").send_keys("\n")
    command = "edgec build digits.onnx --board netduinoplus2 --optimize size"
    assert text_of(browser, "command") == command
    assert browser.execute_script("return document.title") == "digits.onnx: where it fits"
    assert browser.get_log("browser") == []
    assert objections(browser, served.address) == []


def test_everybody_can_use_the_page_after_a_damaged_model(
    browser: Any, served: Served, tmp_path: Path
) -> None:
    (tmp_path / "bad.tflite").write_bytes(bytes(range(200)))
    show(browser, served.address, width=420, dark=True)
    wait_for(browser, "model", "d")
    browser.find_element("id", "file").send_keys(str(tmp_path / "bad.tflite"))
    wait_for(browser, "problem", "not a TFLite model")
    assert not leaves_sideways(browser)
    assert violations(browser) == []


def test_ctrl_c_ends_with_130_and_leaves_nothing(served: Served) -> None:
    """The last of the file: a build runs while the server is stopped."""
    assert served.ask("models?name=digits.onnx", "POST", DIGITS.read_bytes())[0] == 200
    assert served.ask("models?name=other.onnx", "POST", DIGITS.read_bytes())[0] == 409
    served.process.send_signal(signal.SIGINT)
    _, said = served.process.communicate(timeout=60)
    assert said.strip().splitlines()[-1] == "stopped" and "Traceback" not in said
    assert served.process.returncode == 130
    assert [p.name for p in served.folder.iterdir() if p.name.startswith("edgec-work-serve")] == []


def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "edgec.serve.server", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["explore", "--serve", "--board", "stm32"])
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "uvicorn" in said and 'pip install "edgec[serve]"' in said


@pytest.mark.parametrize("fault", ["no folder", "full"])
def test_a_file_that_the_disk_does_not_take_is_refused(tmp_path: Path, fault: str) -> None:
    """And nothing of it is left; the server goes on."""
    folder = tmp_path / "uploads"
    folder.mkdir() if fault == "full" else folder.touch()
    app = App(SimpleNamespace(folder=folder, start=lambda *_: None), 10**7)  # type: ignore[arg-type]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": bytes(300_000), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/models", "headers": [],
             "query_string": b"name=m.onnx"}  # fmt: skip
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000 if fault == "full" else soft, hard))
    try:
        asyncio.run(app.routes(scope, receive, send))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sent[0]["status"] == 507 and b"the file cannot be kept: " in sent[1]["body"]
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".onnx"] == []
    assert not app._receiving

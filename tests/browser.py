"""A real browser for pages: Chromium without a window, and axe-core, which looks for what keeps
people from using a page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import pytest

#: axe checks the rules of WCAG, and its best practices for landmarks and headings.
_LOOK = """
const done = arguments[arguments.length - 1];
const why = (n) => (n.any[0] || n.all[0] || n.none[0] || {}).message;
axe.run(document, {resultTypes: ["violations"]}).then(
  (found) => done(found.violations.map((v) => v.id + ": " + v.nodes.slice(0, 4).map(
    (n) => n.html.slice(0, 120) + " " + why(n)).join(" | "))),
  (problem) => done([String(problem)]));
"""


@contextmanager
def open_browser() -> Iterator[Any]:
    """A selenium driver; skips the test where selenium or Chromium is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "window-size=1200,1000",
    ):  # fmt: skip
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )
    window.set_script_timeout(300)  # axe-core looks at the longest page for a while
    # Pages remember colours that a reader chose; each shall be as if seen for the first time.
    forget = {"source": "try { localStorage.clear() } catch {}"}
    window.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", forget)
    try:
        yield window
    finally:
        window.quit()


def show(browser: Any, address: str, *, width: int = 1200, dark: bool = False) -> None:
    """Open a page as on a screen of that width, in light or dark colours."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    # Headless windows are never narrower than 500; an emulated screen is.
    screen = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get_log("browser")  # drops the messages of earlier pages
    browser.get(address)


def violations(browser: Any) -> list[str]:
    """What axe-core objects to on the page that is shown; a line for each rule."""
    reason = "axe-playwright-python is not installed"
    package = pytest.importorskip("axe_playwright_python", reason=reason).__name__
    browser.execute_script(files(package).joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = browser.execute_async_script(_LOOK)
    return found


def objections(browser: Any, address: str) -> list[str]:
    """What is wrong with a page for somebody, on a wide screen and a phone, in light and dark."""
    found: list[str] = []
    for width, dark in ((1200, False), (1200, True), (420, False), (420, True)):
        show(browser, address, width=width, dark=dark)
        found += violations(browser)
        if leaves_sideways(browser):
            found.append(f"something stands beside a screen of {width} pixels")
    return found


def leaves_sideways(browser: Any) -> bool:
    """Whether something of the page stands beside what the screen shows."""
    words = "const d = document.documentElement; return d.scrollWidth > d.clientWidth"
    return bool(browser.execute_script(words))

"""What all tests share: where the sample files are, and what CI makes of a skipped test."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import open_browser
from full_sweeps import sweeps_of
from hypothesis import settings
from kept_objects import KeptObjects
from shared_folder import SHARED_VARIABLE, find_shared

from edgec.cli.main import GC_THRESHOLDS

REPO_ROOT = Path(__file__).resolve().parents[1]

# As on the command line: most tests compile models.
gc.set_threshold(*GC_THRESHOLDS)

# No test is timed: how long one example takes says how busy the computer is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the checkout."""
    return REPO_ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of sample models and data; skips the test where it is absent."""
    folder = find_shared()
    if not folder.is_dir():
        pytest.skip(f"no sample files: {folder} does not exist (set {SHARED_VARIABLE})")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A driver of Chromium; skips the test where it is not installed."""
    with open_browser() as window:
        yield window


@pytest.fixture(scope="session")
def sample_model(shared_dir: Path) -> Callable[[str], Path]:
    """A function from a file name to its path among the sample models; skips if it is absent."""

    def find(name: str) -> Path:
        path = shared_dir / "models" / name
        if not path.is_file():
            pytest.skip(f"no sample model {name} in {path.parent}")
        return path

    return find


def in_ci() -> bool:
    """Whether continuous integration runs the tests: there a skip hides what should have run."""
    return os.environ.get("CI") == "true"


class SkipsAreErrors:
    """In CI, fails a session in which a test that is not marked `full` was skipped."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail") and "full" not in report.keywords:
            self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.note(report)

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        self.skipped.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skipped:
            terminalreporter.section("skipped in CI, where every test must run", red=True)
            for line in self.skipped:
                terminalreporter.line(line)


#: Tells workers where the kept objects are.
OBJECTS_VARIABLE = "EDGEC_TEST_OBJECTS"
#: Whose tests are not of the C compiler's work: beginnings of their paths.
QUICK = (
    "unit/cli", "unit/dynamo", "unit/frontends", "unit/oracle", "unit/quantize", "unit/report",
    "unit/serve", "models/test_audio", "models/test_control_flow",
    "models/test_data_sizes", "models/test_dead", "models/test_feed_rows", "models/test_mlperf",
    "models/test_open_sizes", "models/test_quanti", "models/test_real_data",
    "models/test_special_sizes", "models/test_state", "models/test_torch", "models/test_trained",
)  # fmt: skip
#: More of them, for which `make test-full` lets the C compiler do all its work.
QUICK_UNLESS_FULL = (
    "models/test_sample_models", "models/test_same_bits.py::test_every_layer",
    "models/test_same_bits.py::test_hashes", "runners",
)  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    # An xdist worker has `workerinput`; only the session that reports decides.
    if not hasattr(config, "workerinput"):
        if in_ci():
            config.pluginmanager.register(SkipsAreErrors())
        folder = tempfile.TemporaryDirectory(prefix="edgec_objects_")
        config.add_cleanup(folder.cleanup)
        os.environ[OBJECTS_VARIABLE] = folder.name
    KeptObjects(Path(os.environ[OBJECTS_VARIABLE])).install()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` does not read files of `full` tests alone: ONNX's suite takes seconds."""
    if config.option.markexpr != "not full" or collection_path.suffix != ".py":
        return None
    is_full = "\npytestmark = pytest.mark.full\n" in collection_path.read_text("utf-8")
    return True if is_full else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `full_sweeps.toml` names as `full`, before marks are looked at."""
    for item in items:
        path, _, name = item.nodeid.removeprefix("tests/").partition("::")
        if any(sweep.has(path, name) for sweep in sweeps_of(path)):
            item.add_marker(pytest.mark.full)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    name = item.nodeid.removeprefix("tests/")
    is_full = item.config.option.markexpr != "not full"
    KeptObjects.is_quick = name.startswith(QUICK if is_full else (*QUICK, *QUICK_UNLESS_FULL))
    os.environ.pop("COLUMNS", None)  # where a test before left it
    return (yield)

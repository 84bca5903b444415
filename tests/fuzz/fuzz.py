"""Fuzz the import and compilation of model files: always an EdgecError, never anything else.

    python tests/fuzz/fuzz.py --count 2000000 --workers 2 --out /tmp/findings
    python tests/fuzz/fuzz.py --reproduce 12345            # one seed again, with its traceback
    python tests/fuzz/fuzz.py --torch --count 2000         # PyTorch's .pt2 files, which take longer

Every seed stands for one damaged file, made from a corpus of small models. Workers are processes
of their own with a limit on memory; a case that computes longer than its limit is a hang. What is
found is written to --out, with the seed in its name.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

HERE = Path(__file__).resolve().parent
REPO_ROOT = HERE.parents[1]
for folder in (HERE, HERE.parent, HERE.parent / "models", REPO_ROOT):
    sys.path.insert(0, str(folder))

#: Larger samples are left out: writing them takes longer than reading.
MOST_SAMPLE_BYTES = 130_000
#: A case that computes for so long is a hang.
LIMIT_S = 30
#: A worker that says nothing for so long is killed; on a machine with much else to do it may get
#: little of it.
SILENT_S = 600
#: How often a long run says how far it is.
PROGRESS_S = 60
#: Address space of a worker beside what it starts with.
MEMORY_BYTES = 3 << 30
#: One in this many files that import is compiled as well, if it is small.
COMPILED_EVERY = 8
MOST_COMPILED_MACS = 2_000_000


#: Seeds from here on stand for files of PyTorch.
TORCH_SEEDS = 1 << 40


class Hang(BaseException):
    """A case took longer than LIMIT_S."""


def corpus(folder: Path) -> list[Path]:
    """Models to damage, sorted by name: those that tests build, and small samples if present."""
    from onnx_builder import float_network, quantized_network
    from shared_folder import find_shared
    from test_dynamic_range_models import hybrid_model
    from test_int16_models import int16_model
    from trained_builder import TrainedBuilder, convolutions

    files = [REPO_ROOT / "examples" / "digits" / "digits_int8.onnx"]
    for name, write in (("hybrid", hybrid_model), ("int16", int16_model)):
        files.append(folder / f"{name}.tflite")
        write(files[-1])
    for seed in range(3):
        files.append(float_network(seed, folder / f"float{seed}.onnx"))
        files.append(quantized_network(seed, folder / f"quantized{seed}.onnx"))
    trained = TrainedBuilder(3, (1, 3, 8, 8), "uint8", (0, 127))
    files.append(trained.save(convolutions(trained, narrow=True), folder / "trained.onnx"))
    shared = find_shared()
    if shared.is_dir():
        samples = [*(shared / "models").glob("*")]
        samples += (shared / "data" / "tflm_seanet").glob("*/*0.tflite")
        files += [
            path for path in samples
            if path.suffix in (".tflite", ".onnx") and path.stat().st_size <= MOST_SAMPLE_BYTES
        ]  # fmt: skip
    return sorted(files, key=lambda path: path.name)


@functools.cache
def torch_corpus(folder: Path) -> list[Path]:
    """Saved programs: layers, a state, nested inputs, an open size, control flow, a cell."""
    import torch
    from torch_programs import PROGRAMS

    made = []
    for name, make in PROGRAMS.items():
        made.append(folder / f"{name}.pt2")
        torch.export.save(make(), made[-1])
    return made


@functools.cache
def content(path: Path) -> bytes:
    """The bytes of a file of the corpus."""
    return path.read_bytes()


def damaged(files: list[Path], seed: int) -> tuple[bytes, str]:
    """The bytes and the ending of the file that a seed stands for."""
    from mutate import mutate

    rng = np.random.default_rng(seed)
    if seed >= TORCH_SEEDS:
        files = torch_corpus(files[-1].parent)
    source = files[int(rng.integers(len(files)))]
    return mutate(content(source), source.suffix[1:], rng), source.suffix


def try_file(path: Path, compiled: bool, known: set[str] | None = None) -> str:
    """Import and perhaps compile a file; "refused", "imported" or "compiled".

    known: graphs that were compiled before, by the hash of their text and constants. They are not
    compiled a second time.
    """
    from edgec.errors import EdgecError
    from edgec.frontends import import_model
    from edgec.graph.printer import print_module
    from edgec.graph.verify import verify_module
    from edgec.options import Options
    from edgec.pipeline import compile_module
    from edgec.targets.core import find_core

    known = set() if known is None else known
    try:
        module = import_model(path)
        verify_module(module)
        macs = sum(node.op.macs(node.attrs, node.input_types) for node in module.main.nodes)
        if not compiled or macs > MOST_COMPILED_MACS:
            return "imported"
        graph = hashlib.sha256(print_module(module).encode()).hexdigest()
        if graph not in known:
            known.add(graph)
            compile_module(module, find_core("cortex-m4"), Options())
    except EdgecError as error:
        assert error.message, "an error without words"
        return "refused"
    return "compiled"


def work(first: int, stop: int) -> None:
    """Run seeds, saying on standard output which one comes next and what was found."""
    limit_memory()
    signal.signal(signal.SIGPROF, _hang)
    known: set[str] = set()
    with work_folder() as folder:
        files = corpus(folder)
        # The corpus, read into objects, stays; walking over it less often saves a tenth.
        gc.set_threshold(20_000, 20, 50)
        for seed in range(first, stop):
            print(json.dumps({"seed": seed}), flush=True)
            result = run_seed(files, seed, folder, known)
            print(json.dumps({"seed": seed, **result}), flush=True)


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def limit_memory() -> None:
    """Let a case that takes too much memory fail, where the system has such a limit."""
    with contextlib.suppress(ImportError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for the files of one worker, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="edgec_fuzz_", dir=place) as name:
        yield Path(name)


def run_seed(
    files: list[Path], seed: int, folder: Path, known: set[str] | None = None
) -> dict[str, str]:
    """What a seed's file does: {"result": ...} or {"finding": traceback}."""
    data, suffix = damaged(files, seed)
    path = folder / f"case{suffix}"
    path.write_bytes(data)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        return {"result": try_file(path, seed % COMPILED_EVERY == 0, known)}
    except (Exception, Hang) as error:
        lines = traceback.format_exc().splitlines()
        return {"finding": "\n".join(lines[-12:]), "kind": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@dataclass
class Tally:
    """What a run of the fuzzer found."""

    results: dict[str, int] = field(default_factory=dict)
    findings: dict[int, str] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        """Files that were tried."""
        return sum(self.results.values()) + len(self.findings)


def fuzz(
    first: int, count: int, seconds: float, workers: int = 1, *, say: Say | None = None
) -> Tally:
    """Try `count` seeds from `first` on, for at most `seconds`; `say` reports progress.

    Ctrl-C ends the run as time does: with what was found so far.
    """
    tally = Tally()
    end = time.monotonic() + seconds
    heard = time.monotonic()
    share = -(-count // workers)
    spans = [(at, min(at + share, first + count)) for at in range(first, first + count, share)]
    with selectors.DefaultSelector() as selector:
        for span in spans:
            _start(selector, *span)
        while selector.get_map():
            try:
                events = selector.select(timeout=1)
            except KeyboardInterrupt:
                events, end = [], 0.0
            now = time.monotonic()
            if say is not None and now > heard + PROGRESS_S:
                say(tally)
                heard = now
            for key, _ in events:
                _read(selector, key, tally, now)
            for key in list(selector.get_map().values()):
                worker: _Worker = key.data
                if now > end or now - worker.heard > SILENT_S:
                    worker.process.kill()
                    _close(selector, key)
                    if now <= end:
                        _go_on(selector, worker, tally, "it hung and was killed")
    return tally


Say = Callable[[Tally], None]


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    stop: int
    heard: float
    seed: int


def _start(selector: selectors.BaseSelector, first: int, stop: int) -> None:
    if first >= stop:
        return
    process = subprocess.Popen(
        [sys.executable, __file__, "--work", str(first), str(stop)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    selector.register(process.stdout, selectors.EVENT_READ,  # type: ignore[arg-type]
                      _Worker(process, stop, time.monotonic(), first))  # fmt: skip


def _read(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, tally: Tally, now: float
) -> None:
    worker: _Worker = key.data
    line = key.fileobj.readline()  # type: ignore[union-attr]
    worker.heard = now
    if not line:
        _close(selector, key)
        if worker.process.returncode:
            why = f"the process ended with {worker.process.returncode}"
            _go_on(selector, worker, tally, why)
        return
    entry = json.loads(line)
    worker.seed = entry["seed"]
    if "result" in entry:
        tally.results[entry["result"]] = tally.results.get(entry["result"], 0) + 1
        worker.seed += 1
    elif "finding" in entry:
        tally.findings[worker.seed] = entry["finding"]
        worker.seed += 1


def _close(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    selector.unregister(key.fileobj)
    key.data.process.wait()
    key.fileobj.close()  # type: ignore[union-attr]


def _go_on(selector: selectors.BaseSelector, worker: _Worker, tally: Tally, why: str) -> None:
    """Note the seed that ended a worker and start another after it."""
    tally.findings[worker.seed] = why
    _start(selector, worker.seed + 1, worker.stop)


def reproduce(seed: int, out: Path) -> Iterator[str]:
    """Write a seed's file to a folder and run it."""
    signal.signal(signal.SIGPROF, _hang)
    out.mkdir(parents=True, exist_ok=True)
    with work_folder() as folder:
        files = corpus(folder)
        data, suffix = damaged(files, seed)
        path = out / f"seed{seed}{suffix}"
        path.write_bytes(data)
        yield str(path)
        yield json.dumps(run_seed(files, seed, folder), indent=1).replace("\\n", "\n")


def say(tally: Tally) -> None:
    """Print how many files were tried, and the seeds of what was found."""
    seeds = f": seeds {sorted(tally.findings)}" if tally.findings else ""
    print(
        f"{tally.cases} files: {tally.results}, {len(tally.findings)} findings{seeds}", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=20_000, help="files to try")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--torch", action="store_true", help="files of PyTorch")
    parser.add_argument("--seconds", type=float, default=1e9, help="longest time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--reproduce", type=int, metavar="SEED")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(*args.work)
        return 0
    if args.reproduce is not None:
        for line in reproduce(args.reproduce, args.out):
            print(line)
        return 0
    first = args.first + (TORCH_SEEDS if args.torch else 0)
    tally = fuzz(first, args.count, args.seconds, args.workers, say=say)
    say(tally)
    for seed, finding in sorted(tally.findings.items()):
        print(f"seed {seed}:\n{finding}\n")
        for line in list(reproduce(seed, args.out))[:1]:
            print(line)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

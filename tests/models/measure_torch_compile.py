"""Time of `torch.compile` with edgec beside that with Inductor's C++ backend, on one thread.

    python tests/models/measure_torch_compile.py [NAME...]

Each call goes through torch's guards, as a user's does. The two take turns, and the least of many
short rounds counts: a busy computer only makes rounds longer. Models have under 10 million
multiply-accumulates. Prints microseconds of a call.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch_models import CASES, made, samples_of

from edgec.dynamo.backend import compile

ROUNDS = 400
CALLS = 5


def backends(name: str) -> dict[str, Callable[[], Any]]:
    """By name of the backend a call of the model."""
    torch.compiler.reset()  # type: ignore[no-untyped-call]
    (x,) = samples_of(name, 1)
    inductor: Any = torch.compile(made(name), backend="inductor", dynamic=False)
    edgec: Any = torch.compile(made(name), backend=compile, dynamic=False)
    module = made(name)
    return {"edgec": lambda: edgec(x), "inductor": lambda: inductor(x), "eager": lambda: module(x)}


def least_microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of a call, of rounds that take turns."""
    found = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            spent = (time.perf_counter_ns() - start) / CALLS / 1000
            found[name] = min(found[name], spent)
    return found


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    print(f"{'model':22}{'edgec':>10}{'inductor':>10}{'eager':>10}   microseconds of a call")
    for name in names or list(CASES):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            found = least_microseconds(backends(name))
        row = "".join(f"{found[each]:10.1f}" for each in ("edgec", "inductor", "eager"))
        print(f"{name:22}{row}   {found['edgec'] / found['inductor']:.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

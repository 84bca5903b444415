"""Compare ways to quantize a model, on samples that were held out.

The errors of single layers do not show which observer is best, or whether to equalize channels. So
each way is fitted to one half of the calibration samples and its integers run on the other half,
then the other way round. The way whose outputs have the least error is then fitted to all samples.

Where softmax makes an output, its input is compared instead: after softmax a few samples between
two answers make nearly all of the error, and what is best for these is not best for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.traits import Movement
from edgec.graph.types import Array
from edgec.passes.rewriter import eliminate_dead
from edgec.quantizer.batches import squares
from edgec.quantizer.calibrate import Seen, Statistics

#: From the inputs of a sample to its outputs.
Run = Callable[[Sequence[Array]], Sequence[Array]]
#: A way is tried on as many samples as take this many multiply-accumulates, 16 at least.
TRIAL_MACS = 4e9
LEAST_TRIALS = 16
#: The most samples of each half; and how many are enough to tell good ways from bad ones.
MOST_TRIALS, FEW_TRIALS = 32, 12
#: With fewer samples in a half, ways are fitted to all samples and tried on all.
LEAST_HALF = 4
#: Errors that differ by less than this factor count as equal: few samples make most of an error.
ABOUT_SAME = 1.02


@dataclass(frozen=True)
class Trial:
    """A way to quantize, and what it came to.

    equalized: whether channels were made alike in range first. sqnr_db: 10 log10(1 / e), with e the
    mean over the outputs, before softmax, of their squared errors as a part of their squares;
    infinite without one.
    """

    observer: str
    equalized: bool
    sqnr_db: float


@dataclass(frozen=True)
class Held:
    """Samples to try on, and the outputs of the float function for each."""

    samples: Sequence[Sequence[Array]]
    expected: Sequence[Sequence[Array]]


def fitted_to(statistics: Statistics) -> Sequence[Seen]:
    """What ranges are fitted to for each of the tests."""
    if min(half.count for half in statistics.halves) < LEAST_HALF:
        return [statistics]
    return statistics.halves


def before_softmax(function: Function) -> Function:
    """The function with what softmax reads in place of the results that it makes."""
    producers = function.producers()

    def compared(result: Value) -> Value:
        value = result
        while value in producers and producers[value].op.movement is Movement.RESHAPE:
            value = producers[value].inputs[0]
        made = producers.get(value)
        return made.inputs[0] if made is not None and made.op.normalizes else result

    results = tuple(compared(result) for result in function.results)
    return eliminate_dead(function.with_nodes(function.nodes, results))


def held_out(function: Function, statistics: Statistics) -> list[Held]:
    """For all that ranges are fitted to, the other samples, if there are."""
    function = before_softmax(function)
    folds = fitted_to(statistics)
    macs = function.macs
    most = -(-max(LEAST_TRIALS, int(TRIAL_MACS / max(macs, 1))) // len(folds))
    most = min(most, MOST_TRIALS)
    return [
        Held(samples, [interpret(function, sample) for sample in samples])
        for samples in (seen.followed[:most] for seen in reversed(folds))
    ]


def output_error(tests: Sequence[Held], integers: Sequence[Function]) -> float:
    """The error e of `Trial`.

    integers: for each test, `before_softmax` and fitted to what it is not made of.
    """
    return error_of_runs(tests, [partial(interpret, function) for function in integers])


def error_of_runs(tests: Sequence[Held], runs: Sequence[Run]) -> float:
    """The error e of what gives the outputs of a sample, for each test."""
    outputs = len(tests[0].expected[0])
    noises, powers = np.zeros(outputs), np.zeros(outputs)
    for test, run in zip(tests, runs, strict=True):
        for sample, expected in zip(test.samples, test.expected, strict=True):
            found = run(sample)
            for place, (x, y) in enumerate(zip(expected, found, strict=True)):
                noises[place] += squares(np.subtract(x, y, dtype=np.float32))
                powers[place] += squares(x)
    return float(np.mean(noises / np.where(powers > 0, powers, 1.0)))


def few_of(tests: Sequence[Held]) -> list[Held]:
    """The first samples of each test."""
    return [Held(test.samples[:FEW_TRIALS], test.expected[:FEW_TRIALS]) for test in tests]


def decibels(error: float) -> float:
    """The error e of `Trial` as its signal to noise ratio."""
    return -10 * math.log10(error) if error else math.inf

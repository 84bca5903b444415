"""Compare ways to quantize a model on samples that were held out.

The errors of single layers do not show which observer is best, or whether to equalize channels. So
each method is fitted to one half of the calibration samples and its integers run on the other half,
then with the halves exchanged. The method with the least output error is then fitted to all
samples.

Where softmax makes an output, its input is compared too, or alone where one number is needed. After
softmax, a few samples between two answers make nearly all of the error, and the best way for these
is not the best for the others. So the error of each sample before softmax is also added to the
inputs of softmax of other samples: all samples then show how errors change answers, and chance
counts less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Value
from edgec.graph.traits import Movement
from edgec.graph.types import Array
from edgec.passes.rewriter import eliminate_dead
from edgec.quantizer.batches import Batch, parts_of, squares
from edgec.quantizer.calibrate import Seen, Statistics

#: From the inputs of a sample to its outputs.
Run = Callable[[Sequence[Array]], Sequence[Array]]
#: Multiply-accumulates of all samples that one way is tried on; and the fewest samples.
TRIAL_MACS = 4e9
LEAST_TRIALS = 16
#: The most samples of each half; and how many suffice to compare ways.
MOST_TRIALS, FEW_TRIALS = 64, 12
#: With fewer samples in a half, ways are fitted to all samples and tried on all.
LEAST_HALF = 4
#: The most elements of outputs that are computed with the errors of other samples.
MOST_SWAPPED = 1 << 22
#: Errors that differ by less than this factor count as equal: few samples make most of an error.
ABOUT_SAME = 1.02


@dataclass(frozen=True)
class Candidate:
    """A way to quantize that was tried, and how good it is.

    equalized: whether the ranges of channels were equalized first. sqnr_db: 10 log10(1 / e), with e
    the mean over the outputs, before softmax, of their relative squared errors; infinite if e is 0.
    """

    observer: str
    equalized: bool
    sqnr_db: float


@dataclass(frozen=True)
class Held:
    """Samples held out, with the float function's outputs for each, before softmax.

    tail: the function from there to the outputs; None without softmax.
    """

    samples: Sequence[Sequence[Array]]
    expected: Sequence[Sequence[Array]]
    tail: Function | None = None


@dataclass(frozen=True)
class Deviation:
    """Relative squared errors of each output: before softmax, and of the outputs themselves.

    Both are equal without softmax.
    """

    before: Array
    outputs: Array

    @property
    def error(self) -> float:
        """The error e of `Candidate`."""
        return float(np.mean(self.before))

    @property
    def judged(self) -> float:
        """The figure that ways are compared by: the mean of both tests, in decibels."""
        return float(np.mean(np.sqrt(self.before * self.outputs)))


def fitted_to(statistics: Statistics) -> Sequence[Seen]:
    """The statistics that ranges are fitted to in each test."""
    if min(half.count for half in statistics.halves) < LEAST_HALF:
        return [statistics]
    return statistics.halves


def before_softmax(function: Function) -> Function:
    """The function with the inputs of softmax as results, where softmax makes the results."""
    producers = function.producers()

    def compared(result: Value) -> Value:
        value = result
        while value in producers and producers[value].op.movement is Movement.RESHAPE:
            value = producers[value].inputs[0]
        made = producers.get(value)
        return made.inputs[0] if made is not None and made.op.normalizes else result

    results = tuple(compared(result) for result in function.results)
    return eliminate_dead(function.with_nodes(function.nodes, results))


def after_softmax(function: Function) -> Function | None:
    """The function from the results of `before_softmax` to the outputs; None if they are the
    outputs.

    Its parameters are these results; where one comes again, nobody reads that parameter.
    """
    before = before_softmax(function).results
    if before == function.results:
        return None
    known: set[Value] = set(before)
    nodes = []
    for node in function.nodes:
        if all(isinstance(value, Constant) or value in known for value in node.inputs):
            nodes.append(node)
            known.update(node.outputs)
    params = tuple(
        Value(f"{value.name}.{n}", value.type) if value in before[:n] else value
        for n, value in enumerate(before)
    )
    return eliminate_dead(Function(function.name, params, tuple(nodes), function.results))


def held(function: Function, samples: Sequence[Sequence[Array]]) -> Held:
    """The expected outputs of these samples, with the function's softmax."""
    before = before_softmax(function)
    expected = [interpret(before, sample) for sample in samples]
    return Held(samples, expected, after_softmax(function))


def held_out(function: Function, statistics: Statistics) -> list[Held]:
    """Return the other samples for each part that ranges are fitted to, if there are any."""
    folds = fitted_to(statistics)
    macs = function.macs
    most = -(-max(LEAST_TRIALS, int(TRIAL_MACS / max(macs, 1))) // len(folds))
    most = min(most, MOST_TRIALS)
    return [held(function, seen.followed[:most]) for seen in reversed(folds)]


def output_deviation(tests: Sequence[Held], integers: Sequence[Function]) -> Deviation:
    """The error of the outputs.

    integers: for each test, up to `before_softmax`, fitted to other samples.
    """
    return deviation_of_runs(tests, [partial(interpret, function) for function in integers])


def output_error(tests: Sequence[Held], integers: Sequence[Function]) -> float:
    """The error e of `Candidate`; integers as `output_deviation` takes them."""
    return output_deviation(tests, integers).error


def deviation_of_runs(tests: Sequence[Held], runs: Sequence[Run]) -> Deviation:
    """The errors of runs, before softmax and of the outputs, over all tests."""
    before, outputs = np.zeros((2, 2, len(tests[0].expected[0])))
    for test, run in zip(tests, runs, strict=True):
        noises = [
            [
                np.subtract(y, x, dtype=np.float32)
                for x, y in zip(expected, run(sample), strict=True)
            ]
            for sample, expected in zip(test.samples, test.expected, strict=True)
        ]
        own = np.array([_sums(noises), _sums(test.expected)])
        before += own
        outputs += own if test.tail is None else _after(test.tail, test.expected, noises)
    shares = [noise / np.where(power > 0, power, 1.0) for noise, power in (before, outputs)]
    return Deviation(*shares)


def _after(
    tail: Function, expected: Sequence[Sequence[Array]], noises: Sequence[Sequence[Array]]
) -> Array:
    """[2, outputs]: the sums of squares of the outputs' errors and of the outputs."""
    batch = Batch(tail)
    exact = _outputs(batch, expected)
    count = max(1, min(len(noises), MOST_SWAPPED // sum(x.size for x in exact)))
    found = np.zeros(len(tail.results))
    for shift in range(count):
        turned = [*noises[shift:], *noises[:shift]]
        given = [
            [x + noise for x, noise in zip(*pair, strict=True)]
            for pair in zip(expected, turned, strict=True)
        ]
        pairs = zip(_outputs(batch, given), exact, strict=True)
        found += [squares(np.subtract(y, x)) for y, x in pairs]
    return np.array([found / count, [squares(x) for x in exact]])


def _outputs(batch: Batch, given: Sequence[Sequence[Array]]) -> list[Array]:
    """The outputs of all samples, from their values before softmax."""
    parts = [batch.run(part) for part in parts_of(given, batch.count)]
    columns = zip(*parts, strict=True)
    return [np.concatenate([np.atleast_1d(x) for x in column]) for column in columns]


def _sums(rows: Sequence[Sequence[Array]]) -> list[float]:
    """The sums of squares of each column."""
    return [sum(map(squares, column)) for column in zip(*rows, strict=True)]


def few_of(tests: Sequence[Held]) -> list[Held]:
    """The first samples of each test."""
    return [
        Held(test.samples[:FEW_TRIALS], test.expected[:FEW_TRIALS], test.tail) for test in tests
    ]


def decibels(error: float) -> float:
    """The error e of `Candidate` as its signal to noise ratio."""
    return -10 * math.log10(error) if error else math.inf

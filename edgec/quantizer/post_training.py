"""Post-training quantization: from a float function and samples to a QDQ one, explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, product

from edgec.errors import EdgecError
from edgec.graph.ir import Function, Module, Node, Value
from edgec.graph.types import Array
from edgec.loop.primitives.shifts import LEAST_GROUP
from edgec.passes.sequence import run_passes
from edgec.quantizer.bias_correction import corrected_biases
from edgec.quantizer.calibrate import Seen, Statistics, calibrate, calibrate_all
from edgec.quantizer.check_samples import checked_samples
from edgec.quantizer.choose_ranges import Ranges, observed_ranges
from edgec.quantizer.corrected_errors import CorrectedErrors
from edgec.quantizer.equalize import equalize
from edgec.quantizer.explain import Explanation, explain
from edgec.quantizer.float16_weights import with_float16_weights
from edgec.quantizer.float_nodes import FloatNode, float_nodes
from edgec.quantizer.held_out import (
    ABOUT_SAME,
    Candidate,
    Deviation,
    Held,
    before_softmax,
    decibels,
    few_of,
    fitted_to,
    held,
    output_deviation,
)
from edgec.quantizer.insert import Quantized, insert_qdq
from edgec.quantizer.integer_nodes import IntegerNodes
from edgec.quantizer.layerwise_weights import layerwise_weights
from edgec.quantizer.leave_one_out import layers_of, leave_one_out
from edgec.quantizer.named_layers import named_layers, named_values
from edgec.quantizer.observers import OBSERVERS
from edgec.quantizer.reconstruct import correct_biases, reconstruct, with_rounding
from edgec.quantizer.scheme import FLOAT, Range, Scheme, Weights, decide_integer_nodes, make_scheme

Sample = Sequence[Array]
Progress = Callable[[], None]

#: Observers that `auto` tries: `local` is the observer with the least error for each value by
#: itself.
AUTO_OBSERVERS = ("minmax", "local", "percentile", "mse", "entropy")
#: Methods with errors on a few samples within this factor of the least are tried on all samples;
#: at most this many.
NEAR, MOST_FINALISTS = 1.6, 4
#: Finished models whose errors differ by less than this factor count as equal.
ALIKE = 1.05
#: Samples of calibration that a finished model is measured on.
OWN_SAMPLES = 64
#: Whether channels are equalized; `auto`: if that makes the outputs better.
EQUALIZE = ("auto", "always", "never")
#: Number of first samples that equalize channels.
EQUALIZE_SAMPLES = 32
#: Multiply-accumulates that limit the number of calibration samples on which layers are compared.
BLAME_MACS = 1e8
LEAST_BLAME_SAMPLES = 8
#: The fewest bits of a recipe's weights, by name. `mixed` begins with 8:
#: `edgec.quantizer.mixed_weights` chooses.
WEIGHT_BITS = {"int8": 8, "int4": 4, "mixed": 4}
#: Values begin in int8; for `mixed`, `edgec.quantizer.mixed_values` then chooses.
INT8_FIRST = ("int8", "mixed")
#: Weights of a model that stays in float.
HALF = "float16"


@dataclass(frozen=True)
class Recipe:
    """Options of a quantization. observer: a name of `edgec.quantizer.observers.OBSERVERS`; `local`
    for the least error of each value; `auto` for the best outputs.

    symmetric: zero points of 0 for values. reconstruct: choose the rounding of weights by the
    layer's output. correct_biases: take the mean error out of biases. equalize: of EQUALIZE,
    whether to equalize the ranges of channels between neighbouring layers first. weights: of
    WEIGHT_BITS, or HALF, which changes only weights. activations: `int8`; `int16`, with the ranges
    of `minmax`; `float32`, which stores only weights in integers; or `mixed`, int8 at first.
    keep_float: names of layers that stay in float. int16: values, by their name or their layer's,
    that are stored in int16 where the others are int8, with the ranges of `minmax`. group: the most
    inputs that share a scale in int4 weights; 0: all of a channel.
    """

    observer: str = "auto"
    symmetric: bool = False
    reconstruct: bool = True
    correct_biases: bool = True
    equalize: str = "auto"
    weights: str = "int8"
    activations: str = "int8"
    keep_float: tuple[str, ...] = ()
    group: int = 0
    int16: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        observers = ("auto", "local", *OBSERVERS)
        for what, given, known in (
            ("observer", self.observer, observers),
            ("choice of equalization", self.equalize, EQUALIZE),
            ("storage of weights", self.weights, (*WEIGHT_BITS, HALF)),
            ("storage of values", self.activations, (*INT8_FIRST, "int16", FLOAT)),
        ):
            if given not in known:
                raise EdgecError(
                    f"there is no {what} {given!r}", hint=f"choose one of {', '.join(known)}"
                )
        if self.group and (self.group < LEAST_GROUP or self.weights not in ("int4", "mixed")):
            raise EdgecError(
                f"{self.weights} weights cannot have groups of {self.group} inputs",
                hint=f"int4 and mixed weights can have groups of {LEAST_GROUP} inputs or more",
            )
        others = HALF if self.weights == HALF else self.activations
        if self.int16 and others not in INT8_FIRST:
            whole = "activations int16" if others == "int16" else "a model that stays in float"
            raise EdgecError(
                f"int16 layers ({', '.join(self.int16)}) cannot be combined with {whole}",
                hint="single int16 layers need int8 values elsewhere: omit one of the options",
            )

    def integer_nodes(self, function: Function) -> IntegerNodes:
        """The nodes and values that become integers. Raises EdgecError for unknown names."""
        kept = named_layers(function, self.keep_float)
        wide = named_values(function, self.int16, kept)
        return decide_integer_nodes(function, self.activations, kept, wide)

    def scheme(
        self,
        function: Function,
        ranges: Mapping[Value, Range],
        bits: Mapping[Node, int] | None = None,
    ) -> Scheme:
        """Parameters from ranges, weights rounded to nearest."""
        kept = named_layers(function, self.keep_float)
        return make_scheme(
            function, ranges, symmetric=self.symmetric, bits=bits, group=self.group,
            dtype=self.activations, kept=kept, wide=named_values(function, self.int16, kept),
        )  # fmt: skip


@dataclass(frozen=True)
class PostTraining:
    """source: the float model after the passes. quantized: the same with QDQ nodes.

    statistics: from calibration. ranges, scheme: chosen from them by the recipe. candidates: the
    methods tried, the chosen one first; empty if there was no choice. plan: of the model; None if
    no value has a range to choose. has_corrected_biases: whether its biases keep the means of
    layers' outputs on samples.
    """

    source: Function
    quantized: Quantized
    statistics: Statistics
    scheme: Scheme
    ranges: Mapping[Value, Range]
    recipe: Recipe
    candidates: tuple[Candidate, ...] = ()
    plan: Plan | None = None
    has_corrected_biases: bool = False

    @cached_property
    def integers(self) -> Function:
        """The function on integers that the compiler's passes make of the QDQ model."""
        return run_passes(self.quantized.function, "onnx")

    @cached_property
    def _compared(self) -> tuple[Function, Quantized]:
        """The values to compare layers by: after softmax, a few undecided samples make nearly all
        of an error and hide its layer.
        """
        function = before_softmax(self.source)
        return function, insert_qdq(function, self.scheme)

    def layers(self) -> int:
        """Number of layers that `blame` measures."""
        return len(layers_of(*self._compared))

    def blame(self, progress: Progress | None = None) -> dict[Value, float]:
        """Each layer's part of the error of the outputs, before softmax, by leaving it out; on
        calibration samples."""
        function, quantized = self._compared
        macs = function.macs
        count = max(LEAST_BLAME_SAMPLES, int(BLAME_MACS / max(macs, 1)))
        samples = self.statistics.kept[:count]
        return leave_one_out(function, quantized, self.scheme, samples, progress)

    def own_deviation(self) -> Deviation:
        """Deviation of this model on calibration samples."""
        tests = [held(self.source, self.statistics.followed[:OWN_SAMPLES])]
        return output_deviation(tests, [run_passes(self._compared[1].function, "onnx")])

    def own_db(self) -> float | None:
        """The signal to noise of the outputs, before softmax, on samples of calibration."""
        return decibels(self.own_deviation().error)

    def held_out_db(self) -> float | None:
        """The signal to noise of the outputs, before softmax, on samples not calibrated on.

        Measured with two models made by the same method, each fitted to one half of the samples and
        measured on the other; None with fewer than eight samples, and for weights of fewer than
        eight bits.
        """
        is_known = self.plan is not None and self.recipe.weights == "int8"
        if self.plan is None or not is_known or len(fitted_to(self.statistics)) < 2:
            return None
        return decibels(self.plan.held_out_deviation()[0].error)

    def explain(
        self,
        samples: Iterable[Sample],
        labels: Sequence[int] | None = None,
        progress: Progress | None = None,
        blames: dict[Value, float] | None = None,
    ) -> Explanation:
        """Compare float and integers on samples, if possible not the calibration samples.

        blames: the results of `blame`, to report with the layers.
        """
        return explain(
            self.source, self.integers, self.scheme, self.statistics.histograms, samples,
            labels=labels, blames=blames, progress=progress,
        )  # fmt: skip

    def float_nodes(self) -> tuple[FloatNode, ...]:
        """The nodes in float, in order, each with the reason."""
        is_whole = self.recipe.activations == FLOAT or self.recipe.weights == HALF
        asked = None if is_whole else named_layers(self.source, self.recipe.keep_float)
        return float_nodes(self.integers, self.scheme.integer_nodes, asked)

    def module(self, source: str) -> Module:
        """The QDQ model as the compiler takes it. source: file name of the float model."""
        name = f"{source.rpartition('.')[0]}.onnx"
        return Module({"main": self.quantized.function}, source=name, format="onnx")


def quantize_function(
    function: Function, samples: Iterable[Sample], recipe: Recipe, progress: Progress | None = None
) -> PostTraining:
    """Quantize what `float_function` returns, calibrated on samples of its inputs.

    samples: read once, one by one. progress: called after each sample. Raises EdgecError for
    samples that do not fit, or none.
    """
    recipe.integer_nodes(function)  # reports unknown names before all the work
    stream = checked_samples(function.inputs, samples)
    if recipe.weights == HALF:
        return _with_float16_weights(function, stream, recipe, progress)
    has_ranges = recipe.activations != FLOAT  # else equal ranges of channels gain nothing
    is_tried = recipe.equalize != "never" and has_ranges
    first = tuple(islice(stream, EQUALIZE_SAMPLES)) if is_tried else ()
    variants = [equalize(function, first, WEIGHT_BITS[recipe.weights])]
    if recipe.equalize == "auto" and variants[0] is not function:
        variants.append(function)
    found = calibrate_all(variants, chain(first, stream), progress)
    names: tuple[str, ...] = AUTO_OBSERVERS if recipe.observer == "auto" else (recipe.observer,)
    if recipe.weights != "int8":
        names = tuple(name for name in names if name != "entropy" or recipe.observer == name)
    if recipe.activations not in INT8_FIRST:  # nothing needs to be clipped
        names = ("minmax",)
    firsts = [
        Plan(variant, seen, recipe, names[0]) for variant, seen in zip(variants, found, strict=True)
    ]
    plans = [first.other(observer=name) for first, name in product(firsts, names)]
    return best_of(plans, function) if len(plans) > 1 else plans[0].finished()


def best_of(plans: Sequence[Plan], function: Function) -> PostTraining:
    """The model of the best plan, with the errors of all plans.

    A few held-out samples select the best plans. Each of these is finished and has two errors: its
    method's error on samples that it was not fitted to, with biases corrected where that helps, and
    the finished model's error on calibration samples. The first error shows clipping by ranges, the
    second one the actual rounding. The plan with the least mean of both is taken; of plans about as
    good, the first one, which clips least. An error combines the values before softmax and the
    outputs (`Deviation.judged`). function: without equalized channels.
    """
    if plans[0].recipe.weights != "int8":
        return _best_of_plain(plans, function)
    few = few_of(plans[0].errors.tests)
    screened = [plan.deviation(few) for plan in plans]
    judged = [each.judged for each in screened]
    order = sorted(range(len(plans)), key=judged.__getitem__)
    # Observers that find the same ranges have the same error: the first stands for all.
    near = {judged[n]: n for n in reversed(order) if judged[n] <= NEAR * judged[order[0]]}
    last = [n for n in order if near.get(judged[n]) == n][:MOST_FINALISTS]
    made = {n: plans[n].finished() for n in last}
    tested = {n: plans[n].held_out_deviation()[0] for n in last}
    finals = [(n, (tested[n].judged + made[n].own_deviation().judged) / 2) for n in last]
    enough = ALIKE * min(error for _, error in finals)
    first = min(n for n, error in finals if error <= enough)
    taken = [n for n, _ in sorted(finals, key=lambda pair: (pair[0] != first, pair[1]))]
    errors = {n: (tested.get(n) or screened[n]).error for n in range(len(plans))}
    ranked = [*taken, *(n for n in order if n not in taken)]
    return replace(made[first], candidates=_candidates(plans, ranked, errors, function))


def _best_of_plain(plans: Sequence[Plan], function: Function) -> PostTraining:
    """Choose the least error before int4 weights are fitted, which is slow."""
    errors = dict(enumerate(plan.deviation(plans[0].errors.tests).error for plan in plans))
    first = next(n for n in errors if errors[n] <= ABOUT_SAME * min(errors.values()))
    ranked = sorted(errors, key=lambda n: (n != first, errors[n]))
    return plans[first].finished(_candidates(plans, ranked, errors, function))


def _candidates(
    plans: Sequence[Plan], ranked: Sequence[int], errors: Mapping[int, float], function: Function
) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(plans[n].observer, plans[n].function is not function, decibels(errors[n]))
        for n in ranked
    )


class Plan:
    """A float function, its statistics and an observer, from which schemes are made."""

    def __init__(
        self, function: Function, statistics: Statistics, recipe: Recipe, observer: str
    ) -> None:
        self.function, self.statistics = function, statistics
        self.recipe, self.observer = recipe, observer
        self._rounding: dict[Node, Weights] = {}
        self._ranges = Ranges(function, symmetric=recipe.symmetric)
        self._errors: CorrectedErrors | None = None
        self._root = self  # plans of one function share it, since they measure the same
        self._held_out: tuple[Deviation, bool] | None = None
        is_short = recipe.weights == "int4"
        self._bits = dict.fromkeys(statistics.moments, WEIGHT_BITS["int4"]) if is_short else None

    def other(self, *, recipe: Recipe | None = None, observer: str = "") -> Plan:
        """The same with another observer, or other names of layers in the recipe."""
        recipe, observer = recipe or self.recipe, observer or self.observer
        made = Plan(self.function, self.statistics, recipe, observer)
        made._rounding, made._ranges = self._rounding, self._ranges
        made._root = self._root
        return made

    @property
    def errors(self) -> CorrectedErrors:
        root = self._root
        if root._errors is None:
            root._errors = CorrectedErrors(self.function, self.statistics)
        return root._errors

    def held_out_deviation(self) -> tuple[Deviation, bool]:
        """The errors on samples held out, and whether biases are corrected for them."""
        if self._held_out is None:
            recipe = self.recipe
            if recipe.correct_biases and recipe.weights != "int4":
                self._held_out = self.errors.choose_biases(lambda seen: self.scheme(seen)[0])
            else:
                self._held_out = self.deviation(self.errors.tests), False
        return self._held_out

    def scheme(self, seen: Seen) -> tuple[Scheme, dict[Value, Range]]:
        """Parameters with ranges fitted to the statistics, weights fitted to all samples; and the
        ranges.
        """
        recipe, function, moments = self.recipe, self.function, self.statistics.moments
        ranges = self._ranges.of(seen, self.observer)
        if recipe.int16:  # nothing of it needs to be clipped
            integer_nodes, widest = recipe.integer_nodes(function), self._ranges.of(seen, "minmax")
            ranges |= {
                value: whole for value, whole in widest.items() if integer_nodes.is_wide(value)
            }
        scheme = recipe.scheme(self.function, ranges, self._bits)
        if recipe.reconstruct:
            # Scales of weights hardly depend on ranges: one choice serves all.
            missing = {n: w for n, w in scheme.weights.items() if n not in self._rounding}
            self._rounding.update(reconstruct(missing, moments))
            scheme = replace(scheme, weights=with_rounding(scheme.weights, self._rounding))
        if recipe.correct_biases:
            scheme = replace(scheme, weights=correct_biases(scheme.weights, moments))
        return scheme, ranges

    def deviation(self, tests: Sequence[Held]) -> Deviation:
        """The deviation of integers on held-out samples, with ranges from the other samples."""
        integers = []
        for seen in fitted_to(self.statistics):
            scheme, _ = self.scheme(seen)
            quantized = insert_qdq(before_softmax(self.function), scheme)
            integers.append(run_passes(quantized.function, "onnx"))
        return output_deviation(tests, integers)

    def finished(self, candidates: Sequence[Candidate] = ()) -> PostTraining:
        """The quantized model, with ranges that all samples show."""
        recipe, statistics = self.recipe, self.statistics
        scheme, ranges = self.scheme(statistics)
        made = PostTraining(
            self.function, insert_qdq(self.function, scheme), statistics, scheme, ranges, recipe,
            tuple(candidates), self,
        )  # fmt: skip
        if recipe.weights == "int4":
            return with_bits(made, dict.fromkeys(statistics.moments, WEIGHT_BITS[recipe.weights]))
        is_corrected = recipe.correct_biases and self.held_out_deviation()[1]
        return with_corrected_biases(made) if is_corrected else made


def _with_float16_weights(
    function: Function, samples: Iterable[Sample], recipe: Recipe, progress: Progress | None
) -> PostTraining:
    statistics = calibrate(function, samples, progress)
    ranges = observed_ranges(function, statistics, "minmax")
    scheme = make_scheme(function, ranges, kept=function.nodes)
    quantized = Quantized(with_float16_weights(function), {})
    return PostTraining(function, quantized, statistics, scheme, ranges, recipe)


def with_bits(made: PostTraining, bits: Mapping[Node, int]) -> PostTraining:
    """The same model and ranges with weights of this many bits, where they are not 8."""
    recipe, function = made.recipe, made.source
    scheme = recipe.scheme(function, made.ranges, bits)
    if recipe.reconstruct:
        followed = made.statistics.followed
        scheme = layerwise_weights(function, scheme, followed, biases=recipe.correct_biases).scheme
    made = replace(made, quantized=insert_qdq(function, scheme), scheme=scheme)
    return with_corrected_biases(made) if recipe.correct_biases else made


def with_corrected_biases(made: PostTraining) -> PostTraining:
    """The same model with biases that keep the means of layers, on samples of calibration."""
    scheme = corrected_biases(made.source, made.scheme, made.statistics.kept)
    quantized = insert_qdq(made.source, scheme)
    return replace(made, quantized=quantized, scheme=scheme, has_corrected_biases=True)

"""TFLite's recurrent operators of floats, with their states, against LiteRT and by C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tflite_cases import Case, In, Out, check, check_by_c, const, litert_tests, rng

BATCH, STEPS, DEPTH, CELLS = 2, 3, 4, 5
#: The schema's ActivationFunctionType.
RELU6, TANH = 3, 4


def weights(*shape: int) -> In:
    return const(rng.uniform(-0.6, 0.6, shape))


def state(units: int) -> In:
    return In((BATCH, units), variable=True)


def rnn() -> list[Case]:
    made = []
    own = [weights(CELLS, DEPTH), weights(CELLS, CELLS), weights(CELLS)]
    whole, out = In((BATCH, STEPS, DEPTH)), Out((BATCH, STEPS, CELLS))
    for activation in (0, 1, RELU6, TANH):
        fields = {"FusedActivationFunction": activation}
        made.append(
            Case(
                "RNN",
                [In((BATCH, DEPTH)), *own, state(CELLS)],
                [Out((BATCH, CELLS))],
                "RNNOptions",
                fields,
                near=1e-6,
            )
        )
        made.append(
            Case(
                "UNIDIRECTIONAL_SEQUENCE_RNN",
                [whole, *own, state(CELLS)],
                [out],
                "SequenceRNNOptions",
                fields,
                near=1e-6,
            )
        )
    made.append(
        Case(
            "UNIDIRECTIONAL_SEQUENCE_RNN",
            [In((STEPS, BATCH, DEPTH)), *own, state(CELLS)],
            [Out((STEPS, BATCH, CELLS))],
            "SequenceRNNOptions",
            {"FusedActivationFunction": TANH, "TimeMajor": True},
            near=1e-6,
        )
    )
    both = [*own, state(CELLS)] * 2
    # Options that the file leaves out have their defaults.
    made.append(Case("UNIDIRECTIONAL_SEQUENCE_RNN", [whole, *own, state(CELLS)], [out], near=1e-6))
    made.append(Case("RNN", [In((BATCH, DEPTH)), *own, state(CELLS)], [Out((BATCH, CELLS))],
                     near=1e-6))  # fmt: skip
    for merge in (False, True):
        outs = [Out((BATCH, STEPS, 2 * CELLS))] if merge else [out, out]
        fields = {"FusedActivationFunction": TANH, "MergeOutputs": merge}
        made.append(
            Case(
                "BIDIRECTIONAL_SEQUENCE_RNN",
                [whole, *both],
                outs,
                "BidirectionalSequenceRNNOptions",
                fields,
                near=1e-6,
                absent=(9, 10, 11),
            )
        )
    aux = [In((BATCH, STEPS, DEPTH)), weights(CELLS, DEPTH), weights(CELLS, DEPTH)]
    for time_major in (False, True):
        size = (STEPS, BATCH) if time_major else (BATCH, STEPS)
        for absent in ((), (10, 11)):
            second = [In((*size, DEPTH)), *aux[1:]][: 3 - len(absent)]
            made.append(
                Case("BIDIRECTIONAL_SEQUENCE_RNN", [In((*size, DEPTH)), *both, *second],
                     [Out((*size, CELLS))] * 2, "BidirectionalSequenceRNNOptions",
                     {"FusedActivationFunction": TANH, "TimeMajor": time_major}, near=1e-6,
                     absent=absent)
            )  # fmt: skip
    return made  # fmt: skip


def cell(units: int, has_input: bool, has_peephole: bool, has_projection: bool) -> list[In | None]:
    """The 17 operands of one direction."""
    given = [weights(CELLS, DEPTH) for _ in range(4)]
    recurrent = [weights(CELLS, units) for _ in range(4)]
    peephole = [weights(CELLS) if has_peephole else None for _ in range(3)]
    bias = [weights(CELLS) for _ in range(4)]
    projection = [weights(units, CELLS), weights(units)] if has_projection else [None, None]
    if not has_input:
        given[0] = recurrent[0] = peephole[0] = bias[0] = None
    return [*given, *recurrent, *peephole, *bias, *projection]


def of(
    kind: str, operands: list[In | None], outs: list[Out], options: str, **fields: object
) -> Case:
    absent = tuple(n for n, operand in enumerate(operands) if operand is None)
    given = [operand for operand in operands if operand is not None]
    return Case(kind, given, outs, options, fields, near=1e-6, absent=absent)


def lstm() -> list[Case]:
    made, forms = [], [(True, False, False), (False, False, False), (True, True, False),
                       (False, True, True), (True, True, True)]  # fmt: skip
    for number, form in enumerate(forms):
        units = 3 if form[2] else CELLS
        own = [*cell(units, *form), state(units), state(CELLS)]
        norms = [weights(CELLS) for _ in range(4)] if number % 2 else []
        if norms and not form[0]:
            norms[0] = None
        clips = {"FusedActivationFunction": TANH, "CellClip": 0.4 * number,
                 "ProjClip": 0.3 * number}  # fmt: skip
        made.append(of("LSTM", [In((BATCH, DEPTH)), *own, *norms], [Out((BATCH, units))],
                       "LSTMOptions", **clips))  # fmt: skip
        made.append(of("UNIDIRECTIONAL_SEQUENCE_LSTM", [In((BATCH, STEPS, DEPTH)), *own, *norms],
                       [Out((BATCH, STEPS, units))], "UnidirectionalSequenceLSTMOptions",
                       **clips))  # fmt: skip
        states = [state(units), state(CELLS)] * 2
        merges, is_first = bool(number % 2), number > 2 or not form[0]
        # LiteRT leaves samples after the first at 0 where they come first and have no input gate.
        size = (STEPS, BATCH) if is_first else (BATCH, STEPS)
        outs = [Out((*size, 2 * units))] if merges else [Out((*size, units))] * 2
        both = [In((*size, DEPTH)), *cell(units, *form), *cell(units, *form), *states]
        links = [In((*size, 3)), *(weights(CELLS, 3) for _ in range(8))]
        alone = [In((*size, DEPTH)), *[None] * 8]
        for second in ([None] * 9, links, alone):
            if second is not links or form[0]:
                made.append(of("BIDIRECTIONAL_SEQUENCE_LSTM", [*both, *second], outs,
                               "BidirectionalSequenceLSTMOptions", MergeOutputs=merges,
                               TimeMajor=is_first, **clips))  # fmt: skip
    made.append(
        Case(
            "LSTM",
            [
                In((BATCH, DEPTH)),
                In((BATCH, CELLS), variable=True),
                weights(4 * CELLS, DEPTH + CELLS),
                weights(4 * CELLS),
                state(CELLS),
            ],
            [
                Out((BATCH, CELLS)),
                Out((BATCH, CELLS)),
                Out((BATCH, DEPTH + CELLS)),
                Out((BATCH, 4 * CELLS)),
            ],
            "LSTMOptions",
            {"KernelType": 1, "FusedActivationFunction": TANH},
            near=1e-6,
        )
    )
    return made


#: Where peepholes stand, which are stored as the weights are.
PEEPHOLES = {"LSTM": (9, 10, 11), "UNIDIRECTIONAL_SEQUENCE_LSTM": (9, 10, 11),
             "BIDIRECTIONAL_SEQUENCE_LSTM": (9, 10, 11, 26, 27, 28)}  # fmt: skip


def hybrid(case: Case, asymmetric: bool, dtype: str = "int8") -> Case:
    """The same by weights of int8; uint8 is another name for them."""
    given, operands, position = iter(case.inputs), [], 0
    for operand in given:
        while position in case.absent:
            position += 1
        is_weight = operand.data is not None and (
            len(operand.shape) == 2 or position in PEEPHOLES.get(case.kind, ())
        )
        if is_weight:
            scale = float(np.abs(operand.data).max()) / 127
            bits = np.rint(operand.data / scale).astype(np.int8).view(dtype)
            operand = In(operand.shape, dtype, data=bits, scale=scale)
        operands.append(operand)
        position += 1
    fields = {**case.fields, "AsymmetricQuantizeInputs": asymmetric}
    return replace(case, inputs=operands, fields=fields)


CASES = [*rnn(), *lstm()]
#: The basic kernel has no hybrid form. LiteRT's hybrid BIDIRECTIONAL_SEQUENCE_RNN is wrong with
#: steps first and a second input: 0.6 off its own float results, where other cases are 0.01 off.
HYBRID = [
    hybrid(case, bool(number % 3))
    for number, case in enumerate(CASES[:-1])
    if not (case.kind == "BIDIRECTIONAL_SEQUENCE_RNN" and case.fields.get("TimeMajor"))
]
HYBRID.append(hybrid(CASES[0], False, "uint8"))
test_as_litert, test_by_c, test_all_by_c = litert_tests(CASES)


def test_hybrid_as_litert(tmp_path: Path) -> None:
    check(HYBRID, "litert", tmp_path)


def test_hybrid_by_c(tmp_path: Path) -> None:
    check_by_c([HYBRID[0], HYBRID[-2]], "litert", tmp_path)

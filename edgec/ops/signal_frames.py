"""TFLite Micro's SignalDelay, SignalFramer, SignalStacker, SignalOverlapAdd and CIRCULAR_BUFFER:
their memory is a state.
"""

from __future__ import annotations

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import TensorType
from edgec.ops.concat import ConcatAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.row import is_plain_integer
from edgec.ops.slice import sliced
from edgec.ops.steps import added

#: Frames of one run that are written one after the other.
MOST_FRAMES = 64


def _samples(raw: RawNode) -> Value:
    (x,) = raw.operands(1)
    if x.type.dtype != "int16" or not x.type.shape:
        raise ImportFailed(f"{x.type}: only int16 samples are supported")
    return x


def _memory(builder: GraphBuilder, raw: RawNode, x: Value, count: int) -> Value:
    """A state of `count` samples for each line of x, which begin as zeros."""
    type_ = x.type.with_shape((*x.type.shape[:-1], count))
    return builder.state(f"{raw.name}.memory", type_, np.zeros(type_.shape, type_.dtype))


def _part(parts: Parts, x: Value, first: int, count: int, what: str) -> Value:
    """Samples of the last axis."""
    ranges = [*((0, 1, extent) for extent in x.type.shape[:-1]), (first, 1, count)]
    return sliced(parts.builder, x, ranges, f"{parts.name}/{what}", (parts.name,))


def _after_memory(builder: GraphBuilder, raw: RawNode, x: Value, count: int) -> Value:
    """The remembered samples, then x; the last samples of both become the new memory."""
    parts, memory = Parts(builder, raw), _memory(builder, raw, x, count)
    whole = parts.op("concat", [memory, x], ConcatAttrs(len(x.type.shape) - 1), "whole")
    builder.become(memory, _part(parts, whole, x.type.shape[-1], count, "next"))
    return whole


@from_tflite("CUSTOM:SignalDelay")
def import_delay(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalDelay: the samples that came `delay_length` places before."""
    x, delay, parts = _samples(raw), int(raw.attribute("delay_length", 0)), Parts(builder, raw)
    if delay < 0:
        raise ImportFailed(f"a delay of {delay} samples")
    if not delay:
        return parts.last(x)
    whole = _after_memory(builder, raw, x, delay)
    return parts.last(_part(parts, whole, 0, x.type.shape[-1], "delayed"))


@from_tflite("CUSTOM:SignalFramer")
def import_framer(builder: GraphBuilder, raw: RawNode) -> tuple[Value, Value]:
    """TFLite Micro's SignalFramer after zeros: overlapping frames, and that all are valid."""
    x, parts = _samples(raw), Parts(builder, raw)
    size, step = (int(raw.attribute(key, 0)) for key in ("frame_size", "frame_step"))
    if not raw.attribute("prefill", False):
        raise ImportFailed("without prefill its first frames are undefined: not supported")
    samples = x.type.shape[-1]
    if not 0 < step < size or samples % step or samples // step > MOST_FRAMES:
        raise ImportFailed(f"frames of {size} every {step} of {samples} samples")
    whole = _after_memory(builder, raw, x, size - step)
    outer, frames = x.type.shape[:-1], []
    for number in range(samples // step):
        frame = _part(parts, whole, number * step, size, f"frame{number}")
        frames.append(parts.reshaped(frame, (*outer, 1, size), f"row{number}"))
    return parts.op("concat", frames, ConcatAttrs(len(outer))), parts.table(True, "valid", "bool")


@from_tflite("CUSTOM:SignalOverlapAdd")
def import_overlap_add(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalOverlapAdd of int16, which saturates, and of floats."""
    (x,), parts, step = raw.operands(1), Parts(builder, raw), int(raw.attribute("frame_step", 0))
    *outer, frames, size = (1, 1, *x.type.shape)[-max(len(x.type.shape), 2) :]
    if x.type.dtype not in ("int16", "float32") or len(x.type.shape) < 2:
        raise ImportFailed(f"{x.type}: only int16 and float32 frames are supported")
    if not 0 < step < size or frames > MOST_FRAMES:
        raise ImportFailed(f"{frames} frames of {size} every {step}")
    lines = parts.reshaped(x, (*outer, frames * size), "lines")
    memory = _memory(builder, raw, parts.reshaped(x, (*outer, size * frames), "line"), size)
    zeros = parts.filled(x.type.with_shape((*outer, step)), 0, "zeros")
    last, made = ConcatAttrs(len(outer)), []
    total = memory
    for number in range(frames):
        frame = _part(parts, lines, number * size, size, f"frame{number}")
        total = _saturated(parts, total, frame, f"sum{number}")
        made.append(_part(parts, total, 0, step, f"out{number}"))
        rest = _part(parts, total, step, size - step, f"rest{number}")
        total = parts.op("concat", [rest, zeros], last, f"next{number}")
    builder.become(memory, total)
    return parts.last(parts.op("concat", made, last, "joined") if frames > 1 else made[0])


def _saturated(parts: Parts, a: Value, b: Value, what: str) -> Value:
    """The sum of floats, or of int16 within their range."""
    if not is_plain_integer(a.type):
        return added(parts, a, b, what)
    wide = [parts.cast(x, "int32", f"{what}.wide{n}") for n, x in enumerate((a, b))]
    total = parts.op("int_add", wide, what=f"{what}.whole")
    for row, end in (("maximum", -32768), ("minimum", 32767)):
        total = parts.op(row, [total, parts.table(end, f"{what}.{row}")], what=f"{what}.{row}")
    return parts.cast(total, "int16", what)


@from_tflite("CUSTOM:SignalStacker")
def import_stacker(builder: GraphBuilder, raw: RawNode) -> tuple[Value, Value]:
    """TFLite Micro's SignalStacker: the last frames side by side, and whether they are valid.

    The first frame replaces the missing ones before it. After each valid result, `stacker_step`
    frames more must come. A result that is not valid is undefined. Source: TFLite Micro's
    stacker.cc.
    """
    x, parts = _samples(raw), Parts(builder, raw)
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    channels, left, right, step = (int(raw.attribute(name, 0)) for name in names)
    frames = left + right + 1
    if min(left, right) < 0 or channels != x.type.elements or not 0 < step <= frames:
        raise ImportFailed(f"{frames} frames of {channels} channels every {step} of {x.type}")
    frame = parts.reshaped(x, (1, channels), "frame")
    zeros, first = np.zeros((frames, channels), np.int16), np.full((1,), -1, np.int32)
    memory = builder.state(f"{raw.name}.memory", x.type.with_shape(zeros.shape), zeros)
    count = builder.state(f"{raw.name}.count", TensorType((1,), "int32"), first)
    is_first = parts.op("less", [count, parts.table([0], "none")], what="is_first")
    before = parts.op("where", [is_first, frame, memory], what="before")
    ranges = [(1, 1, frames - 1), (0, 1, channels)]
    kept = sliced(builder, before, ranges, f"{raw.name}/kept", (raw.name,)) if frames > 1 else None
    whole = parts.op("concat", [*([kept] if kept else []), frame], ConcatAttrs(0), "whole")
    known = parts.op("where", [is_first, parts.table([left], "left"), count], what="known")
    now = parts.op("int_add", [known, parts.table([1], "one")], what="now")
    valid = parts.op("greater_equal", [now, parts.table([frames], "frames")], what="valid")
    rest = parts.op("int_sub", [now, parts.table([step], "step")], what="rest")
    builder.become(memory, whole)
    builder.become(count, parts.op("where", [valid, rest, now], what="next"))
    stacked = parts.reshaped_last(whole, raw.declared().shape)
    builder.undefined.add(stacked)
    flag = raw.output_types[1]
    return stacked, parts.reshaped(valid, flag.shape if flag else (), "flag")


def _cycles(raw: RawNode, shape: tuple[int, ...]) -> int:
    """The number of runs after which the operators that follow a circular buffer run once."""
    cycles = int(raw.attribute("cycles_max", 0))
    if cycles <= 0 and shape[2:] == (2, 96):
        raise ImportFailed("without a cycles_max, TFLite Micro counts buffers of this shape")
    return cycles if cycles > 0 else 1 if shape[1] in (5, 13, 25) else 2


@from_tflite("CUSTOM:CIRCULAR_BUFFER")
def import_circular_buffer(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's CIRCULAR_BUFFER: the most recent slots, newest last.

    Only the last of `cycles_max` runs continues after it. Source: circular_buffer.cc, also for a
    `cycles_max` of 0.
    """
    (x,), parts, declared = raw.operands(1), Parts(builder, raw), raw.declared()
    slots = (*declared.shape, 0, 0)[1]
    wanted = (1, 1, *declared.shape[2:])
    if x.type.dtype != "int8" or slots < 1 or x.type != declared.with_shape(wanted):
        raise ImportFailed(f"{x.type} into {declared}")
    cycles = _cycles(raw, declared.shape)
    memory = builder.state(f"{raw.name}.slots", declared, np.zeros(declared.shape, np.int8))
    whole = x
    if slots > 1:
        ranges = [(0, 1, 1), (1, 1, slots - 1), *((0, 1, extent) for extent in wanted[2:])]
        kept = sliced(builder, memory, ranges, f"{raw.name}/kept", (raw.name,))
        whole = parts.op("concat", [kept, x], ConcatAttrs(1, declared.quant), "next")
    builder.become(memory, whole)
    made = parts.last(whole)
    if cycles > 1:
        _pause(builder, raw, cycles)
    return made


def _pause(builder: GraphBuilder, raw: RawNode, cycles: int) -> None:
    """Count runs; all but the last of each `cycles` runs end here."""
    parts, first = Parts(builder, raw), np.full((1,), cycles, np.int32)
    count = builder.state(f"{raw.name}.cycles", TensorType((1,), "int32"), first)
    left = parts.op("int_sub", [count, parts.table([1], "one")], what="left")
    goes_on = parts.op("equal", [left, parts.table([0], "none")], what="goes_on")
    again = parts.table(first, "again")
    builder.become(count, parts.op("where", [goes_on, again, left], what="cycles"))
    builder.pauses.append((len(builder.nodes), goes_on))

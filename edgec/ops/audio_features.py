"""Features of a sound as a graph: logarithms of the loudness of mel bands, and their cosine
transform (MFCC), of one frame of samples.

Window, transform, magnitudes and bands are the signal operators in integers (TFLite Micro's); the
logarithm of the few bands and later operators are floats. So all machines have the same bits.

    int16 frame -> raised to 16 bits -> window -> spectrum -> |X| or |X|**2 -> bands
                -> float32 / 2**bits -> ln(. + floor) [-> cosine transform] -> * scale + offset

Formulas: mel(f) = 1127 ln(1 + f / 700), as in HTK; the triangles are straight in mel, as in
`tf.signal.linear_to_mel_weight_matrix`, or in hertz, as in `torchaudio.functional.melscale_fbanks`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Value
from edgec.graph.types import Array, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.cast import CastAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.scattered import AxisAttrs
from edgec.ops.signal_filter_bank import SignalEnergyAttrs
from edgec.ops.signal_rfft import SignalRfftAttrs
from edgec.ops.signal_window import SignalWindowAttrs

#: Fraction bits of the window and of the triangles; by how much energies are raised before a root.
WINDOW_BITS, BAND_BITS, ROOT_BITS = 15, 14, 16
#: A frame can be raised by this many bits at most.
MOST_RAISED = 15
#: From the natural logarithm of an energy.
LN_TO_DB = 10 / math.log(10)


@dataclass(frozen=True)
class Features:
    """The features of each frame; `edgec.frontends.features` reads it from a file.

    rate: samples per second. window, step: samples of a frame, and from one to the next. fft:
    samples of the transform, a power of two. bands: between low_hz and high_hz. coefficients: of
    the cosine transform, 0 for the bands themselves. power: 1 for magnitudes, 2 for energies.
    triangles: mel or hertz. orthonormal: whether the first coefficient is divided by sqrt(2).
    log_floor: added before the logarithm, for samples from -1 to 1. decibels: 10 log10 of energies
    (20 of magnitudes) instead of ln. scale, offset: applied to the features.
    """

    rate: int
    window: int
    step: int
    fft: int
    bands: int
    low_hz: float
    high_hz: float
    coefficients: int = 0
    power: int = 1
    triangles: str = "mel"
    orthonormal: bool = False
    log_floor: float = 1e-6
    decibels: bool = False
    scale: float = 1.0
    offset: float = 0.0

    @property
    def size(self) -> int:
        """Numbers of one frame."""
        return self.coefficients or self.bands


def mel(hertz: Array) -> Array:
    """The pitch that is heard, in mel."""
    return 1127.0 * np.log1p(hertz / 700.0)


def mel_weights(features: Features) -> Array:
    """float64 [bands, fft / 2 + 1]: the triangle of each band; of the constant part always 0."""
    hertz = np.arange(features.fft // 2 + 1) * (features.rate / features.fft)
    low, high = map(float, mel(np.array([features.low_hz, features.high_hz])))
    edges = np.linspace(low, high, features.bands + 2)
    at = mel(hertz)
    if features.triangles == "hertz":
        edges, at = 700.0 * np.expm1(edges / 1127.0), hertz
    left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    weights: Array = np.minimum((at - left) / (middle - left), (right - at) / (right - middle))
    weights[:, 0] = 0
    return weights.clip(min=0.0)


def cosines(features: Features) -> Array:
    """float64 [coefficients, bands]: the cosine transform of type 2, of length sqrt(2 / bands)."""
    k, n = np.arange(features.coefficients)[:, None], np.arange(features.bands)[None, :]
    table = np.cos(np.pi / features.bands * k * (n + 0.5)) * math.sqrt(2 / features.bands)
    if features.orthonormal:
        table[0] /= math.sqrt(2)
    return table


class _Graph:
    """Appends the nodes."""

    def __init__(self, features: Features) -> None:
        self.features, self.builder = features, GraphBuilder()

    def op(self, op: str, inputs: list[Value], attrs: object, name: str) -> Value:
        return self.builder.op(op, inputs, attrs, name=name, sources=())

    def table(self, name: str, data: Array, dtype: str) -> Value:
        return self.builder.constant(name, np.asarray(data, dtype))

    def spectrum(self, frame: Value) -> tuple[Value, Value]:
        """int16 parts of the spectrum, and int32 [] the bits by which the frame was raised."""
        turn = 2 * np.pi / self.features.window * np.arange(self.features.window)
        hann = np.rint((0.5 - 0.5 * np.cos(turn)) * ((1 << WINDOW_BITS) - 1))
        # Raised first: the window drops bits, which a quiet frame has few of.
        bits = self.op("signal_scale_bits", [frame], None, "bits")
        raised = self.op("signal_raise", [frame, bits], None, "raised")
        attrs = SignalWindowAttrs(WINDOW_BITS)
        table = self.table("hann", hann, "int16")
        windowed = self.op("signal_window", [raised, table], attrs, "windowed")
        return self.op("signal_rfft", [windowed], SignalRfftAttrs(self.features.fft),
                       "spectrum"), bits  # fmt: skip

    def bands(self, spectrum: Value) -> Value:
        """uint64 [bands] of magnitudes, raised by half of ROOT_BITS, or of energies."""
        count = spectrum.type.elements // 2
        energy = self.op("signal_energy", [spectrum], SignalEnergyAttrs(0, count), "energy")
        if self.features.power == 1:
            wide = self.op("cast", [energy], CastAttrs("uint64"), "energy.wide")
            factor = self.table("root_raise", np.array(1 << ROOT_BITS), "uint64")
            product = self.op("int_mul", [wide, factor], None, "energy.raised")
            none = self.table("no_bits", np.array(0), "int32")
            energy = self.op("signal_sqrt", [product, none], None, "magnitude")
        starts, packed = _packed(mel_weights(self.features))
        tables = [self.table("starts", starts, "int16"), self.table("triangles", packed, "int16")]
        return self.op("signal_filter_bank", [energy, *tables], None, "bands")

    def logarithms(self, bands: Value, bits: Value) -> Value:
        """float32 [bands] of samples from -1 to 1."""
        power = self.features.power
        numbers = self.op("cast", [bands], CastAttrs("float32"), "bands.float")
        # The integers are the real spectrum times this; the transform divides by its length.
        raised = (32768.0 * 2.0 ** np.arange(MOST_RAISED + 1) / self.features.fft) ** power
        raised *= (1 << BAND_BITS) * (2.0 ** (ROOT_BITS / 2) if power == 1 else 1.0)
        table = self.table("unraise", 1.0 / raised, "float32")
        factor = self.op("gather_at", [table, bits], AxisAttrs(0), "factor")
        real = self.op("mul", [numbers, factor], MulAttrs(), "loudness")
        floor = self.table("floor", np.array(self.features.log_floor), "float32")
        return self.op("log", [self.op("add", [real, floor], AddAttrs(), "floored")], None, "log")

    def transformed(self, log: Value) -> Value:
        """float32 [1, size]: coefficients or bands, in the unit that is wanted."""
        features = self.features
        unit = features.scale * (LN_TO_DB * 2 / features.power if features.decibels else 1.0)
        shape = (1, features.bands)
        row = self.op("reshape", [log], ReshapeAttrs(shape), "row")
        if not features.coefficients:
            factor = self.table("unit", np.array(unit), "float32")
            offset = self.table("offset", np.array(features.offset), "float32")
            scaled = self.op("mul", [row, factor], MulAttrs(), "scaled")
            return self.op("add", [scaled, offset], AddAttrs(), "features")
        weights = self.table("cosines", unit * cosines(features), "float32")
        bias = self.table("offset", np.full(features.coefficients, features.offset), "float32")
        return self.op("dense", [row, weights, bias], None, "features")


def feature_function(features: Features) -> Function:
    """samples int16 [1, window] -> features float32 [1, size]."""
    graph = _Graph(features)
    samples = graph.builder.param("samples", TensorType((1, features.window), "int16"))
    frame = graph.op("reshape", [samples], ReshapeAttrs((features.window,)), "frame")
    spectrum, bits = graph.spectrum(frame)
    log = graph.logarithms(graph.bands(spectrum), bits)
    return graph.builder.finish([graph.transformed(log)])


def _packed(weights: Array) -> tuple[Array, Array]:
    """Start of each band, and its weights with BAND_BITS fraction bits, all equally wide."""
    stored = np.rint(weights * (1 << BAND_BITS)).astype(np.int64)
    used = [np.flatnonzero(row) if row.any() else np.zeros(1, np.int64) for row in stored]
    width = max(int(at[-1] - at[0]) + 1 for at in used)
    starts = np.asarray([min(int(at[0]), stored.shape[1] - width) for at in used])
    return starts, stored[np.arange(len(stored))[:, None], starts[:, None] + np.arange(width)]

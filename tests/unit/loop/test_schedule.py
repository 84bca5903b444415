"""The schedule that convolutions stand on, from definition to shrunken nest."""

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.interpret import interpret
from edgec.loop.parser import parse_func
from edgec.loop.printer import print_func
from edgec.loop.schedule import Schedule, replay
from edgec.loop.simplify import simplify
from edgec.loop.values import clamp, int8, int32, intrinsic, maximum, minimum
from edgec.loop.verify import verify_func

GOLDEN = """\
func conv(x: arena int8[1, 6, 6, 4], out: arena int8[1, 3, 3, 8], w: constant int8[2, 3, 3, 4, 4], bias: constant int32[8]) {
  alloc acc: register int32[4]
  alloc x_cache: register int8[1]
  for out_h in 0..3 {
    for out_w in 0..3 {
      for out_c_o in 0..2 {
        unrolled for acc_c_init in 0..4 {
          acc[acc_c_init] = bias[acc_c_init + out_c_o*4]
        }
        for acc_kh in max(0, -out_h*2 + 1)..3 {
          for acc_kw in max(0, -out_w*2 + 1)..3 {
            for acc_ic_o in 0..2 {
              unrolled for acc_ic_i in 0..2 {
                x_cache[0] = x[0, acc_kh + out_h*2 - 1, acc_kw + out_w*2 - 1, acc_ic_i + acc_ic_o*2]
                unrolled for acc_c in 0..4 {
                  acc[acc_c] = acc[acc_c] + int32(x_cache[0]) * int32(w[out_c_o, acc_kh, acc_kw, acc_ic_i + acc_ic_o*2, acc_c])
                }
              }
            }
          }
        }
        unrolled for out_c_i in 0..4 {
          out[0, out_h, out_w, out_c_i + out_c_o*4] = int8(min(max(requantize_tflm(acc[out_c_i], 1073741824, -9), -128), 127))
        }
      }
    }
  }
}
"""  # noqa: E501


def conv2d(channels: int = 8) -> Definition:
    """3x3, stride 2, padding 1, on 6x6x4."""
    b = Definition("conv")
    x = b.input("x", (1, 6, 6, 4), "int8")
    w = b.constant("w", (channels, 3, 3, 4), "int8")
    bias = b.constant("bias", (channels,), "int32")
    out = b.output("out", (1, 3, 3, channels), "int8")

    def start(position):
        return maximum(0, 1 - position * 2)

    def stop(position):
        return minimum(3, 7 - position * 2)

    acc = b.reduce(
        "acc",
        [
            ("kh", lambda n, h, w, c: start(h), lambda n, h, w, c: stop(h)),
            ("kw", lambda n, h, w, c: start(w), lambda n, h, w, c: stop(w)),
            ("ic", 0, 4),
        ],
        init=lambda n, h, w, c: bias[c],
        update=lambda acc, n, h, v, c, kh, kw, ic: (
            acc + int32(x[n, h * 2 + kh - 1, v * 2 + kw - 1, ic]) * int32(w[c, kh, kw, ic])
        ),
        shape=(1, 3, 3, channels),
        dtype="int32",
    )
    b.compute(
        out,
        lambda n, h, w, c: int8(
            clamp(intrinsic("requantize_tflm", acc[n, h, w, c], 1 << 30, -9), -128, 127)
        ),
    )
    return b


def schedule_conv2d(s: Schedule) -> None:
    c_o, c_i = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.reorder("acc_kh", "acc_kw", "acc_ic", "acc_c")
    s.decompose_reduction("acc", "acc_kh")
    _, ic_i = s.split("acc_ic", 2)
    s.cache_read("x", ic_i)
    s.transform_layout("w", "OHWI -> O/4 H W I O%4")
    for loop in ("acc_c", "acc_c_init", c_i, ic_i):
        s.unroll(loop)


def arrays_for(definition: Definition, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out = {}
    for name, tensor in definition.tensors.items():
        if tensor.buffer.scope == "constant" or name == "x":
            limit = 128 if tensor.dtype == "int8" else 1000
            out[name] = rng.integers(-limit, limit, tensor.shape).astype(tensor.dtype)
    return out


def test_scheduled_convolution_reads_as_expected():
    s = Schedule(conv2d().build())
    schedule_conv2d(s)
    func = simplify(s.func)
    assert print_func(func) == GOLDEN
    assert parse_func(GOLDEN) == func
    verify_func(s.func)
    verify_func(func)


def test_scheduled_convolution_keeps_its_meaning():
    definition = conv2d()
    func = definition.build()
    arrays = arrays_for(definition)
    expected = definition.evaluate(arrays)["out"]
    assert len(np.unique(expected)) > 20
    s = Schedule(func)
    schedule_conv2d(s)
    packed = {**arrays, "w": s.repacked["w"](arrays["w"])}
    assert np.array_equal(interpret(func, arrays)["out"], expected)
    assert np.array_equal(interpret(s.func, packed)["out"], expected)
    assert np.array_equal(interpret(simplify(s.func), packed)["out"], expected)


def test_channels_that_the_factor_does_not_divide():
    definition = conv2d(channels=6)
    arrays = arrays_for(definition)
    expected = definition.evaluate(arrays)["out"]
    s = Schedule(definition.build())
    c_o, _ = s.split("out_c", 4)
    s.compute_at("acc", c_o)
    s.reorder("acc_kh", "acc_kw", "acc_ic", "acc_c")
    s.decompose_reduction("acc", "acc_kh")
    s.transform_layout("w", "OHWI -> O/4 H W I O%4")
    packed = {**arrays, "w": s.repacked["w"](arrays["w"])}
    assert packed["w"].shape == (2, 3, 3, 4, 4)
    assert np.array_equal(interpret(simplify(s.func), packed)["out"], expected)


def test_trace_replays():
    func = conv2d().build()
    s = Schedule(func)
    schedule_conv2d(s)
    again = replay(func, s.trace_json())
    assert again.func == s.func
    assert again.trace_json() == s.trace_json()
    assert set(again.repacked) == {"w"}

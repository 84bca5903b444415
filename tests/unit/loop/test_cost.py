"""The estimate ranks schedules as they deserve, and counts plain nests exactly."""

import pytest
from test_schedule import conv2d, schedule_conv2d

from edgec.loop.cost import average_trips, estimate, estimate_code_bytes
from edgec.loop.parser import parse_func
from edgec.loop.primitives.int4 import pack_int4
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.simplify import simplify


def test_counts():
    func = parse_func("""func f(x: arena int8[8], y: arena int32[8]) {
      for i in 0..4 { unrolled for k in 0..2 { y[i*2 + k] = int32(x[i*2 + k]) * 3 } } }""")
    cost = estimate(func)
    assert (cost.loads, cost.stores, cost.multiplies) == (8, 8, 8)
    assert cost.instructions == 8 * 3 + 4 * 3


@pytest.mark.parametrize(
    ("body", "more"),
    [("y[0] = int32(w[6]) * 3 y[1] = int32(w[7]) * 3", 1), ("for i in 0..2 { y[i] = w[i] }", 3)],
)
def test_half_a_byte_is_a_field_of_it(body: str, more: int):
    """One instruction takes it where it is known which half; else both are, and one is chosen."""
    func = parse_func(f"func f(w: constant int8[8], y: arena int32[8]) {{ {body} }}")
    halves = estimate(pack_int4(func, "w")[0])
    assert halves.instructions == estimate(func).instructions + 2 * more
    assert halves.loads == 2


def test_average_trips_of_a_clipped_window():
    func = parse_func("""func f(y: arena int32[8]) {
      for i in 0..4 { for k in max(0, 1 - i)..min(3, 5 - i) { y[k] = 0 } } }""")
    assert average_trips(loops_of(func.body)["k"]) == pytest.approx((2 + 3 + 3 + 2) / 4)


def test_scheduled_convolution_is_cheaper():
    s = Schedule(conv2d().build())
    plain = simplify(s.func)
    schedule_conv2d(s)
    better, worse = estimate(simplify(s.func)), estimate(plain)
    assert better.instructions < 0.6 * worse.instructions
    assert better.multiplies == worse.multiplies
    assert better.loads < worse.loads


def test_code_is_counted_as_written_not_as_run():
    def nest(kind: str, extent: int) -> int:
        return estimate_code_bytes(
            parse_func(f"""func f(x: arena int8[64], y: arena int32[64]) {{
          {kind}for i in 0..{extent} {{ y[i] = int32(x[i]) * 3 }} }}""")
        )

    assert nest("", 8) == nest("", 64)
    assert nest("unrolled ", 64) > 5 * nest("unrolled ", 8) > 5 * nest("", 8)

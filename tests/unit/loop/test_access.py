"""Accesses and boxes: never smaller than what is touched, tight where it matters."""

from edgec.loop.access import accesses, reads, region, span, writes
from edgec.loop.parser import parse_func
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.rewrite import buffers_of

CONV = """func f(x: arena int8[8], y: arena int32[4], t: constant int8[256]) {
  for i in 0..4 {
    for k in max(0, 1 - i*2)..min(3, 9 - i*2) {
      block b(a: spatial = i, c: reduce = k) {
        init { y[a] = 0 }
        y[a] = y[a] + int32(x[a*2 + c - 1]) + int32(gather(t, y[a]))
} } } }
"""


def test_reads_and_writes():
    func = parse_func(CONV)
    assert {b.name for b in reads(func.body)} == {"x", "y", "t"}
    assert {b.name for b in writes(func.body)} == {"y"}
    kinds = [(a.buffer.name, a.is_write) for a in accesses(func.body)]
    assert kinds == [
        ("y", True),
        ("y", False),
        ("x", False),
        ("t", False),
        ("y", False),
        ("y", True),
    ]
    assert [len(a.loops) for a in accesses(func.body)] == [2] * 6


def test_region_of_a_clipped_window():
    func = parse_func(CONV)
    loop, _ = find_loop(func, "i")
    buffers = buffers_of(func)
    box = region(buffers["x"], loop.body, outer=(loop,))
    touched = {}
    for i in range(4):
        rows = [i * 2 + k - 1 for k in range(max(0, 1 - i * 2), min(3, 9 - i * 2))]
        touched[i] = (min(rows), max(rows) + 1)
        point = {"i": i}
        assert (box.starts[0].evaluate(point), box.stops[0].evaluate(point)) == touched[i]
    assert box.largest_extents() == (3,)
    whole = region(buffers["x"], func.body)
    assert (whole.starts[0].constant, whole.stops[0].constant) == (0, 8)
    table = region(buffers["t"], func.body)
    assert table.largest_extents() == (256,)
    assert region(buffers["x"], loop.body, only="writes") is None


def test_span_of_divided_indices():
    func = parse_func("""func f(y: arena int8[99]) {
      for o in 0..5 { for i in 0..7 { y[(o*7 + i) // 2 + (i) % 4] = 0i8 } } }""")
    outer, _ = find_loop(func, "o")
    inner, _ = find_loop(func, "i")
    index = next(iter(accesses(func.body))).indices[0]
    low, high = span(index, [inner])
    for o in range(5):
        values = [(o * 7 + i) // 2 + i % 4 for i in range(7)]
        point = {"o": o}
        assert low.evaluate(point) <= min(values) <= max(values) <= high.evaluate(point)
    assert high.evaluate({"o": 4}) <= (4 * 7 + 6) // 2 + 3
    assert outer.var in low.variables() and inner.var not in low.variables()

"""Accesses and boxes: never smaller than what is touched, tight where it matters."""

from edgec.loop.access import (
    accesses,
    count_uses,
    count_writes,
    flat_address,
    reads,
    region,
    span,
    term_range,
    writes,
)
from edgec.loop.ir import For, Seq
from edgec.loop.parser import parse_func
from edgec.loop.primitives.lookup import find_loop
from edgec.loop.rewrite import buffers_of
from edgec.numerics.term import Var, as_term, floor_div, floor_mod, minimum

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


def test_a_loop_that_data_end_runs_its_head_before_its_condition() -> None:
    func = parse_func("""func f(x: arena int32[4], y: arena int32[4]) {
      repeat { y[0] = x[1] } while (y[2] < 3) { y[1] = x[3] } }""")
    found = [(a.buffer.name, str(a.indices[0]), a.is_write) for a in accesses(func.body)]
    assert found == [
        ("x", "1", False), ("y", "0", True), ("y", "2", False), ("x", "3", False), ("y", "1", True)
    ]  # fmt: skip


def test_only_what_is_asked_for() -> None:
    func = parse_func(CONV)
    x, y, t = (buffers_of(func)[name] for name in "xyt")
    assert {a.buffer for a in accesses(func.body, of=(x,))} == {x}
    assert [a.is_write for a in accesses(func.body, of=(y,))] == [True, False, False, True]
    assert [a.indices for a in accesses(func.body, of=(t,))] == [None]
    assert not list(accesses(func.body, of=()))


def test_pointers_are_what_their_use_says() -> None:
    func = parse_func("""func f(x: arena int8[8, 8], y: arena int8[8, 8], c: constant int8[9]) {
      for i in 0..4 {
        call k(&x[i, 2] reads [2, 3], &y[i*2, 0] writes [1, 8], &c[i])
        call k(&x[i, 0], &y[i, 1] updates [1, 2])
      } }""")
    found = [(a.buffer.name, a.is_write, a.indices is None) for a in accesses(func.body)]
    assert found == [
        ("x", False, False), ("y", True, False), ("c", False, True), ("x", False, True),
        ("x", True, True), ("y", False, False), ("y", True, False),
    ]  # fmt: skip
    x, y = buffers_of(func)["x"], buffers_of(func)["y"]
    loop, _ = find_loop(func, "i")
    first = loop.body.stmts[0]
    box = region(x, first, outer=(loop,))
    assert [str(t) for t in (*box.starts, *box.stops)] == ["i", "2", "i + 2", "5"]
    box = region(y, first, outer=(loop,), only="writes")
    assert [str(t) for t in (*box.starts, *box.stops)] == ["i*2", "0", "i*2 + 1", "8"]
    assert region(y, first, outer=(loop,), only="reads") is None


def test_axes_of_blocks_stand_for_their_bindings() -> None:
    func = parse_func("""func f(y: arena int8[40]) {
      for i in 0..5 { block outer(a: spatial = i*8) {
        for j in a..a + 2 { block inner(b: spatial = j + a) { y[b] = 1i8 } } } } }""")
    (access,) = accesses(func.body)
    assert str(access.indices[0]) == "i*8 + j"
    assert [(str(loop.start), str(loop.stop)) for loop in access.loops] == [
        ("0", "5"), ("i*8", "i*8 + 2")
    ]  # fmt: skip


def test_ranges_of_terms_while_loops_run() -> None:
    i, j = Var("i", 0, 10), Var("j", 0, 20)
    nothing = Seq(())
    outer = For(i, as_term(0), as_term(10), "serial", nothing)
    inner = For(j, as_term(i), as_term(i) + 3, "serial", nothing)
    for term, expected in [
        (as_term(j) - i, (0, 2)), (as_term(j), (0, 11)), (as_term(i) * -2, (-18, 0)),
        (floor_div(as_term(j), 4), (0, 2)), (floor_mod(as_term(j), 4), (0, 3)),
        (minimum(j, as_term(i) + 1) - i, (0, 1)), (as_term(5), (5, 5)),
        (floor_mod(as_term(i) // 9, 4), (0, 1)),
    ]:  # fmt: skip
        assert term_range(term, [outer, inner]) == expected, str(term)


def test_ranges_lose_a_variable_on_one_side_first() -> None:
    """What is left of the other side still shrinks to the loop's own range."""
    i, j = Var("i", 0, 20), Var("j", 0, 40)
    outer = For(i, as_term(0), as_term(10), "serial", Seq(()))
    inner = For(j, as_term(0), as_term(i) + 1, "serial", Seq(()))
    assert term_range(as_term(j), [outer, inner]) == (0, 9)
    assert term_range(as_term(j) * -1, [outer, inner]) == (-9, 0)


def test_boxes_are_clipped_only_where_loops_do_not_keep_them_inside() -> None:
    func = parse_func("""func f(x: arena int8[9], y: arena int8[9]) {
      for i[0..9] in 2..5 { y[i] = x[i - 2] y[i] = x[i + 4] y[i] = x[i + 5] } }""")
    loop, _ = find_loop(func, "i")
    boxes = [region(buffers_of(func)["x"], stmt, outer=(loop,)) for stmt in loop.body.stmts]
    found = [(str(box.starts[0]), str(box.stops[0])) for box in boxes if box]
    assert found == [("i - 2", "i - 1"), ("i + 4", "i + 5"), ("i + 5", "min(i + 6, 9)")]


def test_spans_are_tight_in_one_period() -> None:
    j = Var("j", 0, 20)
    short = For(j, as_term(8), as_term(12), "serial", Seq(()))
    low, high = span(floor_mod(as_term(j), 6), [short])  # crosses 12 no more: 8..11 mod 6
    assert (low.constant, high.constant) == (2, 5)
    longer = For(j, as_term(8), as_term(13), "serial", Seq(()))
    low, high = span(floor_mod(as_term(j), 6), [longer])
    assert (low.constant, high.constant) == (0, 5)
    low, high = span(floor_div(as_term(j), 6) * -1, [longer])
    assert (low.constant, high.constant) == (-2, -1)


def test_addresses_in_memory_are_row_major() -> None:
    func = parse_func("func f(y: arena int8[2, 3, 4]) { y[1, 2, 3] = 0i8 }")
    (access,) = accesses(func.body)
    assert access.indices is not None
    assert flat_address(access.buffer, access.indices).constant == 23


def test_the_number_of_uses_is_that_of_all_statements() -> None:
    func = parse_func("""func f(x: arena int8[4], y: arena int8[4]) {
      for i in 0..4 { y[i] = x[i] + x[0] }
      y[0] = x[1]
    }""")
    x, y = (buffers_of(func)[name] for name in "xy")
    assert (count_uses(func.body, x), count_uses(func.body, y)) == (3, 2)
    assert (count_writes(func.body, x), count_writes(func.body, y)) == (0, 2)

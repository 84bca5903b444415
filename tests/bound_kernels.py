"""Kernels of bound loops with barriers between what threads exchange, as text."""

from __future__ import annotations

from dataclasses import replace

from edgec.loop.ir import PrimFunc, Sync
from edgec.loop.rewrite import ReplaceStmts, walk

REVERSED = """
func reversed(x: arena int32[3, 40], y: arena int32[3, 40]) {
  alloc t: shared int32[40]
  block_x for i in 0..3 {
    thread_x for j in 0..40 { t[j] = x[i, j] }
    sync block
    thread_x for k in 0..40 { y[i, k] = t[39 - k] + 1 }
  }
}
"""
#: Two rounds through one piece of shared memory: each barrier keeps one pair of accesses apart.
ROUNDS = """
func rounds(x: arena int32[2, 8], y: arena int32[2, 8]) {
  alloc t: shared int32[8]
  for r in 0..2 {
    thread_x for j in 0..8 { t[j] = x[r, j] }
    sync block
    thread_x for k in 0..8 { y[r, k] = t[7 - k] }
    sync block
  }
}
"""
#: What a warp exchanges needs a barrier of the warp alone; what blocks exchange, one of the grid.
WARP = REVERSED.replace("40", "32").replace("39", "31").replace("sync block", "sync warp")
GRID = """
func turned(x: arena int32[4, 8], t: scratch int32[4, 8], y: arena int32[4, 8]) {
  block_x for i in 0..4 { thread_x for j in 0..8 { t[i, j] = x[i, j] * 2 } }
  sync grid
  block_x for m in 0..4 { thread_x for n in 0..8 { y[m, n] = t[3 - m, n] } }
}
"""


def without(func: PrimFunc, barrier: Sync) -> PrimFunc:
    return replace(func, body=ReplaceStmts([(barrier, None)]).stmt(func.body))


def barriers(func: PrimFunc) -> list[Sync]:
    return [stmt for stmt, _ in walk(func.body) if isinstance(stmt, Sync)]

"""Schedule primitives: each takes a PrimFunc and gives a new one that means the same.

One file per family. A primitive is a pure function `name(func, ...) -> (func, result)`; the
methods of `edgec.loop.schedule.Schedule` record its use. One that does not apply raises
ScheduleError and says why.
"""

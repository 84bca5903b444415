"""Schedule primitives: each takes a PrimFunc and returns a new one with the same meaning.

One file per family. A primitive is a pure function `name(func, ...) -> (func, result)`; the methods
of `edgec.loop.schedule.Schedule` record its use. A primitive that does not apply raises
ScheduleError with the reason.
"""

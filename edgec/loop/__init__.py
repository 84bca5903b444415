"""The loop IR: index terms, PrimFuncs, schedules, and their interpreter."""

"""The `core` engine: an instruction-exact Cortex-M simulator in a process of its own.

`core.CoreSimulator` is the interface. Unicorn is GPL: only `machine`, which runs in the worker
process, imports it.
"""

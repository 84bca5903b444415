"""The core engine: an instruction-exact Cortex-M core in a child process."""

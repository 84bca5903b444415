"""Engines that run a built model: host, core, qemu, serial."""

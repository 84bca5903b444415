"""RISC-V without vectors: plain loops."""

"""64-bit Arm: NEON, and its products of four int8."""

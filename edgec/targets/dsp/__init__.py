"""The DSP extension of ARMv7E-M and ARMv8-M: pairs of int16 in a register."""

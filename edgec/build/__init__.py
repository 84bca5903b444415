"""Generated C to ELF or library, and what can be measured from it."""

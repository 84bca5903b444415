"""Stage 8: from a project folder to an ELF or a library, and what the ELF costs."""

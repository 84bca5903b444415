"""Stage 8: from a project folder to an ELF or a library, and the ELF's sizes."""

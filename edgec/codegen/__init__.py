"""Stage 7: PrimFuncs and a memory plan become a folder of plain C99."""

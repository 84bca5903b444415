"""x86-64 with vectors: AVX2, and AVX-512 with VNNI."""

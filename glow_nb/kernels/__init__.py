"""Kernel generators: one instruction to Python source text, and the SIMD layer it is written in."""

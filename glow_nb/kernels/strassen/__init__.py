"""Kernels of matrix products by Strassen's algorithm."""

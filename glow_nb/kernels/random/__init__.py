"""Kernels that make random numbers."""

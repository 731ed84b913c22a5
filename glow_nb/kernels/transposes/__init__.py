"""Kernels of transposes."""

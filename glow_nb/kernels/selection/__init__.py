"""Kernels that choose some of many elements."""

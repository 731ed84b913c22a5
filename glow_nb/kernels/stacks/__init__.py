"""Kernels of stacks: loops over memory, and what stands around a head."""

"""Kernels of convolutions and matrix products: their shapes, plans, costs and loops."""

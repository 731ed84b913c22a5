"""Kernels of convolutions in Winograd's form."""

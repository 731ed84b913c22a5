"""Kernels that make one number of many: sums, extremes, norms, determinants."""

"""The SIMD layer: the numba intrinsics that kernels are written in, for vectors of any width."""

"""What the source of kernels calls: vectors, tiles and mathematics as numba intrinsics.

It imports `base`, `numerics` and `scheduling`.
"""

"""The kernels of the cpu: one generator of source for each kind of instruction.

It imports `fuse` and what stands below that, and never `simd`, which its source calls.
"""

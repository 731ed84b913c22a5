"""The kernel of fast Fourier transforms: radix passes over real and imaginary parts in scratch.

It imports what writes kernels, and the mathematics of :mod:`glow_nb.numerics.fourier`.
"""

"""Algorithms as mathematics: transforms of Winograd and Strassen, random numbers, coefficients.

It imports `base` alone.
"""

"""Orders and costs of abstract steps, and how threads share two loops.

It imports `base` alone.
"""

"""Processes, processor cores, caches, memory, state and files of the machine that this runs on.

It imports `base` alone.
"""

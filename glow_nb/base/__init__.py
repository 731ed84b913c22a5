"""Errors, types, declarations and text: what every level shares.

It imports nothing of the package.
"""

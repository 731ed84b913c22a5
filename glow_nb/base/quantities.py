"""Numbers with their units, for people."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def scaled(number: float, unit: str = "") -> str:
    """Return *number* with a decimal prefix: ``4.09 G``."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.2f} {prefix}{unit}"
    return f"{number:g} {unit}".rstrip()


def duration(seconds: float) -> str:
    """Return *seconds* with a prefix, four digits: ``97.91 ms``, ``3.204 us``."""
    for prefix, unit in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= unit:
            return f"{seconds / unit:.4g} {prefix}"
    return f"{seconds * 1e6:.4g} us"


def byte_count(size: float) -> str:
    """Return *size* bytes with a binary prefix: ``9.19 MiB``."""
    for prefix, unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= unit:
            return f"{size / unit:.2f} {prefix}"
    return f"{size:.0f} B"

"""A branch for vectors that need other code than almost all do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glow_nb.simd.lanes import Lanes


def unless(
    is_rare: Lanes, usual: Sequence[Lanes], compute: Callable[[], Sequence[Lanes]]
) -> list[Lanes]:
    """Return *usual*, or what *compute* gives instead of it if any lane of *is_rare* is true."""
    builder = is_rare.builder
    condition = is_rare.reduce(lambda left, right: left | right)
    before = builder.block
    with builder.if_then(condition, likely=False):
        computed = compute()
        inside = builder.block
    merged = []
    for normal, other in zip(usual, computed, strict=True):
        phi = builder.phi(normal.value.type)
        phi.add_incoming(normal.value, before)
        phi.add_incoming(other.value, inside)
        merged.append(normal.like(phi))
    return merged

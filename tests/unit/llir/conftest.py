"""What tests of the program level share."""

from __future__ import annotations

import pytest

from glow_nb.llir import overlaps
from glow_nb.llir.program import Buffer
from glow_nb.llir.verify import may_overlap


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Buffer, Buffer]]:
    """Return the pairs of windows that an index compares while the test runs."""
    pairs: list[tuple[Buffer, Buffer]] = []

    def counting(left: Buffer, right: Buffer) -> bool:
        pairs.append((left, right))
        return may_overlap(left, right)

    monkeypatch.setattr(overlaps, "may_overlap", counting)
    return pairs

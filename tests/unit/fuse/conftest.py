"""A graph that begins with an image of eight channels."""

from __future__ import annotations

import pytest

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value


@pytest.fixture
def b() -> Builder:
    return Builder()


@pytest.fixture
def x(b: Builder) -> Value:
    return b.input("x", "float32<1 x 4 x 4 x 8>")

"""What tests of own operators share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from glow_nb.formats.onnx.exporter.registry import EXPORTS
from glow_nb.formats.onnx.importer.registry import OWN, RULES
from glow_nb.hlir.graph import NODES


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """Leave no rule behind: other tests of this process look at all of them."""
    tables: Sequence[dict[Any, Any]] = (NODES, EXPORTS, RULES)
    known = [set(table) for table in tables]
    yield
    for table, before in zip(tables, known, strict=True):
        for key in set(table) - before:
            del table[key]
    OWN.clear()

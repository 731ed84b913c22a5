"""The precision of networks on the disk: part of their key, and of what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import glow_nb
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import found, needs_loader, saved_model

TOO_SHORT = "sums of 4 products are not worth it"


@needs_loader
@pytest.mark.jit
@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({}, []),
        ({"precision": "bfloat16"}, [TOO_SHORT]),
        ({"precision": "bfloat16", "keep": ("*",)}, ["keep='*'"]),
    ],
)
def test_it_is_part_of_the_key_and_kept_with_the_network(
    cache: NetworkCache, tmp_path: Path, options: dict[str, Any], reasons: list[str]
) -> None:
    path = saved_model(tmp_path / "a")
    glow_nb.compile(path, threads=1, precision="bfloat16", keep=("product",))
    first = glow_nb.compile(path, threads=1, **options)
    assert not found(first)
    again = glow_nb.compile(path, threads=1, **options)
    assert found(again)
    again.save(tmp_path / "net")
    for net in (first, again, glow_nb.load_compiled(tmp_path / "net")):
        assert net.precision.precision == options.get("precision", "float32")
        assert [layer.reason for layer in net.precision] == reasons

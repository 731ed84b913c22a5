"""The plans of well-known networks are as small as the lower bounds published for them."""

from __future__ import annotations

import pytest

from experiments.networks.published import inception_v3, mobilenet_v1, mobilenet_v2
from glow_nb.backends import backend_named
from glow_nb.hlir.graph import Function
from glow_nb.network import compilation as compiler
from tests.in_turn import in_turn

F = 4  # bytes of a float32
LARGEST_PAIRS = {
    mobilenet_v1: 112 * 112 * (32 + 64) * F,
    mobilenet_v2: (112 * 112 + 56 * 56) * 96 * F,
    inception_v3: 147 * 147 * (32 + 64) * F,
}
"""Bytes of the largest layer's operand and result: 4.594, 5.742 and 7.914 MiB, the lower bounds of
Pisarchyk & Lee (arXiv 2001.03288)."""


@pytest.mark.parametrize(("make", "backend"), in_turn(LARGEST_PAIRS, ["cpu", "interpreter"]))
def test_the_arena_is_no_larger_than_the_published_bound(make: object, backend: str) -> None:
    assert callable(make)
    function = make()
    assert isinstance(function, Function)
    target = backend_named(backend)
    arena = compiler.build_program(compiler.lower_for(function, target), target).arena
    assert arena is not None
    assert arena.size_bytes <= LARGEST_PAIRS[make]

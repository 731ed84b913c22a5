"""Bundles of drawn functions with open sizes compute what runs in Python do, from such memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.size import Symbol
from glow_nb.bundle.codes import NO_SUCH_SIZE, OTHER_SIZES
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.order_placement import placed_for
from glow_nb.network.network import CompiledNetwork
from tests.property.test_open_sizes import STEPS, Step, function_of
from tests.unit.bundle.bundles import LoadedOpenBundle, bundle_of, needs_elf

SIZES = st.tuples(st.integers(3, 12), st.integers(3, 80))


@needs_elf
@pytest.mark.jit
@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(STEPS, min_size=1, max_size=6), st.lists(SIZES, min_size=3, max_size=3))
def test_bundles_of_drawn_functions_run_for_all_sizes(
    steps: list[Step], sets: list[tuple[int, int]]
) -> None:
    batch, length = Symbol("batch", 32, 3, 64), Symbol("length", 64, 3, 512)
    function = function_of(steps, batch.size, length.size)
    net = glow_nb.compile(function, sizes={}, threads=1, specialize_after=None)
    one = net.of_one_program
    assert isinstance(one, CompiledNetwork)
    bundle = LoadedOpenBundle(bundle_of(one))
    assert bundle.measure(batch=2, length=9) == NO_SUCH_SIZE
    for rows, columns in sets:
        sizes = {"batch": rows, "length": columns}
        if not all(guard.holds(sizes) for guard in one.guards):
            assert bundle.measure(**sizes) == OTHER_SIZES
            continue
        x = np.random.default_rng(0).standard_normal((rows, columns, 4)).astype(np.float32)
        bundle.prepare(**sizes)
        found, wanted = bundle.run_open({"x": x}), one.run({"x": x})
        assert found["y"].tobytes() == wanted["y"].tobytes()
        placed = placed_for(one.program, sizes)
        check_placement(placed)
        assert placed.arena is not None
        assert bundle.laid_out()[0] == list(placed.arena.offsets.values())

"""What memory reports say about results that are written over operands."""

from __future__ import annotations

import numpy as np

import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.in_place import Tenancy, peak_of, tenancies

BYTES = 64 * 64 * 4


def network(*, in_place: bool) -> glow_nb.Network:
    """Return ``cumsum(relu(cumsum(x)))``, which takes two values at a time, and more if apart."""
    b = Builder()
    x = b.input("x", "float32<64 x 64>")
    made = b.emit(ops.CumSum(x, 0, exclusive=False, reverse=False))
    b.save(b.emit(ops.CumSum(b.emit(ops.Relu(made)), 0, exclusive=False, reverse=False)), "y")
    passes = ("share_buffers",) if in_place else ("shrink_lifetimes",)
    return glow_nb.compile(b.function(), backend="interpreter", program_pipeline=passes)


def test_the_report_says_what_was_saved() -> None:
    plain, shared = network(in_place=False).memory, network(in_place=True).memory
    assert (plain.lower_bound_bytes, plain.in_place_bytes) == (2 * BYTES, 0)
    assert (shared.lower_bound_bytes, shared.in_place_bytes) == (BYTES, BYTES)
    assert plain.unshared_bytes == shared.unshared_bytes == 2 * BYTES
    assert "less in place" in str(shared)
    assert "less in place" not in str(plain)


def test_one_value_ends_where_the_next_begins() -> None:
    values = tenancies(network(in_place=True).program)
    assert values == [Tenancy(0, 1, BYTES), Tenancy(1, 2, BYTES)]


def test_peak_counts_both_ends() -> None:
    assert peak_of([Tenancy(0, 1, 10), Tenancy(1, 2, 10), Tenancy(3, 4, 10)], alignment=1) == 20
    assert peak_of([Tenancy(0, 0, 1)], alignment=64) == 64
    assert peak_of([], alignment=64) == 0


def test_numbers_stay() -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    left, right = network(in_place=True).run(x)["y"], network(in_place=False).run(x)["y"]
    np.testing.assert_array_equal(left, right)

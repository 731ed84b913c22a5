"""The experiment that measures shares of the caches."""

import pytest

from experiments.benchmarks.cache_shares import (
    LAYERS,
    PRODUCTS,
    SHARES,
    convolution,
    planned_with,
    product,
)
from glow_nb.kernels.machine.rows import ZEN3
from glow_nb.kernels.products import caches
from glow_nb.kernels.target import Target


def test_the_shares_of_today_come_first() -> None:
    assert SHARES[0] == (ZEN3.l1_share, ZEN3.l2_share)


def test_other_shares_are_taken_back_whatever_happens() -> None:
    today = caches.LONGEST_CHAIN
    with pytest.raises(ZeroDivisionError), planned_with(Target.of(ZEN3), (2.0, 0.25)) as target:
        assert (target.machine.l1_share, target.machine.l2_share) == (2.0, 0.25)
        assert 2 * today == caches.LONGEST_CHAIN
        raise ZeroDivisionError
    assert today == caches.LONGEST_CHAIN


def test_layers_and_products_have_the_sizes_that_they_say() -> None:
    for size, _, depth, _, stride in LAYERS:
        out = -(-size // stride)
        made = convolution(*next(s for s in LAYERS if s[0] == size and s[2] == depth))
        assert made.type.shape == (1, out, out, depth)
    for rows, inner, columns in PRODUCTS:
        assert product(rows, inner, columns).type.shape == (rows, columns)

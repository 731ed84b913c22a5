"""Users whose inputs come in many sizes are told once what that costs and what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, GlowWarning
from glow_nb.network.network import Network
from tests.unit.formats.onnx.importer.models import one, value


def network(max_variants: int = 16) -> Network:
    proto = one("Relu", inputs=[value("x", ("batch", 3))])
    return glow_nb.compile(proto, backend="interpreter", sizes="each", max_variants=max_variants)


def told(net: Network, *sizes: int) -> list[str]:
    """Return the warnings of runs with these sizes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in sizes:
            net.run(np.zeros((size, 3), np.float32))
    assert all(warning.category is GlowWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


def test_the_fourth_set_of_sizes_is_told_once() -> None:
    net = network()
    assert not told(net, 1, 2, 3, 1, 2, 3)
    (message,) = told(net, 4, 5, 6, 1, 4)
    assert message.startswith("sizes batch = 4: the set number 4 that this network is compiled for")
    assert "pad inputs to a few sizes" in message
    assert "net.prepare(shapes)" in message
    assert told(network(), 1, 2, 3, 4)  # each network for itself


def test_sizes_that_were_dropped_and_come_again_are_told_once() -> None:
    net = network(max_variants=1)
    assert not told(net, 1, 2)
    (message,) = told(net, 1, 2, 1)
    assert message.startswith(
        "sizes batch = 1: they are compiled again, since a network keeps the 1"
    )
    assert "larger max_variants" in message


def test_prepared_sizes_are_not_counted() -> None:
    net = network()
    for future in [net.prepare({"batch": size}) for size in range(1, 8)]:
        future.result()
    assert not told(net, 1, 2, 3, 4, 5, 8, 9, 10)
    assert len(told(net, 11)) == 1


def test_feeds_that_are_refused_are_not_counted() -> None:
    net = network()
    for size in range(5):
        with pytest.raises(FeedError):
            net.run(np.zeros((size, 4), np.float32))
    assert not told(net, 1, 2, 3)


def test_the_docs_have_the_example_that_the_warning_names() -> None:
    (message,) = told(network(), 1, 2, 3, 4)
    assert "docs/howto/open_sizes.md" in message

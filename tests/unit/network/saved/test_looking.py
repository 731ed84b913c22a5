"""Networks that are found in the cache are looked into as those that were compiled here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import X, dense_model, expected, found, needs_loader

pytestmark = [needs_loader, pytest.mark.jit]


@pytest.mark.parametrize("given", ["path", "bytes"])
def test_values_are_watched(cache: NetworkCache, tmp_path: Path, given: str) -> None:
    content = dense_model().SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    graph = path if given == "path" else content
    for is_found in (False, True):
        net = glow_nb.compile(graph, threads=1)
        assert found(net) == is_found
        values = net.run(X, watch=["sum"])
        np.testing.assert_allclose(np.maximum(values["sum"], 0), expected(), rtol=1e-5, atol=1e-6)
        assert (values["sum"] < 0).any()


def test_values_are_watched_at_open_sizes(cache: NetworkCache, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(dense_model(rows="rows").SerializeToString())
    for is_found in (False, True):
        net = glow_nb.compile(path, threads=1, sizes="each")
        assert isinstance(net, glow_nb.DynamicNetwork) and net.threads == 1
        values = net.run(X, watch=["sum"])
        np.testing.assert_allclose(np.maximum(values["sum"], 0), expected(), rtol=1e-5, atol=1e-6)
        assert found(net.variants[0]) == is_found


def test_finite_numbers_are_checked(cache: NetworkCache, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(dense_model().SerializeToString())
    assert not found(glow_nb.compile(path, threads=1))
    net = glow_nb.compile(path, threads=1, check_finite=True)
    assert found(net)
    np.testing.assert_allclose(net.run(X)["y"], expected(), rtol=1e-5, atol=1e-6)
    huge = np.full_like(X, 3e38)
    with pytest.raises(glow_nb.NonFiniteError, match="kernel 0") as caught:
        net.run(huge)
    assert "product" in caught.value.operators
    np.testing.assert_array_equal(caught.value.outputs["y"], glow_nb.compile(path).run(huge)["y"])

"""Programs for all sizes are kept in the cache, and found without the model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb.base.errors import CompileError, FeedError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.open_model import OpenModel
from glow_nb.network.saved import writing
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import (
    cut_model,
    expected,
    found,
    needs_loader,
    saved_model,
    wait_for_writers,
)

pytestmark = needs_loader

ASKED: list[dict[str, Any]] = [{}, {"sizes": {"n": (1, 64)}}]
"""A program when the first arrays come, and one that is asked for."""


def rows(count: int) -> Array:
    return np.linspace(-2, 2, 4 * count, dtype=np.float32).reshape(count, 4)


def compiled(path: Path, **options: Any) -> DynamicNetwork:
    net = glow_nb.compile(path, threads=1, **options)
    assert isinstance(net, DynamicNetwork)
    return net


def fits(net: DynamicNetwork, *counts: int) -> bool:
    """Return whether *net* is right for so many rows; wait until it is kept."""
    ys = {count: net.run({"x": rows(count)})["y"] for count in counts}
    wait_for_writers()
    return all(np.allclose(y, expected(0, rows(n)), 1e-5, 1e-6) for n, y in ys.items())


@pytest.mark.parametrize("asked", ASKED)
def test_one_program_is_found_for_all_sizes(
    cache: NetworkCache, tmp_path: Path, asked: dict[str, Any]
) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    first = compiled(path, **asked)
    assert fits(first, 3, 60) and [found(one) for one in first.variants] == [False]
    again = compiled(path, **asked)
    assert fits(again, 5, 64, 1) and [found(one) for one in again.variants] == [True]
    assert len(cache.kept()) == 1
    assert (again.inputs, again.outputs) == (first.inputs, first.outputs)
    assert repr(again) == repr(first) and again.value_names == first.value_names
    assert again.variants[0].guards == first.variants[0].guards
    assert str(again.program) == str(first.program) and again.source == first.source
    if asked:
        with pytest.raises(FeedError, match=r"says 65, which is outside its range 1\.\.64"):
            again.run(rows(65))
    assert set(again.run(rows(2), watch=["sum"])) == {"y", "sum"}


def test_what_is_said_of_sizes_is_part_of_the_key(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    options: list[dict[str, Any]] = [{"sizes": {"n": (1, 64)}}, {"hints": {"n": 8}}]
    for is_found in (False, True):
        for each in options:
            net = compiled(path, **each)
            assert fits(net, 3) and found(net.variants[0]) == is_found
    assert len(cache.kept()) == 2
    later = compiled(path, **options[0], specialize_after=None)  # which is no other program
    assert found(later.variants[0])


def test_programs_for_sizes_beyond_guards_are_found(cache: NetworkCache, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    onnx.save_model(cut_model(), path)
    for is_found in (False, True):
        net = compiled(path, hints={"n": 32})
        for count in (30, 5, 31, 6):
            wanted = np.repeat(rows(count)[-10:].sum(1, keepdims=True), 24, axis=1)
            np.testing.assert_allclose(net.run(rows(count))["y"], wanted, rtol=1e-5, atol=1e-5)
        wait_for_writers()
        assert [found(one) for one in net.variants] == [is_found] * 2
    few = compiled(path, hints={"n": 32})
    assert few.run(rows(3))["y"].shape == (3, 24)  # by the second program, after the first one
    assert [found(one) for one in few.variants] == [True, True]


def test_single_sizes_are_found_beside_the_program_for_all(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    net = compiled(path, sizes={"n": (1, 64)})
    assert not found(net.prepare({"n": 7}).result())
    again = compiled(path, sizes={"n": (1, 64)})
    own = again.prepare({"n": 7}).result()
    assert found(own) and again.variants[1:] == (own,) and fits(again, 7, 8)


def test_large_constants_lie_on_the_disk_once(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LARGE_BYTES", 64)
    path = saved_model(tmp_path / "a", rows="n")
    net = compiled(path, sizes={"n": (1, 64)})
    wait_for_writers()
    net.prepare({"n": 7}).result()
    wait_for_writers()
    files = [next(one.path.glob("constants-*.bin")) for one in cache.kept()]
    assert len(files) == 2 and files[0].samefile(files[1])
    again = compiled(path, sizes={"n": (1, 64)})
    assert found(again.prepare({"n": 7}).result()) and fits(again, 7, 8)
    files[0].write_bytes(bytes(files[0].stat().st_size))  # which damages both
    last = compiled(path, sizes={"n": (1, 64)})
    assert fits(last, 7, 8) and not found(last.variants[0])
    assert found(compiled(path, sizes={"n": (1, 64)}).variants[0])


def test_views_of_a_program_that_was_removed_are_made_again(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    first = compiled(path)
    assert fits(first, 24)
    net = compiled(path)
    assert fits(net, 3)
    cache.clear()
    assert str(net.program) == str(first.program) and "like 24" in str(net.program)
    assert fits(net, 24, 2)


def test_a_program_of_another_model_is_not_found(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", rows="n", external="w.bin")
    assert fits(compiled(path), 3)
    other = saved_model(tmp_path / "b", 2, rows="n", external="w.bin").parent / "w.bin"
    os.replace(other, path.parent / "w.bin")
    net = compiled(path)
    assert not fits(net, 3) and not found(net.variants[0])


def test_that_no_program_is_for_all_sizes_is_tried_once(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(model: OpenModel) -> None:
        tried.append(model)
        raise UnsupportedError("an operator has no kernel for open sizes")

    monkeypatch.setattr(OpenModel, "function", refuse)
    path = saved_model(tmp_path / "a", rows="n")
    for is_found in (False, True):
        net = compiled(path)
        assert fits(net, 3, 5) and [found(one) for one in net.variants] == [is_found] * 2
        assert [(one.name, one.size) for one in net.specialized] == [("n", 3)]
        assert "no kernel for open sizes" in net.specialized[0].reason
    assert len(tried) == 1


def test_a_compiler_that_was_killed_is_no_refusal_for_other_processes(
    cache: NetworkCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_killed(model: OpenModel) -> None:
        raise CompileError("the worker that compiled it ended with status -9")

    path = saved_model(tmp_path / "a", rows="n")
    with monkeypatch.context() as patched:
        patched.setattr(OpenModel, "function", be_killed)
        net = compiled(path)
        assert fits(net, 3, 5) and fits(net, 3, 5) and len(net.specialized) == 1
    assert compiled(path).specialized == ()


def test_a_damaged_program_is_compiled_again(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    assert fits(compiled(path), 3)
    (network,) = cache.kept()
    (network.path / "network.json").write_text("{}")
    net = compiled(path)
    assert fits(net, 3, 4) and not found(net.variants[0])
    again = compiled(path)
    assert fits(again, 3) and found(again.variants[0])


GRAPH = """state %total : float32<4> = splat 1.0
func @count<n in 1..64 like 4>(%x : float32<n x 4>) -> (%y : float32<n x 4>, %t : float32<4>) {
  %tanh = tanh(%x) : float32<n x 4>
  %twice = add(%total, %total) : float32<4>
  %y_save = save(%tanh, %y)
  %t_save = save(%twice, %t)
  %total_save = save(%twice, %total)
}
"""


def test_graphs_with_open_sizes_are_found_and_share_a_state(
    cache: NetworkCache, tmp_path: Path
) -> None:
    (tmp_path / "net.glow").write_text(GRAPH)
    for is_found in (False, True):
        net = compiled(tmp_path / "net.glow")
        net.run(rows(3))
        own = net.prepare({"n": 5}).result()
        for count, total in ((5, 4), (6, 8)):
            np.testing.assert_array_equal(net.run(rows(count))["t"], np.full(4, total, np.float32))
        np.testing.assert_array_equal(net.state["total"], np.full(4, 8, np.float32))
        wait_for_writers()
        assert found(net.variants[0]) == found(own) == is_found
    again = compiled(tmp_path / "net.glow")
    again.run(rows(3))
    cache.clear()
    own = again.prepare({"n": 7}).result()  # which reads the graph
    np.testing.assert_array_equal(own.run(rows(7))["t"], np.full(4, 4, np.float32))

"""Networks that leave sizes open are kept for each set of sizes, and found without the model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.cache import NetworkCache
from tests.unit.network.saved.models import (
    close,
    dense_model,
    expected,
    found,
    needs_loader,
    saved_model,
    wait_for_writers,
)

pytestmark = needs_loader


def rows(count: int) -> Array:
    return np.linspace(-2, 2, 4 * count, dtype=np.float32).reshape(count, 4)


def fits(net: glow_nb.Network, count: int, seed: int = 0) -> bool:
    """Return whether *net* is right for so many rows; wait until that is kept."""
    y = net.run({"x": rows(count)})["y"]
    wait_for_writers()
    return bool(np.allclose(y, expected(seed, rows(count)), rtol=1e-5, atol=1e-6))


def hits(net: glow_nb.Network) -> list[bool]:
    """Return of each set of sizes, in the order of their use, whether it was found."""
    assert isinstance(net, DynamicNetwork)
    return [found(network) for network in net.variants]


def test_each_set_of_sizes_is_found(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    first = glow_nb.compile(path, threads=1, sizes="each")
    assert fits(first, 3) and hits(first) == [False]
    again = glow_nb.compile(path, threads=1, sizes="each")
    assert isinstance(first, DynamicNetwork) and isinstance(again, DynamicNetwork)
    assert (again.inputs, again.defaults, again.outputs) == (
        first.inputs,
        first.defaults,
        first.outputs,
    )
    assert repr(again) == repr(glow_nb.compile(path, threads=1, sizes="each", cache=False))
    assert fits(again, 3) and fits(again, 2) and hits(again) == [True, False]
    assert fits(first, 2) and hits(first) == [False, True]
    assert str(again.pipeline) == str(first.pipeline)
    assert again.variants[0].sizes == "n = 3"
    assert str(again.variants[0].program) == str(first.variants[0].program)
    assert found(again.prepare({"n": 3}).result())
    with pytest.raises(glow_nb.FeedError, match="input 'x'"):
        again.run({"x": np.zeros((2, 5), np.float32)})
    with pytest.raises(glow_nb.OptionError, match="'m'"):
        again.prepare({"m": 3})


def test_data_that_change_before_the_first_sizes_are_kept_are_told_apart(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", 1, rows="n", external="w.bin")
    old, data = glow_nb.compile(path, threads=1, sizes="each"), path.parent / "w.bin"
    other = saved_model(tmp_path / "b", 2, rows="n", external="w.bin").parent / "w.bin"
    os.replace(other, data)
    assert np.any(old.run({"x": rows(2)})["y"])
    wait_for_writers()
    assert hits(glow_nb.compile(path, threads=1, sizes="each")) == [] and not cache.kept()


def test_sizes_of_another_model_are_not_found(cache: NetworkCache, tmp_path: Path) -> None:
    path = tmp_path / "a" / "model.onnx"
    for seed, is_found in ((1, False), (2, False), (1, True)):
        saved_model(path.parent, seed, rows="n", external="w.bin")
        net = glow_nb.compile(path, threads=1, sizes="each")
        assert fits(net, 2, seed) and hits(net) == [is_found]
    found_again = glow_nb.compile(path, threads=1, sizes="each")
    saved_model(path.parent, 3, rows="n", external="w.bin")
    assert fits(found_again, 2, 1) and hits(found_again) == [True]
    with pytest.raises(glow_nb.ModelError, match="was changed since the network was found"):
        found_again.run({"x": rows(5)})


def test_feeds_in_place_of_defaults_are_found(cache: NetworkCache, tmp_path: Path) -> None:
    model = dense_model(1)
    model.graph.input.append(onnx.helper.make_tensor_value_info("b", 1, [24]))
    onnx.save_model(model, tmp_path / "model.onnx")
    feeds = {"x": rows(2), "b": np.zeros(24, np.float32)}
    ys = []
    for _ in range(2):
        net = glow_nb.compile(tmp_path / "model.onnx", threads=1)
        assert isinstance(net, CompiledNetwork)
        ys.append(net.run(feeds)["y"])
        wait_for_writers()
    np.testing.assert_array_equal(ys[0], ys[1])
    assert len(cache.kept()) == 2


def test_a_damaged_note_is_none(cache: NetworkCache, tmp_path: Path) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    assert fits(glow_nb.compile(path, threads=1, sizes="each"), 3)
    assert cache.folder is not None
    (note,) = cache.folder.glob("*.note")
    content = note.read_text()
    for damaged in (content.replace('"x"', '"z"'), content[:50], "", "[]"):
        note.write_text(damaged)
        net = glow_nb.compile(path, threads=1, sizes="each")
        assert net.inputs.keys() == {"x"} and fits(net, 3) and hits(net) == [True]


def test_views_of_sizes_that_were_removed_are_made_again(
    cache: NetworkCache, tmp_path: Path
) -> None:
    path = saved_model(tmp_path / "a", rows="n")
    first = glow_nb.compile(path, threads=1, sizes="each")
    assert fits(first, 3)
    net = glow_nb.compile(path, threads=1, sizes="each")
    assert fits(net, 3) and hits(net) == [True]
    cache.clear()
    assert cache.folder is not None and not list(cache.folder.iterdir())
    assert str(net.program) == str(first.program)
    assert fits(net, 3)


def text_of(path: Path, seed: int = 0) -> Path:
    glow_nb.save_text(glow_nb.load(dense_model(seed)), path)
    return path


def test_text_is_found_with_its_constants(cache: NetworkCache, tmp_path: Path) -> None:
    seen = []
    for seed in (1, 2, 1):
        net = glow_nb.compile(text_of(tmp_path / "net.glow", seed), threads=1)
        assert close(net, seed)
        seen.append(found(net))
    assert seen == [False, False, True]
    assert (tmp_path / "net.npz").is_file()


def test_programs_and_text_itself_are_found(cache: NetworkCache, tmp_path: Path) -> None:
    net = glow_nb.compile(dense_model(), threads=1)
    glow_nb.save_text(net.program, tmp_path / "program.glow")
    text = "func @main(%x : float32<2>) -> (%y : float32<2>) {\n  %y_save = save(%x, %y)\n}\n"
    x = rows(1)[0, :2]
    for is_hit in (False, True):
        net = glow_nb.compile(tmp_path / "program.glow", threads=1)
        copy = glow_nb.compile(text, threads=1)
        assert close(net, 0) and (copy.run({"x": x})["y"] == x).all()
        assert found(net) == found(copy) == is_hit
        assert net.function is None
    assert len(cache.kept()) == 2


STATES = """state %count : float32<2> = splat 1.0
func @step(%x : float32<2>) -> (%y : float32<2>) {
  %sum = add(%count, %x) : float32<2>
  %y_save = save(%sum, %y)
  %count_save = save(%sum, %count)
}

func @read() -> (%y : float32<2>) {
  %tanh = tanh(%count) : float32<2>
  %y_save = save(%tanh, %y)
}
"""


def test_functions_of_one_state_are_found_as_they_begin(
    cache: NetworkCache, tmp_path: Path
) -> None:
    (tmp_path / "net.glow").write_text(STATES)
    one = np.ones(2, np.float32)
    for is_hit in (False, True):
        net = glow_nb.compile(tmp_path / "net.glow", threads=1)
        assert list(net) == ["step", "read"] and found(net["read"]) == is_hit
        np.testing.assert_array_equal(net.state["count"], one)
        np.testing.assert_array_equal(net["step"].run({"x": one})["y"], 2 * one)
        np.testing.assert_allclose(net["read"].run({})["y"], np.tanh(2 * one), rtol=1e-6)
        shared = glow_nb.compile(tmp_path / "net.glow", threads=1, state=net.state)
        np.testing.assert_array_equal(shared["step"].run({"x": one})["y"], 3 * one)
        np.testing.assert_array_equal(net.state["count"], 3 * one)


def test_data_beside_a_link_are_those_of_the_link(cache: NetworkCache, tmp_path: Path) -> None:
    """The data of a model that is a link lie beside the link, or where the file is."""
    path = saved_model(tmp_path / "a", 1, external="w.bin")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "model.onnx").symlink_to(path)
    assert not found(glow_nb.compile(path, threads=1))
    assert found(glow_nb.compile(tmp_path / "b" / "model.onnx", threads=1))
    other = saved_model(tmp_path / "c", 2, external="w.bin").with_name("w.bin")
    other.rename(tmp_path / "b" / "w.bin")
    net = glow_nb.compile(tmp_path / "b" / "model.onnx", threads=1)
    assert not found(net)
    plain = glow_nb.compile(tmp_path / "b" / "model.onnx", threads=1, cache=False)
    x = rows(2)
    np.testing.assert_array_equal(net.run({"x": x})["y"], plain.run({"x": x})["y"])

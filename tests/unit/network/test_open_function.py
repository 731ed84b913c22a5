"""Networks of graphs whose sizes are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_module

TEXT = """\
constant %w : float32<4 x 2> = splat 0.5
func @main<batch in 1..64 like 8, length in 1..512 like 128>(%x : float32<batch x length x 4>)\
 -> (%y : float32<batch*length x 2>) {
  %flat = reshape(%x) {shape = [batch*length, 4]} : float32<batch*length x 4>
  %fc = mat_mul(%flat, %w) : float32<batch*length x 2>
  %y_save = save(%fc, %y)
}
"""


def test_a_network_of_a_graph_with_open_sizes_takes_those_that_come() -> None:
    network = glow_nb.compile(TEXT, backend="interpreter", sizes="each")
    for batch, length in ((1, 1), (3, 5)):
        x = np.ones((batch, length, 4), np.float32)
        assert np.array_equal(network.run(x)["y"], np.full((batch * length, 2), 2.0))
    assert [str(type) for type in network.outputs.values()] == ["float32<batch*length x 2>"]
    assert isinstance(network, glow_nb.DynamicNetwork)
    assert [variant.sizes for variant in network.variants] == [
        "batch = 1, length = 1",
        "batch = 3, length = 5",
    ]


def test_sizes_are_prepared_by_name_and_values_watched() -> None:
    network = glow_nb.compile(TEXT, backend="interpreter")
    prepared = network.prepare({"batch": 2, "length": 3}).result()
    assert prepared.outputs["y"].shape == (6, 2)
    found = network.run(np.ones((2, 3, 4), np.float32), watch=["flat"])
    assert found["flat"].shape == (6, 4)


def test_a_graph_with_open_sizes_is_loaded_for_given_ones() -> None:
    for shapes in ({"batch": 2, "length": 3}, {"x": (2, 3, 4)}):
        loaded = glow_nb.load(TEXT, shapes=shapes)
        assert [str(value.type) for value in loaded.outputs] == ["float32<6 x 2>"]
    assert str(glow_nb.load(TEXT)) == TEXT.rstrip()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"batch": 2}, "size 'length' is not given"),
        ({"batch": 2, "length": 600}, r"600 is outside its range 1\.\.512"),
        ({"z": (2, 3)}, "it has no input 'z'"),
        ({"x": (2, 3, 4), "bach": 2}, "it has no size 'bach'; did you mean 'batch'"),
    ],
)
def test_sizes_that_do_not_fit_the_graph_are_refused(
    shapes: dict[str, int | tuple[int, ...]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.load(TEXT, shapes=shapes)
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(TEXT, backend="interpreter").prepare(shapes)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 3, 99)}, r"\[2, 3, 99\], but .* is \[2, 3, 4\] for batch = 2, length = 3"),
        ({"x": (2, 3)}, r"\[2, 3\], but .* is \[2, 3, 4\]"),
        ({"x": (2, 3, 4, 5)}, r"\[2, 3, 4, 5\], but .* is \[2, 3, 4\]"),
        ({"x": (2, 3, 4), "batch": 7}, "what is given by name says 7, axis 0 of input 'x' says 2"),
        ({"x": (2, 3, 4), "y": (4, 4)}, r"\[4, 4\], but .* is \[4, 5\] for"),
        ({"x": (2, 3, 4), "batch": 99}, "what is given by name says 99, axis 0 of input 'x'"),
    ],
)
def test_whole_shapes_that_do_not_fit_are_refused(
    shapes: dict[str, int | tuple[int, ...]], message: str
) -> None:
    text = TEXT.replace("4>)", "4>, %y : float32<batch*batch x 2*batch + 1>)").replace("%y)", "%z)")
    text = text.replace("(%y :", "(%z :")
    with pytest.raises(FeedError, match=message):
        glow_nb.load(text, shapes=shapes)


def test_a_module_of_open_functions_is_refused() -> None:
    module = parse_module(TEXT + TEXT.partition("\n")[2].replace("@main", "@other"))
    with pytest.raises(
        OptionError, match=r"'main' of .*: its sizes \['batch', 'length'\] are open"
    ):
        glow_nb.compile(module, backend="interpreter")


def test_a_size_of_no_input_is_given_by_name() -> None:
    text = """\
func @main<n, m>(%x : float32<n x 1>) -> (%y : float32<n x m>) {
  %r = broadcast(%x) {shape = [n, m]} : float32<n x m>
  %s = save(%r, %y)
}
"""
    net = glow_nb.compile(text, backend="interpreter")
    message = "size 'm': the shapes of the inputs do not determine it; give"
    with pytest.raises(FeedError, match=message):
        net.run({"x": np.zeros((2, 1), np.float32)})
    given = glow_nb.compile(text, backend="interpreter", shapes={"n": 2, "m": 3})
    assert given.run({"x": np.ones((2, 1), np.float32)})["y"].shape == (2, 3)


def test_all_sizes_share_a_state() -> None:
    text = """\
state %sum : float32<1> = splat 0.0
func @main<n>(%x : float32<n>) -> (%y : float32<1>) {
  %part = reduce_sum(%x) {axes = [0], keep_dims = true} : float32<1>
  %all = add(%part, %sum) : float32<1>
  %y_save = save(%all, %y)
  %next = save(%all, %sum)
}
"""
    net = glow_nb.compile(text, backend="interpreter")
    found = [net.run({"x": np.ones(n, np.float32)})["y"].tolist() for n in (2, 3, 2)]
    assert found == [[2], [5], [7]]
    assert net.state["sum"].tolist() == [7]


@pytest.mark.parametrize(
    "shapes", [{"x": (4, 3), "m": 5}, {"z": (11,), "n": 4}, {"x": (4, 3), "z": (11,)}]
)
def test_whole_shapes_and_sizes_by_name_are_given_together(
    shapes: dict[str, int | tuple[int, ...]],
) -> None:
    text = (
        "func @main<n, m>(%x : float32<n x 3>, %z : float32<2*m + 1>) -> (%y : float32<n x 3>) {\n"
        "  %s = save(%x, %y)\n}\n"
    )
    loaded = glow_nb.load(text, shapes=shapes)
    assert [list(value.type.shape) for value in loaded.inputs] == [[4, 3], [11]]


@pytest.mark.parametrize("more", [{}, {"sizes": {}}, {"sizes": "each"}], ids=str)
def test_sizes_for_which_a_graph_does_not_hold_are_no_defect(more: dict[str, Any]) -> None:
    text = """func @twice<n in 1..64 like 4 where n <= 8>(%x : float32<n x 3>)\
 -> (%y : float32<n x 3>) {
  %add = add(%x, %x) : float32<n x 3>
  %y_save = save(%add, %y)
}"""
    network = glow_nb.compile(text, backend="interpreter", **more)
    function = parse_module(text).functions[0]
    for rows in (9, 3, 12):
        x = np.ones((rows, 3), np.float32)
        if rows <= 8:
            np.testing.assert_array_equal(network.run(x)["y"], 2 * x)
            continue
        with pytest.raises(FeedError, match=rf"n = {rows}: the graph holds only where n <= 8"):
            network.run(x)
        with pytest.raises(FeedError, match=f"n = {rows}"):
            evaluate(function, {"x": x})

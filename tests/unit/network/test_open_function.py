"""Networks of graphs whose sizes are open."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import OptionError

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
    network = glow_nb.compile(TEXT, backend="interpreter")
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
        assert isinstance(loaded, glow_nb.Function)
        assert [str(value.type) for value in loaded.outputs] == ["float32<6 x 2>"]
    assert str(glow_nb.load(TEXT)) == TEXT.rstrip()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"batch": 2}, "size 'length' is not given"),
        ({"batch": 2, "length": 600}, r"600 is outside its range 1\.\.512"),
        ({"z": (2, 3)}, "it has no input 'z'"),
    ],
)
def test_sizes_that_do_not_fit_the_graph_are_refused(
    shapes: dict[str, int | tuple[int, ...]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.load(TEXT, shapes=shapes)

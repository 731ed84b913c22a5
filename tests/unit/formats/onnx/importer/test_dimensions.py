"""Symbolic dimensions are bound by name or by whole shapes, once and without contradiction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import glow_nb
from glow_nb.base.errors import ModelError, OptionError
from glow_nb.formats.onnx.importer import UnboundDimension, import_onnx
from tests.unit.formats.onnx.importer.models import Shape, model, value


def two_inputs(first: Shape, second: Shape) -> Any:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, [value("x", first), value("w", second)])


def shapes_of(proto: Any, **shapes: Any) -> list[tuple[int, ...]]:
    return [i.type.shape for i in import_onnx(proto, shapes=shapes).inputs]


def test_symbol_is_bound_in_all_inputs() -> None:
    assert shapes_of(two_inputs(("n", "k"), ("k", 5)), n=2, k=3) == [(2, 3), (3, 5)]


def test_whole_shape_binds_its_symbols() -> None:
    assert shapes_of(two_inputs(("n", "k"), ("k", 5)), x=(2, 3)) == [(2, 3), (3, 5)]


def test_unknown_rank_needs_a_whole_shape() -> None:
    proto = two_inputs(None, (3, 5))
    with pytest.raises(UnboundDimension) as caught:
        import_onnx(proto)
    assert caught.value.names == ("x",)
    assert caught.value.signature == {"x": None, "w": (3, 5)}
    assert shapes_of(proto, x=(4, 3)) == [(4, 3), (3, 5)]


def test_unbound_symbols_are_all_named_with_the_remedy() -> None:
    with pytest.raises(UnboundDimension) as caught:
        import_onnx(two_inputs(("n", None), ("k", 5)), shapes={"n": 2})
    assert caught.value.names == ("x[1]", "k")
    assert caught.value.signature == {"x": ("n", "x[1]"), "w": ("k", 5)}
    assert str(caught.value) == (
        "<model>: its dimensions ['x[1]', 'k'] have no size (input 'x' is ['n', 'x[1]']; "
        "input 'w' is ['k', 5]); bind them, for example shapes={'x[1]': 1, 'k': 1}"
    )


def test_nameless_dimension_is_bound_by_input_and_place() -> None:
    proto = two_inputs((None, 3), (3, 5))
    assert import_onnx(proto, shapes={"x[0]": 7}).inputs[0].type.shape == (7, 3)


def test_negative_size_counts_as_unknown() -> None:
    proto = two_inputs((-1, 3), (3, 5))
    assert import_onnx(proto, shapes={"x[0]": 7}).inputs[0].type.shape == (7, 3)


@pytest.mark.parametrize("name", ["?", "", "batch size", "N/2", "None", "2", "x.0", "past + 1"])
def test_what_is_no_identifier_names_no_dimension(name: str) -> None:
    proto = two_inputs((name, 3), (3, name))
    assert shapes_of(proto, **{"x[0]": 7, "w[1]": 5}) == [(7, 3), (3, 5)]
    with pytest.raises(UnboundDimension) as caught:
        import_onnx(proto)
    assert caught.value.names == ("x[0]", "w[1]")


def test_feeds_may_have_different_sizes_where_no_identifier_names_them() -> None:
    network = glow_nb.compile(two_inputs(("?", 3), (3, "?")), backend="interpreter")
    feeds = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)}
    assert network.run(feeds)["y"].tolist() == [[3.0] * 4] * 2


@pytest.mark.parametrize("shapes", [{"x": (2, 3), "w": (3, 5), "n": 4}, {"x": (2, 3), "w": (3, 5)}])
def test_whole_shape_wins_over_names(shapes: dict[str, Any]) -> None:
    assert shapes_of(two_inputs(("n", "k"), ("k", "n")), **shapes) == [(2, 3), (3, 5)]


def test_whole_shape_wins_in_open_networks() -> None:
    network = glow_nb.compile(two_inputs(("n", "k"), ("k", "n")), backend="interpreter")
    network.prepare({"x": (2, 3), "w": (3, 5)}).result()
    feeds = {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 5), np.float32)}
    assert network.run(feeds)["y"].shape == (2, 5)


def test_symbol_with_several_sizes_in_whole_shapes_is_open_elsewhere() -> None:
    nodes = [helper.make_node("Sum", ["x", "w"], ["y"]), helper.make_node("Relu", ["v"], ["z"])]
    proto = model(nodes, [value(name, ("n",)) for name in "xwv"], outputs=("y", "z"))
    assert shapes_of(proto, x=(4,), w=(1,), n=2) == [(4,), (1,), (2,)]
    with pytest.raises(UnboundDimension) as caught:
        import_onnx(proto, shapes={"x": (4,), "w": (1,)})
    assert caught.value.names == ("n",)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"m": 2}, "it has no symbolic dimension 'm'; it has ['k', 'n']"),
        ({"bach": 2}, "it has no symbolic dimension 'bach'"),
        ({"z": (2, 3)}, "it has no input 'z'"),
        ({"x": (2, 3, 4)}, "is declared ['n', 'k'], which shape [2, 3, 4] does not fit"),
        ({"w": (3, 6)}, "is declared ['k', 5], which shape [3, 6] does not fit"),
        ({"n": -1}, "dimension 'n' cannot be -1"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, Any], expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        import_onnx(two_inputs(("n", "k"), ("k", 5)), shapes=shapes)
    assert expected in str(caught.value)


ONES = np.ones((3, 5), np.float32)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"w": (3, 5)}, "input 'w' is fixed to float32<3 x 5> by constants=, and shapes= gives it"),
        ({"w": (4, 5)}, "gives it the shape [4, 5]; leave it out of one"),
        ({"m": 5}, "dimension 'm' is one of input 'w' alone, which constants= fixes"),
        ({"b": (5,)}, "'b' is a weight and no input"),
    ],
)
@pytest.mark.parametrize("has_default", [False, True])
def test_sizes_of_what_is_fixed_are_refused(
    has_default: bool, shapes: dict[str, Any], expected: str
) -> None:
    """At import, at load of a model with open sizes, and where these are given later."""
    proto = two_inputs(("n", "k"), ("k", "m"))
    weights = {"b": ONES[0], **({"w": ONES} if has_default else {})}
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    for load in (import_onnx, glow_nb.load):
        with pytest.raises(OptionError) as caught:
            load(proto, shapes=shapes, constants={"w": ONES})
        assert expected in str(caught.value)
    network = glow_nb.compile(proto, constants={"w": ONES}, backend="interpreter")
    with pytest.raises(OptionError) as caught:
        network.prepare(shapes)
    assert expected in str(caught.value)


def test_a_size_that_another_input_has_can_be_given_beside_a_constant() -> None:
    proto = two_inputs(("n", "k"), ("k", "m"))
    function = import_onnx(proto, shapes={"n": 2, "k": 3}, constants={"w": ONES})
    assert [i.type.shape for i in function.inputs] == [(2, 3)]


def test_a_weight_that_is_no_input_cannot_be_fixed() -> None:
    proto = two_inputs((2, 3), (3, 5))
    proto.graph.initializer.append(numpy_helper.from_array(ONES, "b"))
    with pytest.raises(ModelError, match="'b' is a weight and no input"):
        import_onnx(proto, constants={"b": ONES})

"""Recurrent layers and their loops: what they take, and that their forms mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Function, Placeholder
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops import Recurrence, RecurrentLayer, ReduceSum
from glow_nb.hlir.ops.formulas.recurrence.cells import GATES
from glow_nb.hlir.optimize.split_recurrent_layers import split_recurrent_layers

NONE: Any = (None,) * 5


def layer(kind: str, **options: Any) -> tuple[Function, dict[str, Array]]:
    """Return an LSTM of both directions and what to feed it."""
    rng, builder, feeds = np.random.default_rng(0), glow_nb.Builder(), dict[str, Array]()
    shapes = {"x": (4, 3, 2), "w": (2, 16, 2), "r": (2, 16, 4), "b": (2, 32)}
    for name, shape in shapes.items():
        feeds[name] = rng.uniform(-1, 1, shape).astype(ElementKind(kind).dtype)
    x, w, r, b = (builder.input(n, f"{kind}<{' x '.join(map(str, s))}>") for n, s in shapes.items())
    settings = {"cell": "lstm", "direction": "bidirectional", **options}
    node = builder.emit(RecurrentLayer(x, w, r, b, None, None, None, None, **settings))
    for index, result in enumerate(node.results):
        builder.save(result, f"y{index}")
    return builder.function(), feeds


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_forms_of_a_layer_mean_the_same(kind: str) -> None:
    function, feeds = layer(kind)
    wanted = glow_nb.evaluate(function, feeds)
    exact = {"rtol": 1e-5, "atol": 1e-6} if kind == "float32" else {"rtol": 0, "atol": 0}
    exact = {"rtol": 1e-12, "atol": 1e-12} if kind == "float64" else exact
    for form in (split_recurrent_layers(function), lower(function)):
        for name, found in glow_nb.evaluate(form, feeds).items():
            assert found.dtype == wanted[name].dtype
            np.testing.assert_allclose(found, wanted[name], **exact)


def test_layers_of_16_bits_stay_whole() -> None:
    function, _ = layer("float16")
    assert split_recurrent_layers(function) is function


def placed(*shape: int, kind: ElementKind = ElementKind.FLOAT32) -> Placeholder:
    return Placeholder("v", TensorType(kind, shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": -1.0}, "clip is -1.0, but must be positive and finite, or 0"),
        ({"alpha": (1.0,)}, "alpha has 1 items, but the functions of 'lstm' are 3"),
        ({"beta": (1.0, float("inf"), 0.0)}, "must be finite"),
        ({"activations": ("tanh",)}, "activations has 1 items"),
        ({"activations": ("swish",) * 3}, "'activations' must be 'affine', 'elu'"),
        ({"cell": "rnn", "flag": True}, "flag is set, which means nothing for 'rnn'"),
        ({"direction": "forward"}, "'recurrent' is float32<2 x 16 x 4>, but"),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        layer("float32", **options)


def test_input_of_a_layer_without_weights_has_all_gates() -> None:
    options: dict[str, Any] = {"cell": "gru", "direction": "forward"}
    whole = RecurrentLayer(placed(5, 2, 12), None, placed(1, 12, 4), *NONE, **options)
    assert whole.type == TensorType(ElementKind.FLOAT32, (5, 1, 2, 4))
    with pytest.raises(VerifyError, match="without 'weights' must have 12 features"):
        RecurrentLayer(placed(5, 2, 3), None, placed(1, 12, 4), *NONE, **options)


def test_bias_of_a_loop_is_that_of_a_product_that_is_reset() -> None:
    def loop(*, flag: bool) -> Recurrence:
        operands = (placed(5, 2, 1, 12), placed(1, 4, 12), placed(1, 4))
        return Recurrence(*operands, None, None, None, cell="gru", direction="forward", flag=flag)

    assert loop(flag=True).type.shape == (1, 5, 1, 2, 4)
    with pytest.raises(VerifyError, match="only a GRU with flag has it"):
        loop(flag=False)


@pytest.mark.parametrize("cell", GATES)
def test_states_may_have_no_elements(cell: str) -> None:
    builder = glow_nb.Builder()
    types = {"x": "float32<3 x 2 x 4>", "w": "float32<1 x 0 x 4>", "r": "float32<1 x 0 x 0>"}
    x, w, r = (builder.input(name, type) for name, type in types.items())
    options: dict[str, Any] = {"cell": cell, "direction": "forward"}
    layer = builder.emit(RecurrentLayer(x, w, r, *NONE, **options))
    total = builder.emit(ReduceSum(layer.results[0], axes=(0, 1, 2, 3), keep_dims=False))
    builder.save(total, "loss")
    function = builder.function()
    feeds = {v.name: np.ones(v.type.shape, np.float32) for v in function.inputs}
    gradients = glow_nb.differentiate(function, ["x"], "loss")
    for form in (gradients, split_recurrent_layers(gradients), lower(gradients)):
        found = glow_nb.evaluate(form, feeds)
        assert found["loss"] == 0
        np.testing.assert_array_equal(found["d_x"], np.zeros((3, 2, 4)))

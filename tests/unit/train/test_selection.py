"""Which constants are trained."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, ConvertTo, Less, MatMul, Mul, PRelu, Select, Softmax, Sub
from glow_nb.train import MeanSquaredError
from glow_nb.train.selection import select
from tests.unit.train.trainers import POINTS, make

LEFT_OUT = {
    "scale": "one element",
    "mask": "a mask",
    "causal": "a mask",
    "endless": "not finite",
    "limit": "no gradient comes to it",
    "filling": "one element",
}


def attention(batch: int = 2) -> Function:
    """Scores with a scale, masks, a comparison, a slope, and a last layer of one output."""
    b = Builder("attention")

    def constant(name: str, numbers: Any) -> Value:
        return b.constant(name, np.array(numbers, np.float32))

    x = b.input("x", f"float32<{batch} x 4>")
    scores: Value = b.emit(MatMul(x, constant("keys", np.eye(4))))
    scores = b.emit(Mul(scores, constant("scale", [[0.5]])))
    scores = b.emit(Add(scores, constant("mask", [[0, 0, -1e4, 0]])))
    causal = constant("causal", [[1, 1, 0, 1]])
    hidden = b.emit(Sub(b.constant("one", np.ones((1, 1), np.float32), is_weight=False), causal))
    scores = b.emit(Sub(b.emit(Mul(scores, causal)), hidden))
    scores = b.emit(Add(scores, constant("endless", [[0, 0, 0, -np.inf]])))
    shown = b.emit(Less(scores, constant("limit", [[1.0, 2.0, 3.0, 4.0]])))
    scores = b.emit(Select(shown, scores, constant("filling", [[-1.0]])))
    shares = b.emit(PRelu(b.emit(Softmax(scores, 1)), constant("slope", [[0.25]])))
    y: Value = b.emit(MatMul(shares, constant("values", [[1.0], [2.0], [3.0], [4.0]])))
    y = b.emit(Add(y, constant("bias", [[0.0]])))
    b.constant("count", np.array([3], np.int64))
    b.save(y, "y")
    return b.function()


def test_parameters_are_trained_and_other_constants_are_not() -> None:
    found = select(attention(), None, ())
    assert {weight.name for weight in found.weights} == {"keys", "slope", "values", "bias"}
    assert dict(found.left_out) == LEFT_OUT


def test_what_is_named_is_trained() -> None:
    found = select(attention(), ("sc*", "val*", "endless"), ("val*",))
    assert [weight.name for weight in found.weights] == ["scale", "endless"]


def test_constants_that_are_no_weights_can_be_named() -> None:
    b = Builder("scaled")
    factor = b.constant("factor", np.array([[2.0]], np.float32), is_weight=False)
    b.save(b.emit(Mul(b.input("x", "float32<2 x 4>"), factor)), "y")
    with pytest.raises(OptionError, match="it reads no constants of floats"):
        select(b.function(), None, ())
    (weight,) = select(b.function(), ("factor",), ()).weights
    assert weight.name == "factor"


@pytest.mark.parametrize(
    ("trained", "frozen", "message"),
    [
        (("keyz",), (), "trained: 'keyz' fits no weight; did you mean 'keys'"),
        (("places",), (), "trained: 'places' fits no weight.*it is int64<2 x 4>, which is not tr"),
        (None, ("nothing",), "frozen: 'nothing' fits no weight"),
        (("keys",), ("k*",), "all of .* are frozen"),
    ],
)
def test_patterns_that_leave_nothing(trained: Any, frozen: Any, message: str) -> None:
    b = Builder.continuing(attention())
    places = b.constant("places", np.zeros((2, 4), np.int64))
    b.save(b.emit(ConvertTo(places, ElementKind.FLOAT32)), "z")
    with pytest.raises(OptionError, match=message):
        select(b.function(), trained, frozen)


def test_numbers_alone_are_not_trained_unless_they_are_named() -> None:
    b = Builder("number")
    factor = b.constant("factor", np.array([[2.0]], np.float32))
    b.save(b.emit(Mul(b.input("x", "float32<2 x 4>"), factor)), "y")
    with pytest.raises(OptionError, match=r"factor \(one element\); name those .* by trained="):
        select(b.function(), None, ())


def test_the_first_fit_says_what_it_trains(caplog: pytest.LogCaptureFixture) -> None:
    trainer = make(function=attention, loss=MeanSquaredError(), trained=("keys", "bias"))
    data = (POINTS[:4], np.ones((4, 1), np.float32), 2)
    with caplog.at_level(logging.INFO, "glow_nb"):
        trainer.fit(data, 1)
        trainer.fit(data, 1)
    told = [r.getMessage() for r in caplog.records if "training: trains" in r.getMessage()]
    assert told == ["training: trains 2 weights with 17 numbers: keys, bias"]
    assert set(trainer.weights) == {"keys", "bias"}

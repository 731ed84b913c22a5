"""Passes that a trainer leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.hlir.ops import MatMul, Tanh
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.train import SGD, MeanSquaredError, Trainer

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
Y = np.ones((2, 4), np.float32)


def network() -> glow_nb.Function:
    builder = glow_nb.Builder("main")
    weights = builder.constant("w", np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    product = builder.emit(MatMul(builder.input("x", "float32<2 x 3>"), weights))
    builder.save(builder.emit(Tanh(product)), "y")
    return builder.function()


def losses(*without: str) -> list[float]:
    trainer = Trainer(
        network(),
        loss=MeanSquaredError(),
        optimizer=SGD(0.1),
        backend="interpreter",
        without=without,
    )
    return [trainer.step(X, Y) for _ in range(3)]


def test_training_is_the_same_without_a_pass() -> None:
    for name in ("fold_constants", "eliminate_common_nodes", "stack_instructions"):
        assert losses(name) == pytest.approx(losses(), rel=1e-5)


def test_a_pass_that_is_left_out_does_not_run_before_gradients_are_made_either() -> None:
    def gone(function: glow_nb.Function) -> glow_nb.Function:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GRAPH_PASSES.passes, "sink_transposes", gone)
        assert losses("sink_transposes")


def test_a_trainer_refuses_what_is_no_pass() -> None:
    with pytest.raises(OptionError, match="without: no pass 'no_such' would run"):
        losses("no_such")

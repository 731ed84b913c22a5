"""Optimizers: three steps with given gradients, beside PyTorch's in float64."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.train import SGD, Adagrad, Adam, AdamW, Constant, Optimizer, RMSprop, Trainer
from glow_nb.train.sums import total
from tests.unit.train.trainers import POINTS, REGIONS, make

WEIGHT = np.array([0.5, -1.2, 2.0])
GRADIENTS = np.array([[0.3, -2.0, 0.0], [1.5, 0.25, -0.5], [-0.75, 1.0, 4.0]])


def product(builder: Builder, prediction: Value, target: Value) -> Value:
    """A loss whose gradient is the target."""
    return total(Term(builder, prediction) * Term(builder, target)).value


def network(weight: Array = WEIGHT) -> Function:
    """The weight times an input, which is 1."""
    builder = Builder("net")
    input = Term(builder, builder.input("x", f"float64<{weight.size}>"))
    builder.save((input * Term(builder, builder.constant("w", weight))).value, "y")
    return builder.function()


def trained(optimizer: Optimizer, gradients: Array = GRADIENTS) -> Array:
    """Return the weight after steps with *gradients*."""
    trainer = Trainer(network(), loss=product, optimizer=optimizer, backend="interpreter")
    for gradient in gradients:
        trainer.step(np.ones(3), gradient)
    return trainer.weights["w"]


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (SGD(0.1), [0.395, -1.125, 1.65]),
        (SGD(0.1, weight_decay=0.1), [0.3822465, -1.0930888, 1.590098]),
        (SGD(0.1, momentum=0.9), [0.2087, -0.8055, 1.695]),
        (
            SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
            [0.1296627, -0.7622759, 1.3592493],
        ),
        (Adam(0.1), [0.2822728, -1.0315229, 2.0181563]),
        (Adam(0.1, 0.8, 0.95, 1e-3, weight_decay=0.1), [0.2808175, -1.0308709, 1.8651782]),
        (AdamW(0.1, weight_decay=0.1), [0.2702733, -0.9984442, 1.9580102]),
        (RMSprop(0.1), [-1.0386897, -0.7726583, 2.0076456]),
        (
            RMSprop(0.1, 0.9, momentum=0.5, weight_decay=0.1),
            [-0.3691699, -0.8221771, 1.5432725],
        ),
        (Adagrad(0.1), [0.3459645, -1.1568479, 2.0007722]),
        (Adagrad(0.1, 0.5, 0.1, weight_decay=0.1), [0.3822802, -1.124565, 1.9390257]),
        (SGD(0.1, clip_norm=1.0), [0.4093583, -1.1405858, 1.9357868]),
    ],
    ids=repr,
)
def test_three_steps_as_in_pytorch(optimizer: Optimizer, expected: list[float]) -> None:
    # the expected values have seven digits
    np.testing.assert_allclose(trained(optimizer), expected, rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("parts", [1, 3])
def test_weights_of_64_bits_are_trained_by_rates_of_64_bits(parts: int) -> None:
    def model(batch: int) -> Function:
        builder = Builder("net")
        input = Term(builder, builder.input("x", f"float64<{batch} x 3>"))
        builder.save((input * Term(builder, builder.constant("w", WEIGHT[None]))).value, "y")
        return builder.function()

    trainer = Trainer(
        model, loss=product, optimizer=SGD(0.1), micro_batches=parts, backend="interpreter"
    )
    trainer.step(np.ones((3, 3)), GRADIENTS)
    gradient = GRADIENTS.sum(axis=0) / parts
    np.testing.assert_allclose(trainer.weights["w"][0], WEIGHT - 0.1 * gradient, rtol=1e-15)


def test_l1_draws_weights_to_0() -> None:
    still = np.zeros((1, 3))
    np.testing.assert_allclose(trained(SGD(0.1, l1=0.5), still), WEIGHT - 0.05 * np.sign(WEIGHT))
    np.testing.assert_allclose(trained(AdamW(0.0, l1=0.5), still), WEIGHT)


def test_gradients_that_are_short_are_not_clipped() -> None:
    short = GRADIENTS / 100
    np.testing.assert_array_equal(trained(SGD(clip_norm=1.0), short), trained(SGD(), short))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(-0.1),
        lambda: SGD(nesterov=True),
        lambda: SGD(momentum=float("inf")),
        lambda: SGD(clip_norm=0.0),
        lambda: Adam(beta1=1.0),
        lambda: Adam(epsilon=0.0),
        lambda: SGD(momentum=2.0),
        lambda: SGD(momentum=0.5, nesterov="yes"),  # type: ignore[arg-type]
        lambda: RMSprop(alpha=-1.0),
        lambda: RMSprop(alpha=1.5),
        lambda: RMSprop(momentum=1.5),
        lambda: Adagrad(epsilon=0.0),
        lambda: Adagrad(l1=-1.0),
    ],
)
def test_numbers_without_meaning_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(OptionError, match=r"^\w+="):
        make()


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_weights_of_16_bits_are_updated_in_32(kind: str, parts: int) -> None:
    """Squares of these gradients, and the usual epsilon, are 0 in 16 bits: steps were infinite."""
    dtype = ElementKind(kind).dtype
    weights, gradients = np.array([[1.0, -2.0, 3.0]]), np.array([[1e-4, -1e-5, 2e-4]])

    def model(batch: int) -> Function:
        builder = Builder("net")
        input = Term(builder, builder.input("x", f"{kind}<{batch} x 3>"))
        w = Term(builder, builder.constant("w", weights.astype(dtype)))
        builder.save((input * w).value, "y")
        return builder.function()

    optimizer = Adam(0.1)
    trainer = Trainer(
        model, loss=product, optimizer=optimizer, micro_batches=parts, backend="interpreter"
    )
    batch = gradients.repeat(2, axis=0).astype(dtype)
    expected, moment, second = weights.astype(dtype), np.zeros((1, 3)), np.zeros((1, 3))
    for t in range(1, 4):
        trainer.step(np.ones((2, 3), dtype), batch)
        gradient = batch.astype(np.float64)[:1]
        moment = 0.9 * moment + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        change = moment / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        expected = (expected.astype(np.float64) - 0.1 * change).astype(dtype)
    np.testing.assert_allclose(
        trainer.weights["w"].astype(float), expected.astype(float), rtol=2e-2 / parts
    )


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (Adam(epsilon=1e-50), "epsilon=1e-50: it is 0.0 as float32, .* float16 .* give a larger"),
        (SGD(weight_decay=1e40), r"weight_decay=1e\+40: it is inf as float32"),
    ],
)
def test_numbers_that_their_kind_cannot_hold_are_refused(
    optimizer: Optimizer, message: str
) -> None:
    def model(batch: int) -> Function:
        builder = Builder("net")
        w = Term(builder, builder.constant("w", np.ones((1, 3), np.float16)))
        input = builder.input("x", f"float16<{batch} x 3>")
        builder.save((Term(builder, input) * w).value, "y")
        return builder.function()

    with pytest.raises(OptionError, match=message):
        Trainer(model, loss=product, optimizer=optimizer, backend="interpreter")


def test_a_rate_that_is_infinite_as_it_is_fed_is_refused() -> None:
    trainer = make(optimizer=SGD(Constant(1e40)))
    with pytest.raises(OptionError, match=r"rate=1e\+40: it is not finite as float32"):
        trainer.step(POINTS[:4], REGIONS[:4])

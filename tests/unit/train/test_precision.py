"""Training whose products, forward and backward, multiply bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((40, 6, 6, 3)).astype(np.float32)
CLASSES = (IMAGES.mean((1, 2, 3)) > 0).astype(np.int64)


def network(batch: int) -> Function:
    """Return a convolution and a dense layer for images of 6 x 6 pixels."""
    b, random = Builder(), np.random.default_rng(1)

    def weight(name: str, *shape: int) -> Any:
        return b.constant(name, 0.2 * random.standard_normal(shape).astype(np.float32))

    x = b.input("x", f"float32<{batch} x 6 x 6 x 3>")
    window = {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 0, 0), "dilation": (1, 1)}
    filters: Any = (weight("filter", 8, 3, 3, 3), weight("bias", 8))
    convolved = b.emit(ops.Convolution(x, *filters, **window), "stem")  # type: ignore[arg-type]
    rows = b.emit(ops.Reshape(b.emit(ops.Relu(convolved)), (batch, 72)))
    b.save(b.emit(ops.FullyConnected(rows, weight("w", 72, 2), weight("b", 2)), "head"), "y")
    return b.function()


def trained(backend: str, **options: Any) -> tuple[Trainer, list[float]]:
    given: dict[str, Any] = {"loss": SoftmaxCrossEntropy(), "optimizer": SGD(0.1), "threads": 1}
    trainer = Trainer(network, **given, backend=backend, **options)
    return trainer, list(trainer.fit((IMAGES, CLASSES, 20), 12).losses)


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", pytest.param("cpu", marks=pytest.mark.slow)])
def test_a_network_learns_as_in_float32(backend: str) -> None:
    trainer, losses = trained(backend, precision="bfloat16")
    full, wanted = trained(backend)
    assert losses != wanted
    assert wanted[-1] < 0.8 * wanted[0]
    np.testing.assert_allclose(losses, wanted, rtol=0.02)
    for name, weight in trainer.weights.items():
        assert weight.dtype == np.float32
        scale = np.abs(full.weights[name]).max()
        np.testing.assert_allclose(weight, full.weights[name], rtol=0, atol=0.05 * scale)


def test_products_of_the_backward_pass_are_lowered_too() -> None:
    trainer, _ = trained("interpreter", precision="bfloat16")
    net: Any = trainer.network(IMAGES[:20], CLASSES[:20])
    layers = [(each.operator, each.kind) for each in net["train"].precision]
    products = {"convolution", "fully_connected", "mat_mul", "convolution_filter_gradient"}
    lowered = [operator for operator, kind in layers if kind == ElementKind.BFLOAT16.value]
    assert set(lowered) == products
    assert lowered.count("mat_mul") == 1  # the gradient for the input of the head has sums of two
    assert {each.kind for each in net["infer"].precision} == {"bfloat16"}


def test_layers_are_kept_and_wrong_words_refused() -> None:
    trainer, _ = trained("interpreter", precision="bfloat16", keep=("head",))
    net: Any = trainer.network(IMAGES[:20], CLASSES[:20])
    assert {(each.name, each.kind) for each in net["infer"].precision} == {
        ("stem", "bfloat16"),
        ("head", "float32"),
    }
    with pytest.raises(OptionError, match="precision='int8': give one of"):
        trained("interpreter", precision="int8")
    with pytest.raises(OptionError, match="'tail' fits no node"):
        trained("interpreter", precision="bfloat16", keep=("tail",))
    with pytest.raises(OptionError, match="give precision there alone"):
        trained(glow_nb.Cpu(), precision="bfloat16")  # type: ignore[arg-type]

"""Batch normalization in training, against what PyTorch computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.batch_statistics import normalize_by_batch
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function


def training(
    shape: tuple[int, ...], momentum: float = 0.9, *, is_unbiased: bool = True
) -> Function:
    """Return a function of one normalization and its gradients, channels last."""
    b = glow_nb.Builder()
    vector = f"float32<{shape[-1]}>"
    x = b.input("x", "float32<" + " x ".join(map(str, shape)) + ">")
    vectors = {name: b.input(name, vector) for name in ("scale", "bias", "mean", "variance")}
    attributes = {"epsilon": 1e-5, "channel_axis": len(shape) - 1, "momentum": momentum}
    node = ops.BatchNormalization(x, **vectors, **attributes)  # type: ignore[arg-type]
    result, mean, variance = normalize_by_batch(b, b.emit(node), is_unbiased=is_unbiased)
    b.save(mean, "new_mean")
    b.save(variance, "new_variance")
    cube = b.emit(ops.Mul(b.emit(ops.Mul(result, result)), result))
    b.save(b.emit(ops.ReduceSum(cube, tuple(range(len(shape))), keep_dims=False)), "loss")
    return differentiate(b.function(), ["x", "scale", "bias"], "loss")


def feeds_for(x: Array) -> dict[str, Array]:
    channels = x.shape[-1]
    vectors = {
        "scale": np.linspace(0.5, 1.5, channels),
        "bias": np.linspace(-1, 1, channels),
        "mean": np.linspace(0, 3, channels),
        "variance": np.linspace(1, 2, channels),
    }
    return {"x": x, **{name: v.astype(np.float32) for name, v in vectors.items()}}


def test_it_computes_what_pytorch_computes() -> None:
    x = np.array([[1, 2], [3, -1], [2, 5]], np.float32)
    found = evaluate(training(x.shape), feeds_for(x))
    # What batch_norm of torch.nn.functional computes in training with a momentum of 0.1.
    expected: dict[str, Any] = {
        "new_mean": [0.2, 2.9],
        "new_variance": [1.0, 2.7],
        "d_scale": [-8.999865, 26.999956],
        "d_bias": [11.249968, 29.249966],
        "d_x": [[0.229668, -4.133504], [0.2296, 2.066741], [-0.459269, 2.066763]],
    }
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-5, atol=2e-5, err_msg=name)


def test_onnx_has_the_variance_of_the_population() -> None:
    x = np.array([[1, 2], [3, -1], [2, 5]], np.float32)
    found = evaluate(training(x.shape, 0.75, is_unbiased=False), feeds_for(x))
    np.testing.assert_allclose(found["new_mean"], [0.5, 2.75], rtol=1e-6)
    np.testing.assert_allclose(found["new_variance"], [0.75 + 0.25 * 2 / 3, 1.5 + 1.5], rtol=1e-6)


def test_a_large_mean_leaves_the_variance_as_it_is() -> None:
    x = np.random.default_rng(0).standard_normal((64, 4, 3)).astype(np.float32)
    near, far = (evaluate(training(x.shape), feeds_for(v)) for v in (x, x + np.float32(4096)))
    np.testing.assert_allclose(far["new_variance"], near["new_variance"], rtol=1e-3)
    np.testing.assert_allclose(far["d_x"], near["d_x"], atol=1e-2)


def test_a_single_element_has_no_unbiased_variance() -> None:
    with pytest.raises(GlowError, match=r"float32<1 x 1 x 2> has 1 elements a channel"):
        training((1, 1, 2))
    x = np.ones((1, 1, 2), np.float32)
    found = evaluate(training((1, 1, 2), is_unbiased=False), feeds_for(x))
    assert all(np.isfinite(array).all() for array in found.values())

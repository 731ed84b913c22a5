"""Fourier transforms against NumPy's, evaluated and as the products that they lower to."""

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import FourierTransform

FORMS: list[tuple[int, dict[str, Any]]] = [
    (2, {}),
    (1, {"onesided": True}),
    (2, {"inverse": True}),
    (2, {"inverse": True, "onesided": True}),
    (1, {"inverse": True, "onesided": True}),
]


def _function(length: int, size: int, parts: int, form: dict[str, Any]) -> Function:
    builder = glow_nb.Builder("main")
    x = builder.input("x", f"float64<2 x 3 x {size} x {parts}>")
    builder.save(builder.emit(FourierTransform(x, length=length, **form)), "y")
    return builder.function()


def _expected(x: Array, length: int, form: dict[str, Any]) -> Array:
    numbers = x[..., 0] + 1j * (x[..., 1] if x.shape[-1] == 2 else 0)
    if form == {"inverse": True, "onesided": True}:
        return np.fft.irfft(numbers, length)[..., None]
    found = np.fft.ifft(numbers) if form.get("inverse") else np.fft.fft(numbers)
    found = found[..., : length // 2 + 1] if form.get("onesided") else found
    return np.stack([found.real, found.imag], axis=-1)


@pytest.mark.parametrize("length", [1, 2, 5, 8, 12, 31])
@pytest.mark.parametrize(("parts", "form"), FORMS, ids=str)
def test_transforms_are_those_of_numpy(parts: int, form: dict[str, Any], length: int) -> None:
    size = length // 2 + 1 if form == {"inverse": True, "onesided": True} else length
    function = _function(length, size, parts, form)
    x = np.random.default_rng(length).standard_normal((2, 3, size, parts))
    expected = _expected(x, length, form)
    np.testing.assert_allclose(evaluate(function, {"x": x})["y"], expected, atol=1e-14)
    net = glow_nb.compile(function, backend="interpreter")
    assert not any(each.node_class is FourierTransform for each in net.program.instructions)
    np.testing.assert_allclose(net.run({"x": x})["y"], expected, atol=1e-13)


def test_a_matrix_of_a_huge_transform_is_not_made() -> None:
    function = _function(20_000, 20_000, 1, {"onesided": True})
    net = glow_nb.compile(function, backend="interpreter")
    x = np.random.default_rng(0).standard_normal((2, 3, 20_000, 1))
    found = net.run({"x": x})["y"]
    np.testing.assert_allclose(found, _expected(x, 20_000, {"onesided": True}), atol=1e-10)


@pytest.mark.parametrize(
    ("size", "length", "form", "said"),
    [
        (8, 0, {}, "length is 0, but must be positive"),
        (8, 9, {}, "must be .*9, 1 or 2"),
        (8, 8, {"inverse": True, "onesided": True}, "must be .*5, 1 or 2"),
    ],
)
def test_lengths_must_fit(size: int, length: int, form: dict[str, Any], said: str) -> None:
    with pytest.raises(VerifyError, match=said):
        _function(length, size, 2, form)

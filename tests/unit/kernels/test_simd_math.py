"""The elementary functions against the C library in float64."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind
from tests.unit.kernels.running import RunningKernel

Floats = npt.NDArray[np.floating[Any]]
FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64

LARGEST_ERROR_ULP = {
    "exp": 1.0,
    "expm1": 1.5,
    "log": 0.8,
    "log1p": 1.5,
    "tanh": 2.3,
    "erf": 1.1,
    "sigmoid": 2.2,
}
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-30, -1e-30)
LIBRARY = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")


def reference(name: str, x: Floats) -> Floats:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            sigmoid: Floats = 1.0 / (1.0 + np.exp(-wide))
            return sigmoid
        if name == "erf":
            return np.array([math.erf(value) for value in wide.tolist()])
        numpy_name = f"arc{name[1:]}" if name.startswith("a") else name
        result: Floats = getattr(np, numpy_name)(wide)
        return result


def arguments() -> Floats:
    """Floats of all sizes, dense where the functions bend, and the special ones."""
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(-100, 88, 30000))
    ordinary = random.uniform(-1, 1, 30000) * random.choice([0.1, 1, 10, 100], 30000)
    signed = np.concatenate([sizes, -sizes, ordinary, np.linspace(-104, 89, 20000), SPECIAL])
    rest = -signed.size % 64
    return np.concatenate([signed, np.ones(rest)]).astype(np.float32)


def kernel(names: tuple[str, ...], kind: ElementKind, size: int, target: Target) -> RunningKernel:
    """Return a kernel that writes function after function of all arguments."""
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {size}, {target.lanes}):"):
            out.line(f"value = load(x, i, {target.lanes})")
            for number, name in enumerate(names):
                out.line(f"store(dest, i + {number * size}, {name}(value))")
    return RunningKernel(KernelSource("functions", out.text, (kind, kind)), target)


def error_ulp(found: Floats, expected: Floats) -> Floats:
    """Return the errors in units of the last place of float32; special values must be equal."""
    rounded = expected.astype(np.float32)
    special = ~np.isfinite(rounded) | ~np.isfinite(found)
    np.testing.assert_array_equal(found[special], rounded[special])
    ulp = np.maximum(np.spacing(np.abs(rounded)), 2.0**-149).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(special, 0.0, np.abs(found.astype(np.float64) - expected) / ulp)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_float32_functions_keep_their_stated_error(lanes: int) -> None:
    names = tuple(LARGEST_ERROR_ULP)
    x = arguments()
    found = np.empty((len(names), x.size), np.float32)
    kernel(names, FLOAT32, x.size, Target.host(lanes))(found, x)
    for name, row in zip(names, found, strict=True):
        expected = reference(name, x)
        if name == "sigmoid":  # gives up where its result would be denormal
            expected = np.where(x < -88.37, row, expected)
            assert (row[x < -88.37] < 2.0**-126).all()
        with np.errstate(over="ignore"):
            errors = error_ulp(row, expected)
        worst = int(errors.argmax())
        assert errors[worst] <= LARGEST_ERROR_ULP[name], (name, x[worst], row[worst])


@pytest.mark.jit
@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_library_functions_are_those_of_c(kind: ElementKind) -> None:
    names = (*LIBRARY, *LARGEST_ERROR_ULP) if kind is FLOAT64 else LIBRARY
    x = np.concatenate([np.linspace(-3, 3, 61), [np.nan, np.inf, -np.inf]]).astype(kind.dtype)
    found = np.empty((len(names), x.size), kind.dtype)
    kernel(names, kind, x.size, Target.host(8))(found, x)
    tolerance = 1e-6 if kind is FLOAT32 else 1e-14
    for name, row in zip(names, found, strict=True):
        np.testing.assert_allclose(row, reference(name, x), tolerance, tolerance, err_msg=name)

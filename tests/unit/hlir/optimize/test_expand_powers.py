"""Powers with a constant exponent become products and roots, with the values of powers."""

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.optimize import GRAPH_PASSES
from tests.unit.kernels.cases import assert_close

FLOATS = [ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.BFLOAT16]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.3, np.inf, -np.inf, np.nan, 1e-40, -3e-39, 2e38)
EXPONENTS = (-8, -3, -2.5, -2, -1.75, -1, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6.25, 7)
PASSES = ("simplify_arithmetic", "expand_powers")


def power(kind: ElementKind, exponent: float, size: int) -> Function:
    b = glow_nb.Builder("power")
    x = b.input("x", f"{kind.value}<{size}>")
    e = b.constant("e", np.full(1, exponent, kind.dtype))
    b.save(b.emit(ops.Pow(x, e)), "y")
    return b.function()


def has_power(function: Function) -> bool:
    return any(isinstance(node, ops.Pow) for node in function.nodes)


def numbers(kind: ElementKind) -> Array:
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-60, 60, 400))
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, sizes, -sizes]).astype(kind.dtype)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_float_powers_are_those_of_numpy(kind: ElementKind, exponent: float) -> None:
    x = numbers(kind)
    function = power(kind, exponent, x.size)
    expanded = GRAPH_PASSES.run(function, PASSES)
    assert not has_power(expanded)
    found = evaluate(expanded, {"x": x})["y"]
    exponents = np.full(x.size, exponent)  # for one number NumPy takes the square root
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), exponents).astype(kind.dtype)
    subnormal = float(np.finfo(np.float32).smallest_subnormal)  # its last place is coarse
    assert_close(found, wanted, ulp=6, absolute=4 * subnormal)
    is_number = ~np.isnan(wanted.astype(np.float64))
    signs = (np.signbit(each.astype(np.float64))[is_number] for each in (found, wanted))
    np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 13, 64])
def test_integer_powers_wrap(kind: str, exponent: int) -> None:
    limits = np.iinfo(kind)
    x = np.array([0, 1, 2, 3, 10, limits.max, limits.min], kind)
    function = power(ElementKind(kind), exponent, x.size)
    expanded = GRAPH_PASSES.run(function, PASSES)
    assert not has_power(expanded)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            evaluate(expanded, {"x": x})["y"], np.power(x, x.dtype.type(exponent))
        )


@pytest.mark.parametrize("exponent", [0.3, 9.0, np.inf, -8.25])
def test_other_exponents_stay(exponent: float) -> None:
    function = power(ElementKind.FLOAT32, exponent, 3)
    assert GRAPH_PASSES.run(function, PASSES) is function

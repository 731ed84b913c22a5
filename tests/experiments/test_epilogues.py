"""The table of functions in epilogues: what it counts, and the kernels that it measures."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.epilogues import (
    DEVIATION,
    FUNCTIONS,
    Clocks,
    bound,
    counted,
    operands,
    product,
    row,
    target_of,
)
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from tests.unit.kernels.running import RunningKernel

NARROW = Target.host(lanes=8)


@pytest.mark.parametrize(
    ("found", "least"),
    [
        ({"products": 10, "sums": 4, "divisions": 0, "others": 2}, 5.0),
        ({"products": 10, "sums": 4, "divisions": 1, "others": 2}, 6.0),
        ({"products": 2, "sums": 6, "divisions": 0, "others": 0}, 3.0),
        ({"products": 4, "sums": 4, "divisions": 0, "others": 8}, 4.0),
    ],
)
def test_the_bound_is_that_of_the_busiest_units(found: dict[str, float], least: float) -> None:
    assert bound(found) == least


def test_a_row_has_ratios_to_the_bound() -> None:
    found = {"products": 8.0, "sums": 4.0, "divisions": 0.0, "others": 0.5}
    assert (
        row("f | how", found, 4.4, 5.0)
        == "| f | how | 8 + 4 + 0 + 0.5 | 4.0 | 4.4 | 1.10 | 5.0 | 1.25 |"
    )


@pytest.mark.jit
def test_instructions_of_a_vector_are_counted_in_machine_code() -> None:
    """Of ``x * min(max(x / 6 + 1 / 2, 0), 1)``: two products, two limits, and a load at most."""
    found = counted("hard_swish", target_of(8))
    assert (found["products"], found["sums"], found["divisions"]) == (2, 2, 0)
    assert found["others"] <= 1


@pytest.mark.jit
def test_the_product_has_the_function_as_its_epilogue() -> None:
    plain, fused = product(NARROW), product(NARROW, "hard_swish")
    made, lhs, rhs = operands(plain)
    found = np.empty_like(made)
    for result, instruction in ((made, plain), (found, fused)):
        RunningKernel(generate_kernel(instruction, NARROW), NARROW)(result, lhs, rhs)
    assert np.std(made) == pytest.approx(DEVIATION, rel=0.1)  # what the loop sees, too
    expected = made * np.clip(made / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.jit
def test_every_kernel_is_measured() -> None:
    """The figures mean nothing after one run, so that only their presence is checked."""
    assert np.isfinite(Clocks.of("hard_swish", NARROW).measured(NARROW.lanes, 1)).all()


def test_the_functions_of_activations_are_measured() -> None:
    assert {"exp", "tanh", "sigmoid", "erf", "gelu"} <= FUNCTIONS.keys()

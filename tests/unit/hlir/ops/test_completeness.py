"""What every operator must have, so that a new one is not half done."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glow_nb.hlir.gradients  # noqa: F401  registers the rules
from glow_nb.base.schema import fields_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import NODES, Node
from glow_nb.hlir.rules import GRADIENTS, LOWERINGS, WITHOUT_GRADIENT
from glow_nb.hlir.save import Save
from glow_nb.kernels import operators
from tests.unit.hlir.ops.applying import apply, floats

EXPORTED = [getattr(package, name) for package in (ops, operators) for name in package.__all__]
OPERATORS: list[type[Node]] = [found for found in EXPORTED if isinstance(found, type)]


def test_all_operators_are_exported() -> None:
    defined = {c for c in NODES.values() if c.__module__.startswith("glow_nb.")}
    assert defined == {*OPERATORS, Save}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_is_complete(operator: type[Node]) -> None:
    assert operator.evaluate is not Node.evaluate
    assert (operator.infer_type, operator.infer_types) != (Node.infer_type, Node.infer_types)
    is_operand = [spec.is_operand for spec in fields_of(operator)]
    assert is_operand == sorted(is_operand, reverse=True)  # operands come before attributes
    assert operator.__doc__
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operator.__name__).lower()
    assert operator.opcode.replace("_", "") == snake.replace("_", "")


def test_every_operator_has_a_gradient_or_a_reason() -> None:
    assert not set(GRADIENTS) & set(WITHOUT_GRADIENT)
    assert {*OPERATORS} == {*GRADIENTS, *WITHOUT_GRADIENT}


def test_lowerings_are_of_operators() -> None:
    assert set(LOWERINGS) <= set(OPERATORS)


@pytest.mark.parametrize("shape", [(0, 5, 5, 2), (1, 5, 5, 0)])
def test_empty_tensors_are_convolved(shape: tuple[int, ...]) -> None:
    window = {"kernel": (3, 3), "stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1)}
    filter, bias = floats(4, 3, 3, shape[-1]), floats(4)
    found = apply(ops.Convolution, floats(*shape), filter, bias, **window)
    np.testing.assert_array_equal(found, np.broadcast_to(bias, (shape[0], 3, 3, 4)))

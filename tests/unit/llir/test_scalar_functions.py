"""The table of scalar functions, and those who implement it."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from glow_nb.backends import scalar_numpy
from glow_nb.base.types import ElementKind
from glow_nb.llir.scalar_functions import OPERATORS, SCALAR_FUNCTIONS
from glow_nb.simd import namespace
from glow_nb.simd.namespace import NAMESPACE

FUNCTIONS = {name: f for name, f in SCALAR_FUNCTIONS.items() if not f.definition}
FOR_KERNELS = {
    *("at_least", "at_most", "copysign", "exp2", "exp_nonpositive", "inverse_fourth_root"),
    *("positive_part", "reciprocal"),
}
"""Elementwise functions of the SIMD layer that generators of kernels call, and expressions not."""

OF_THEIR_OWN = {"where", "look_up"}
"""Functions whose arguments have different kinds."""


def names_of(arity: int) -> set[str]:
    return {f.name for f in FUNCTIONS.values() if f.arity == arity and not f.is_conversion}


def test_numpy_has_each_function_and_no_other() -> None:
    by_kind_of_result = {f.name for f in FUNCTIONS.values() if f.is_conversion}
    assert set(scalar_numpy.FUNCTIONS) == set(FUNCTIONS) - by_kind_of_result - OF_THEIR_OWN


@pytest.mark.parametrize("name", sorted(scalar_numpy.FUNCTIONS))
def test_numpy_takes_as_many_arguments_and_gives_bools_for_predicates(name: str) -> None:
    function = FUNCTIONS[name]
    is_bitwise = name.startswith(("bit_", "shift_"))
    ones = np.ones(3, np.int32 if is_bitwise else np.float32)
    with np.errstate(all="ignore"):  # atanh(1) is infinite
        result = scalar_numpy.FUNCTIONS[name](*[ones] * function.arity)
    assert result.dtype == (function.result.dtype if function.result else ones.dtype)


def test_the_simd_layer_has_each_function_and_no_other() -> None:
    unary = {*namespace._UNARY, *namespace._FUNCTIONS, "bit_not", "isnan", "isinf"}
    binary = {*namespace._BINARY, *namespace._BITS, *namespace._COMPARISONS}
    assert unary - FOR_KERNELS == names_of(1) - {"convert_float32"}
    assert binary - FOR_KERNELS == names_of(2) - OF_THEIR_OWN
    assert names_of(3) - OF_THEIR_OWN == {"fma"}
    wanted = {f.name_for(kind) for f in FUNCTIONS.values() for kind in ElementKind}
    assert wanted <= set(NAMESPACE)


def test_the_simd_layer_gives_bools_for_predicates() -> None:
    predicates = {f.name for f in FUNCTIONS.values() if f.result is ElementKind.BOOL}
    assert predicates == {*namespace._COMPARISONS, "isnan", "isinf"}


def test_each_operator_of_the_vocabulary_is_one_function() -> None:
    assert set(OPERATORS.values()) == {f for f in FUNCTIONS.values() if f.operator}
    assert all(operator is f.operator for operator, f in OPERATORS.items())
    assert all(issubclass(o, ast.operator | ast.unaryop | ast.cmpop) for o in OPERATORS)

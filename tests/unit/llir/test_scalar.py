"""The vocabulary of scalar expressions."""

from __future__ import annotations

import ast
import math

import pytest

import glow_nb.llir.instructions  # noqa: F401  registers them
from glow_nb.base.errors import DefinitionError, GlowWarning
from glow_nb.base.schema import Qualifier, operand_specs
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for, known_instructions
from glow_nb.llir.program import (
    Buffer,
    In,
    Instruction,
    Out,
    define_instruction,
)
from glow_nb.llir.scalar import define_scalar_function, number_as, scalar_expression
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction

GeluInst = instruction_for(ops.Gelu)
ModuloInst = instruction_for(ops.Modulo)

PLACE = Buffer("place", TensorType(ElementKind.FLOAT32, (4,)))


@define_instruction("test_only_expression")
class ExpressionInst(Instruction):
    """An instruction whose expression the tests choose."""

    dest: Out
    input: In
    alpha: float = 0.0
    mode: str = "none"


def parsed(text: str, monkeypatch: pytest.MonkeyPatch, mode: str = "none") -> str:
    monkeypatch.setattr(ExpressionInst, "scalar", text)
    return ast.unparse(scalar_expression(ExpressionInst(PLACE, PLACE, 0.5, mode)))


@pytest.mark.parametrize(
    "text",
    [
        "-input ** 2",
        "input if input else alpha",
        "input.shape",
        "input[0]",
        "(lambda: input)()",
        "__import__('os')",
        "other * input",
        "maximum(input)",
        "add(input, alpha)",
        "maximum(input, y=alpha)",
        "print(input)",
        "0 < input < 1",
        "input and alpha",
        "'text'",
        "input +",
        "look_up(input + input, input)",
    ],
)
def test_what_is_not_in_the_vocabulary_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DefinitionError, match="scalar expression"):
        parsed(text, monkeypatch)


CALLED = [f for f in SCALAR_FUNCTIONS.values() if not f.operator and not f.definition]


@pytest.mark.parametrize("function", CALLED, ids=lambda f: f.name)
def test_every_function_is_taken(function: ScalarFunction, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{function.name}({', '.join(['input'] * function.arity)})"
    assert parsed(text, monkeypatch) == text


class TestDefinedFunctions:
    @pytest.fixture(autouse=True)
    def _own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("test_only_softsign", "test_only_twice"):
            monkeypatch.setitem(SCALAR_FUNCTIONS, name, None)  # removed again afterwards
            del SCALAR_FUNCTIONS[name]

    def test_they_stand_for_their_definition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        define_scalar_function("test_only_softsign", "x", definition="x / (1 + abs(x))")
        define_scalar_function(
            "test_only_twice", "abs", definition="test_only_softsign(abs) + abs(abs)"
        )
        assert parsed("test_only_softsign(input * alpha)", monkeypatch) == (
            "input * alpha / (1 + abs(input * alpha))"
        )
        assert parsed("test_only_twice(input)", monkeypatch) == (
            "input / (1 + abs(input)) + abs(input)"
        )

    def test_one_that_is_defined_again_is_replaced_with_a_notice(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(2):  # the same meaning again is nothing to tell
            define_scalar_function("test_only_twice", "x", definition="x + x")
        assert parsed("test_only_twice(input)", monkeypatch) == "input + input"
        with pytest.warns(GlowWarning, match="'test_only_twice' is defined again") as notices:
            define_scalar_function("test_only_twice", "x", definition="test_only_twice(x) * 1")
        assert notices[0].filename == __file__
        assert parsed("test_only_twice(input)", monkeypatch) == "(input + input) * 1"

    @pytest.mark.parametrize(
        ("name", "parameters", "definition", "message"),
        [
            ("exp", ("x",), "x", "'exp' is part of the vocabulary and cannot be replaced"),
            ("test_only_twice", ("x",), "x + y", "'y' is not in the vocabulary"),
            ("test_only_twice", ("x",), "test_only_twice(x)", "is not in the vocabulary"),
            ("no name", ("x",), "x", "'no name' is no name"),
            ("test_only_twice", ("1",), "1", "'1' is no name"),
            ("test_only_twice", ("x", "x"), "x", "two parameters are called alike"),
        ],
    )
    def test_what_cannot_be_defined_is_refused(
        self, name: str, parameters: tuple[str, ...], definition: str, message: str
    ) -> None:
        with pytest.raises(DefinitionError, match=message):
            define_scalar_function(name, *parameters, definition=definition)

    def test_they_take_as_many_arguments_as_parameters(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        define_scalar_function("test_only_twice", "x", definition="x + x")
        with pytest.raises(DefinitionError, match="is not in the vocabulary"):
            parsed("test_only_twice(input, alpha)", monkeypatch)


def test_tests_of_attributes_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "alpha * input if mode == 'scaled' else input"
    assert parsed(text, monkeypatch) == "input"
    assert parsed(text, monkeypatch, mode="scaled") == "alpha * input"


def test_a_called_name_is_a_function_and_any_other_an_attribute() -> None:
    fmod = scalar_expression(ModuloInst(PLACE, PLACE, PLACE, fmod=True))
    assert ast.unparse(fmod) == "fmod(lhs, rhs)"


def test_branches_of_gelu() -> None:
    by_erf, by_tanh = (
        ast.unparse(scalar_expression(GeluInst(PLACE, PLACE, mode))) for mode in ("none", "tanh")
    )
    assert "gelu(" in by_erf
    assert "sigmoid(" in by_tanh
    assert "if" not in by_erf + by_tanh


def test_data_parallel_instructions_write_one_operand() -> None:
    for instruction_class in known_instructions().values():
        outs = [s for s in operand_specs(instruction_class) if s.qualifier != Qualifier("in")]
        assert not instruction_class.scalar or len(outs) == 1, instruction_class


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (ElementKind.FLOAT32, 1, 1.0),
        (ElementKind.INT8, 2.9, 2),
        (ElementKind.INT8, -2.9, -2),
        (ElementKind.INT8, 1e9, 127),
        (ElementKind.INT8, -math.inf, -128),
        (ElementKind.INT8, math.nan, 0),
        (ElementKind.UINT8, -5.0, 0),
        (ElementKind.INT64, math.inf, 2**63 - 1),
        (ElementKind.INT64, 1e30, 2**63 - 1),
        (ElementKind.UINT64, math.inf, 2**64 - 1),
        (ElementKind.BOOL, 0.5, True),
        (ElementKind.BOOL, 0, False),
    ],
)
def test_numbers_take_the_kind_they_meet(kind: ElementKind, value: float, expected: float) -> None:
    found = number_as(kind, value)
    assert found == expected
    assert type(found) is type(expected)


def test_a_table_is_an_operand_and_no_parameter() -> None:
    with pytest.raises(DefinitionError, match="a table is an operand of an operator"):
        define_scalar_function("first_entry", "t", "x", definition="look_up(t, x)")

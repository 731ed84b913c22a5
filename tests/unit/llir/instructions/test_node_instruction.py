"""Instructions that carry out a node, and what is verified when their operands change."""

import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.text import TokenReader
from glow_nb.hlir.ops import Relu
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Activation, Buffer, mutated, read


def activation(name: str, type: str) -> Activation:
    return Activation(name, TokenReader(type, "<type>").read_type())


def test_other_operands_of_the_same_types_take_the_place_of_all_that_was_remembered() -> None:
    a, b, c, d = (activation(name, "float32<4>") for name in "abcd")
    relu = instruction_for(Relu)(a, b, name="relu")
    assert (mutated(relu), read(relu)) == ((a,), (b,))
    moved = relu.map_operands({a: c, b: d}.__getitem__)
    assert (mutated(moved), read(moved)) == ((c,), (d,))
    assert (type(moved), moved.name) == (type(relu), "relu")


def test_the_same_operands_leave_the_instruction_as_it_is() -> None:
    a, b = (activation(name, "float32<4>") for name in "ab")
    relu = instruction_for(Relu)(a, b)
    assert relu.map_operands(lambda buffer: buffer) is relu


def test_operands_of_other_types_are_verified() -> None:
    a, b, wider = (
        activation("a", "float32<4>"),
        activation("b", "float32<4>"),
        activation("w", "float32<5>"),
    )
    relu = instruction_for(Relu)(a, b)
    others: dict[Buffer, Buffer] = {a: a, b: wider}
    with pytest.raises(VerifyError, match="the result is float32<5>"):
        relu.map_operands(others.__getitem__)

"""Instructions that are made from the fields of an operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import DefinitionError, UnsupportedError, VerifyError
from glow_nb.base.schema import fields_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import NODES, Node, Value, define_node
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.derived import (
    derive_instruction,
    find_instruction,
    has_instruction,
    instruction_for,
    known_instructions,
)
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.program import INSTRUCTIONS, Activation, Buffer, In, Out, define_instruction

PLACE = Buffer("place", TensorType(ElementKind.FLOAT32, (4,)))


pytestmark = pytest.mark.filterwarnings("ignore:[^\n]* 'own' is defined again")


@pytest.fixture(autouse=True)
def _own_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (NODES, INSTRUCTIONS):
        monkeypatch.setitem(table, "own", None)
        del table["own"]


def shrink(scalar: str = "input * by") -> type[Node]:
    @define_node("own", scalar=scalar)
    class Own(UnaryElementwise):
        """Shrink."""

        by: float = 0.5

        @override
        def compute(self, x: Any) -> Any:
            return x * self.by

    return Own


def test_it_has_the_fields_of_its_operator_after_the_result() -> None:
    own = instruction_for(shrink())
    assert [(s.name, s.qualifier and s.qualifier.name) for s in fields_of(own)] == [
        *(("dest", "out"), ("input", "in"), ("by", None))
    ]
    assert (own.__name__, own.opcode, own.scalar) == ("OwnInst", "own", "input * by")
    assert own.__doc__ == "Shrink."
    assert own(PLACE, PLACE, by=1).by == 1.0
    assert own(PLACE, PLACE).by == 0.5  # the operator's default


def test_it_may_be_computed_in_place_of_each_operand() -> None:
    assert instruction_for(ops.Add).inplace == (("dest", "lhs"), ("dest", "rhs"))


def test_it_is_found_by_its_opcode_and_made_once() -> None:
    own = shrink()
    assert find_instruction("own") is instruction_for(own) is known_instructions()["own"]
    assert has_instruction(own)
    assert find_instruction("none_of_that_name") is None


def test_that_of_the_newest_definition_counts() -> None:
    first = instruction_for(shrink())
    second = shrink("by * input")
    assert find_instruction("own") is instruction_for(second) is not first


def test_a_defined_one_is_preferred_whenever_it_was_defined() -> None:
    own = shrink()
    derived = instruction_for(own)

    @define_instruction("own", node=own)
    class OwnInst(NodeInstruction):
        dest: Out
        input: In
        by: float

    assert find_instruction("own") is instruction_for(own) is OwnInst is not derived


def test_programs_with_it_run_and_their_text_parses() -> None:
    builder = Builder("main")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (3,)))
    own: Any = shrink()
    builder.save(builder.emit(own(x, by=0.25)), "y")
    program = allocate(generate(builder.function()))
    text = print_program(program)
    assert "own @out %y, @in %x {by = 0.25}" in text
    assert print_program(parse_program(text)) == text
    (result,) = Interpreter().compile(program).run([np.array([1, 2, 4], np.float32)])
    np.testing.assert_array_equal(result, np.array([0.25, 0.5, 1.0], np.float32))


def test_an_operator_without_formula_has_none_until_one_is_derived() -> None:
    own = shrink(scalar="")
    assert not has_instruction(own)
    with pytest.raises(UnsupportedError, match="operator 'own' has no instruction"):
        instruction_for(own)
    made = derive_instruction(own)
    assert instruction_for(own) is find_instruction("own") is made
    assert not made.scalar
    assert not made.inplace


def test_optional_and_variadic_operands_stay_so() -> None:
    @define_node("own")
    class Own(Node):
        inputs: tuple[Value, ...]
        bias: Value | None

    specs = {s.name: (s.is_optional, s.is_variadic) for s in fields_of(derive_instruction(Own))}
    assert specs == {"dest": (False, False), "inputs": (False, True), "bias": (True, False)}


def test_several_results_have_names() -> None:
    @define_node("own")
    class Own(Node):
        input: Value

        @override
        def infer_types(self) -> tuple[TensorType, ...]:
            return self.input.type, self.input.type

    with pytest.raises(DefinitionError, match=r"'own' says how many results .* name them all"):
        derive_instruction(Own)
    made = derive_instruction(Own, results=("high", "low"), inplace=(("low", "input"),))
    assert [spec.name for spec in fields_of(made)] == ["high", "low", "input"]
    assert made.inplace == (("low", "input"),)
    made(PLACE, PLACE, PLACE)
    with pytest.raises(VerifyError, match=r"is float32<5>, the result is float32<4>"):
        made(PLACE, Activation("odd", TensorType(ElementKind.FLOAT32, (5,))), PLACE)


def test_an_opcode_of_an_instruction_without_operator_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = shrink()
    monkeypatch.setattr(own, "opcode", "copy")
    with pytest.raises(DefinitionError, match=r"'copy': an instruction of no operator is called"):
        instruction_for(own)

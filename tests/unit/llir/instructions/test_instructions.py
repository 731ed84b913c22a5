"""Instructions repeat the fields of their nodes and are verified by them."""

from __future__ import annotations

from typing import Any

import pytest

import glow_nb.llir.instructions  # noqa: F401  registers them
from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import FieldSpec, fields_of
from glow_nb.base.text import TokenReader
from glow_nb.hlir import ops
from glow_nb.kernels import operators
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.llir.instructions.derived import instruction_for, known_instructions
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.instructions.reduction import TopKInst
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.llir.scalar import table_names

AddInst = instruction_for(ops.Add)
LeakyReluInst = instruction_for(ops.LeakyRelu)
ReluInst = instruction_for(ops.Relu)

OURS = [
    cls
    for cls in known_instructions().values()
    if cls.node_class and cls.node_class.__module__.startswith("glow_nb.hlir.ops")
]


def buffer(type: str) -> Buffer:
    return Buffer("place", TokenReader(type, "<type>").read_type())


def shape_of(spec: FieldSpec) -> tuple[Any, ...]:
    is_plain = not spec.is_operand
    return (spec.name, spec.annotation if is_plain else (spec.is_optional, spec.is_variadic))


@pytest.mark.parametrize("instruction_class", OURS, ids=lambda c: c.opcode)
class TestFields:
    def test_they_are_those_of_the_node_after_the_results(
        self, instruction_class: type[Instruction]
    ) -> None:
        specs = fields_of(instruction_class)
        results = [s for s in specs if s.qualifier and s.qualifier.name == "out"]
        assert specs[: len(results)] == tuple(results)
        node_class: Any = instruction_class.node_class
        wanted = [shape_of(s) for s in fields_of(node_class)]
        assert [shape_of(s) for s in specs[len(results) :]] == wanted

    def test_it_is_called_like_the_node(self, instruction_class: type[Instruction]) -> None:
        node_class: Any = instruction_class.node_class
        assert instruction_class.opcode == node_class.opcode
        assert instruction_class.__name__ == f"{node_class.__name__}Inst"

    def test_it_is_data_parallel_if_the_node_is(self, instruction_class: type[Instruction]) -> None:
        node_class: Any = instruction_class.node_class
        tables = table_names(node_class.scalar) if node_class.scalar else ()
        assert bool(instruction_class.scalar) == (node_class.data_parallel or bool(tables))

    def test_operands_that_may_share_memory_exist(
        self, instruction_class: type[Instruction]
    ) -> None:
        operands = {s.name for s in fields_of(instruction_class) if s.is_operand}
        assert {name for pair in instruction_class.inplace for name in pair} <= operands

    def test_its_file_is_called_like_that_of_the_node(
        self, instruction_class: type[Instruction]
    ) -> None:
        node_class: Any = instruction_class.node_class
        ours, theirs = (c.__module__.rsplit(".")[-1] for c in (instruction_class, node_class))
        assert ours == theirs


def test_the_result_must_have_the_inferred_type() -> None:
    with pytest.raises(VerifyError, match=r"float32<2 x 4>, the result is float32<2 x 3>"):
        AddInst(buffer("float32<2 x 4>"), buffer("float32<2 x 3>"), buffer("float32<1 x 3>"))


def test_operands_are_checked_by_the_node() -> None:
    with pytest.raises(VerifyError, match="do not broadcast"):
        AddInst(buffer("float32<2>"), buffer("float32<2>"), buffer("float32<3>"))


def test_the_predicate_is_checked_by_the_node() -> None:
    x = buffer("float32<2 x 3>")
    ReluInst(x, x, predicate=buffer("bool<2>"))
    with pytest.raises(VerifyError, match="predicate must be a bool vector"):
        ReluInst(x, x, predicate=buffer("bool<3>"))


def test_every_result_is_checked() -> None:
    x = buffer("float32<2 x 3>")
    with pytest.raises(VerifyError, match="int64"):
        TopKInst(buffer("float32<2 x 1>"), x, x, 1, 1, largest=True, sorted=True)


def test_instruction_as_node() -> None:
    x = buffer("float32<5 x 7>")
    leaky = LeakyReluInst(x, x, 0.25, name="leaky").as_node()
    assert isinstance(leaky, ops.LeakyRelu)
    assert (leaky.name, leaky.alpha, leaky.type) == ("leaky", 0.25, x.type)
    product = PackedMatMulInst(
        buffer("float32<5 x 10>"), x, buffer("float32<2 x 7 x 8>"), None, depth=10, block=8
    ).as_node()
    assert isinstance(product, operators.PackedMatMul)
    assert product.bias is None


def test_node_instructions_are_the_only_ones_with_a_node() -> None:
    assert all(issubclass(cls, NodeInstruction) for cls in OURS)


class TestCopy:
    def test_it_broadcasts(self) -> None:
        copied = CopyInst(buffer("float32<2 x 3>"), buffer("float32<1 x 3>"))
        assert copied.dest.type.shape == (2, 3)

    @pytest.mark.parametrize(
        ("dest", "src"),
        [
            ("float32<2 x 3>", "float32<3>"),
            ("float32<1 x 3>", "float32<2 x 3>"),
            ("float32<3>", "int32<3>"),
            ("float32<4>", "float32<2>"),
        ],
    )
    def test_types_must_fit(self, dest: str, src: str) -> None:
        with pytest.raises(VerifyError, match="does not fit"):
            CopyInst(buffer(dest), buffer(src))

"""The text of programs whose sizes are open."""

import pytest

from glow_nb.base.errors import ParseError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Program
from glow_nb.llir.with_sizes import guards_of


def _growing() -> Program:
    n = Symbol("n", 5, 1, 64).size
    builder = Builder("step")
    kept = builder.input("kept", TensorType(ElementKind.FLOAT32, (2, n, 8)))
    new = builder.input("new", TensorType(ElementKind.FLOAT32, (2, 1, 8)))
    keys = builder.emit(ops.Concat((kept, new), axis=1))
    later = ops.Slice(keys, starts=(0, n - 1, 0), stops=(2, n + 1, 8), steps=(1, 1, 1))
    builder.save(builder.emit(later), "y")
    return generate(builder.function())


def test_a_program_with_open_sizes_reads_back() -> None:
    text = str(_growing())
    assert text.startswith("declare @step<n in 1..64 like 5> {\n")
    assert "{start = 8*n - 8, steps = [8*n + 8, 8, 1]} : float32<2 x 2 x 8>" in text
    assert str(parse_program(text)) == text


def test_what_holds_for_the_sizes_is_read_back() -> None:
    program = _growing()
    (symbol,) = program.inputs[0].type.shape[1].symbols  # type: ignore[attr-defined]
    assert symbol.size < 10
    text = str(program)
    assert text.startswith("declare @step<n in 1..64 like 5 where n < 10> {\n")
    again = parse_program(text)
    assert list(map(str, guards_of(again))) == ["n < 10"]
    assert str(again) == text


def test_a_size_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ParseError, match="unknown size 'n'"):
        parse_program(str(_growing()).replace("<n in 1..64 like 5>", ""))

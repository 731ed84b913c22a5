"""Scalar expressions become vector code."""

import pytest

from glow_nb.fuse.expression import Vector, VectorCode, number_text, write_scalar
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.types import ElementKind, TensorType

AddInst = instruction_for(ops.Add)
BitShiftInst = instruction_for(ops.BitShift)
ClipInst = instruction_for(ops.Clip)
ConvertToInst = instruction_for(ops.ConvertTo)
HardSwishInst = instruction_for(ops.HardSwish)
IsInfInst = instruction_for(ops.IsInf)
LeakyReluInst = instruction_for(ops.LeakyRelu)
LessInst = instruction_for(ops.Less)
ModuloInst = instruction_for(ops.Modulo)
MulInst = instruction_for(ops.Mul)
ReluInst = instruction_for(ops.Relu)

BOOL, FLOAT16, FLOAT32 = ElementKind.BOOL, ElementKind.FLOAT16, ElementKind.FLOAT32
INT64, UINT8 = ElementKind.INT64, ElementKind.UINT8


def _buffer(kind: ElementKind = FLOAT32, *shape: int) -> Buffer:
    return Buffer("buffer", TensorType(kind, shape or (9,)))


def _code(instruction: Instruction, **operands: Vector) -> tuple[list[str], Vector]:
    code = VectorCode(8)
    result = write_scalar(code, instruction, operands)
    return code.lines, result


def test_attributes_become_literals() -> None:
    instruction = LeakyReluInst(_buffer(), _buffer(), alpha=0.25)
    lines, result = _code(instruction, input=Vector("x", FLOAT32))
    assert lines == [
        "v0 = greater_equal(x, splat_float32(0.0, 8))",
        "v1 = mul(splat_float32(0.25, 8), x)",
        "v2 = where(v0, x, v1)",
    ] or lines == [
        "v0 = less(x, splat_float32(0.0, 8))",
        "v1 = mul(x, splat_float32(0.25, 8))",
        "v2 = where(v0, v1, x)",
    ]
    assert result == Vector("v2", FLOAT32)


def test_attribute_may_be_called_like_a_function() -> None:
    instruction = ClipInst(_buffer(), _buffer(), minimum=-1.0, maximum=float("inf"))
    lines, _ = _code(instruction, input=Vector("x", FLOAT32))
    assert lines == [
        "v0 = maximum(x, splat_float32(-1.0, 8))",
        "v1 = minimum(v0, splat_float32(1e999, 8))",
    ]


def test_bounds_of_integers_are_integers_of_their_kind() -> None:
    buffer = _buffer(UINT8)
    lines, _ = _code(
        ClipInst(buffer, buffer, minimum=-5.0, maximum=300.0), input=Vector("x", UINT8)
    )
    assert lines == ["v0 = maximum(x, splat_uint8(0, 8))", "v1 = minimum(v0, splat_uint8(255, 8))"]


def test_tests_of_attributes_are_decided() -> None:
    x, y = Vector("x", UINT8), Vector("y", UINT8)
    buffer = _buffer(UINT8)
    assert _code(ModuloInst(buffer, buffer, buffer, fmod=True), lhs=x, rhs=y)[0] == [
        "v0 = fmod(x, y)"
    ]
    assert _code(ModuloInst(buffer, buffer, buffer, fmod=False), lhs=x, rhs=y)[0] == [
        "v0 = mod(x, y)"
    ]
    shift = BitShiftInst(buffer, buffer, buffer, direction="right")
    assert _code(shift, lhs=x, rhs=y)[0] == ["v0 = shift_right(x, y)"]


def test_comparison_gives_bools_and_flags_are_bools() -> None:
    instruction = IsInfInst(_buffer(BOOL), _buffer(), positive=True, negative=False)
    lines, result = _code(instruction, input=Vector("x", FLOAT32))
    assert result.kind is BOOL
    assert any("splat_bool(True, 8), splat_bool(False, 8)" in line for line in lines)
    lines, result = _code(
        LessInst(_buffer(BOOL), _buffer(), _buffer()),
        lhs=Vector("a", FLOAT32),
        rhs=Vector("b", FLOAT32),
    )
    assert (lines, result) == (["v0 = less(a, b)"], Vector("v0", BOOL))


def test_narrow_floats_are_computed_in_float32_and_rounded_once() -> None:
    buffer = _buffer(FLOAT16)
    lines, result = _code(HardSwishInst(buffer, buffer), input=Vector("x", FLOAT16))
    assert lines[0] == "v0 = convert_float32(x)"
    assert sum("convert" in line for line in lines) == 2
    assert result.kind is FLOAT16


def test_copy_computes_nothing() -> None:
    buffer = _buffer(FLOAT16)
    assert _code(CopyInst(buffer, buffer), src=Vector("x", FLOAT16)) == ([], Vector("x", FLOAT16))


def test_conversion_goes_to_the_kind_of_the_result() -> None:
    instruction = ConvertToInst(_buffer(INT64), _buffer(), kind=INT64)
    assert _code(instruction, input=Vector("x", FLOAT32))[0] == ["v0 = convert_int64(x)"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1.0"), (float("inf"), "1e999"), (-float("inf"), "-1e999"), (True, "True"),
     (-(2**63), "-9223372036854775807 - 1"), (7, "7")],
)  # fmt: skip
def test_numbers_are_written_without_names(number: float, text: str) -> None:
    assert number_text(number) == text
    assert eval(text) == number

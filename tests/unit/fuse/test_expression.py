"""Scalar expressions become vector code."""

import pytest

from glow_nb.fuse.expression import Vector, VectorCode, number_text, write_scalar
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS
from glow_nb.types import ElementKind, TensorType

AddInst = instruction_for(ops.Add)
BitShiftInst = instruction_for(ops.BitShift)
ClipInst = instruction_for(ops.Clip)
ConvertToInst = instruction_for(ops.ConvertTo)
HardSwishInst = instruction_for(ops.HardSwish)
IsInfInst = instruction_for(ops.IsInf)
DequantizeInst = instruction_for(ops.DequantizeLinear)
LeakyReluInst = instruction_for(ops.LeakyRelu)
LessInst = instruction_for(ops.Less)
ModuloInst = instruction_for(ops.Modulo)
MulInst = instruction_for(ops.Mul)
QuantizeInst = instruction_for(ops.QuantizeLinear)
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


def _quantized(code: VectorCode, kind: ElementKind) -> Vector:
    """Return what code makes of quantizing float32 numbers x to *kind*."""
    instruction = QuantizeInst(_buffer(kind), _buffer(), _buffer(), _buffer(kind), kind=kind)
    x, scale, offset = Vector("x", FLOAT32), Vector("scale", FLOAT32), Vector("offset", kind)
    return write_scalar(code, instruction, {"input": x, "scale": scale, "offset": offset})


def _dequantized(code: VectorCode, integers: Vector) -> Vector:
    kind = integers.kind
    instruction = DequantizeInst(_buffer(), _buffer(kind), _buffer(), _buffer(kind))
    scale, offset = Vector("scale", FLOAT32), Vector("offset", kind)
    return write_scalar(code, instruction, {"input": integers, "scale": scale, "offset": offset})


def test_what_is_quantized_and_dequantized_at_once_stays_float() -> None:
    code = VectorCode(8)
    integers = _quantized(code, UINT8)
    assert integers == Vector("saturate_uint8(v3)", UINT8)  # written where it is read
    assert _dequantized(code, integers) == Vector("v6", FLOAT32)
    assert code.lines == [
        "v0 = div(x, scale)",
        "v1 = rint(v0)",
        "v2 = convert_float32(offset)",
        "v3 = add(v1, v2)",
        "v4 = clamp_uint8(v3)",
        "v5 = sub(v4, v2)",
        "v6 = mul(v5, scale)",
    ]


def test_what_may_be_minus_zero_becomes_an_integer_before_it_is_a_float_again() -> None:
    code = VectorCode(8)
    rounded = code.call(SCALAR_FUNCTIONS["rint"], FLOAT32, Vector("x", FLOAT32))
    integers = code.call(SCALAR_FUNCTIONS["saturate"], UINT8, rounded)
    code.call(SCALAR_FUNCTIONS["convert_float32"], FLOAT32, integers)
    assert code.lines == ["v0 = rint(x)", "v1 = convert_float32(saturate_uint8(v0))"]


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

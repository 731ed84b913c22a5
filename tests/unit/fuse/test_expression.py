"""Scalar expressions become vector code."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.fuse.expression import write_scalar
from glow_nb.fuse.vector_code import Vector, VectorCode, number_text
from glow_nb.hlir import ops
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Instruction
from glow_nb.llir.scalar_functions import SCALAR_FUNCTIONS

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
INT16, INT32, INT64 = ElementKind.INT16, ElementKind.INT32, ElementKind.INT64
UINT8 = ElementKind.UINT8


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
        "v0 = at_least(x, splat_float32(-1.0, 8))",
        "v1 = at_most(v0, splat_float32(1e999, 8))",
    ]


@pytest.mark.parametrize(
    ("bounds", "lines"),
    [
        ((0.0, 0.0), ["positive_part(x)", "at_most(v0, splat_float32(0.0, 8))"]),
        (
            (-0.0, -0.0),
            ["at_least(x, splat_float32(-0.0, 8))", "minimum(v0, splat_float32(-0.0, 8))"],
        ),
    ],
)
def test_bounds_of_zero_have_a_sign(bounds: tuple[float, float], lines: list[str]) -> None:
    instruction = ClipInst(_buffer(), _buffer(), minimum=bounds[0], maximum=bounds[1])
    found, _ = _code(instruction, input=Vector("x", FLOAT32))
    assert [line.split(" = ")[1] for line in found] == lines


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
    assert integers == Vector("saturate_sum_uint8(v0, offset)", UINT8)  # written where it is read
    assert _dequantized(code, integers) == Vector("v4", FLOAT32)
    assert code.lines == [
        "v0 = div(x, scale)",
        "v1 = rint(v0)",
        "v2 = convert_float32(offset)",
        "v3 = clamp_around_uint8(v1, v2)",
        "v4 = mul(v3, scale)",
    ]


def test_another_offset_is_taken_from_what_is_within_limits() -> None:
    code = VectorCode(8)
    other = code.call(SCALAR_FUNCTIONS["convert_float32"], FLOAT32, Vector("other", UINT8))
    real = code.call(SCALAR_FUNCTIONS["convert_float32"], FLOAT32, _quantized(code, UINT8))
    code.call(SCALAR_FUNCTIONS["sub"], FLOAT32, real, other)
    assert code.lines == [
        "v0 = div(x, scale)",
        "v1 = clamp_uint8(add(rint(v0), convert_float32(offset)))",
        "v2 = convert_float32(other)",
        "v3 = sub(v1, v2)",
    ]


@pytest.mark.parametrize("kind", [UINT8, ElementKind.INT4])
def test_what_is_taken_from_itself_is_no_offset(kind: ElementKind) -> None:
    code = VectorCode(8)
    real = code.convert(_quantized(code, kind), FLOAT32)
    code.call(SCALAR_FUNCTIONS["sub"], FLOAT32, real, real)
    number = len(code.lines) - 1
    assert code.lines[-1] == f"v{number} = sub(v{number - 1}, v{number - 1})"


def test_bytes_that_become_floats_and_bytes_again_are_no_sums() -> None:
    code = VectorCode(8)
    wide = code.convert(Vector("x", UINT8), FLOAT32)
    assert code.call(SCALAR_FUNCTIONS["saturate"], UINT8, wide).name == (
        "saturate_uint8(convert_float32(x))"
    )


def test_chains_of_sums_of_integers_are_as_long_as_they_are() -> None:
    code = VectorCode(8)
    x, y = (code.convert(Vector(name, UINT8), FLOAT32) for name in "xy")
    for _ in range(20):
        x, y = y, code.call(SCALAR_FUNCTIONS["add"], FLOAT32, x, y)
    assert (len(code.lines), code.operations) == (22, 22)
    assert max(map(len, code.lines)) < 30


def test_longer_integers_are_added_as_floats() -> None:
    code = VectorCode(8)
    assert _quantized(code, INT16).name == "saturate_int16(add(rint(v0), convert_float32(offset)))"


def test_short_integers_are_subtracted_before_they_are_widened_to_floats() -> None:
    code = VectorCode(8)
    assert _dequantized(code, Vector("x", UINT8)) == Vector("v4", FLOAT32)
    assert code.lines == [
        "v0 = convert_int32(x)",
        "v1 = convert_int32(offset)",
        "v2 = sub(v0, v1)",
        "v3 = convert_float32(v2)",
        "v4 = mul(v3, scale)",
    ]


def test_sums_of_products_lose_their_offset_as_floats() -> None:
    code = VectorCode(8)
    _dequantized(code, Vector("x", INT32))
    assert code.lines[:3] == [
        "v0 = convert_float32(x)",
        "v1 = convert_float32(offset)",
        "v2 = sub(v0, v1)",
    ]


def test_what_waits_to_be_written_counts_as_an_operation() -> None:
    code = VectorCode(8)
    assert code.operations == 0
    integers = _quantized(code, UINT8)
    assert (len(code.lines), code.operations) == (1, 5)
    code.call(SCALAR_FUNCTIONS["neg"], UINT8, integers)
    assert (len(code.lines), code.operations) == (3, 6)
    wide = VectorCode(8)
    x = wide.convert(Vector("x", UINT8), FLOAT32)
    wide.call(SCALAR_FUNCTIONS["mul"], FLOAT32, x, x)
    assert (len(wide.lines), wide.operations) == (2, 2)


def test_what_may_be_minus_zero_becomes_an_integer_before_it_is_a_float_again() -> None:
    code = VectorCode(8)
    rounded = code.call(SCALAR_FUNCTIONS["rint"], FLOAT32, Vector("x", FLOAT32))
    integers = code.call(SCALAR_FUNCTIONS["saturate"], UINT8, rounded)
    code.call(SCALAR_FUNCTIONS["convert_float32"], FLOAT32, integers)
    code.call(SCALAR_FUNCTIONS["neg"], FLOAT32, code.convert(integers, FLOAT32))
    assert code.lines == [
        "v0 = saturate_uint8(rint(x))",
        "v1 = convert_float32(v0)",
        "v2 = neg(v1)",
    ]


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

"""Conversion between element kinds against ONNX's reference: every code, every float16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.reference.ops.op_cast import cast_to

from glow_nb.base.conversion import bits_as, converted, is_small_float, saturated
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.schema.element_kinds import code_of
from tests.unit.storage_numbers import UNFIT, codes_of, every_float16, near_boundaries

E8M0, FLOAT32 = ElementKind.FLOAT8E8M0, ElementKind.FLOAT32
STORAGE = [kind for kind in ElementKind if kind.is_storage]
SMALL_FLOATS = [kind for kind in STORAGE if is_small_float(kind)]

onnx_has_all_kinds = pytest.mark.skipif(
    not hasattr(onnx.TensorProto, "FLOAT6E2M3"), reason="this release of ONNX has fewer kinds"
)


def referenced(array: Array, kind: ElementKind) -> Array:
    with np.errstate(all="ignore"):
        to: Any = code_of(kind)
        found: Array = cast_to(array, to, True)
    return found


def assert_same_bits(found: Array, expected: Array) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("kind", STORAGE)
@pytest.mark.parametrize("dest", [FLOAT32, ElementKind.FLOAT16, ElementKind.FLOAT64])
def test_every_code_decodes_as_ml_dtypes_does(kind: ElementKind, dest: ElementKind) -> None:
    codes = codes_of(kind)
    found = converted(codes, dest)
    np.testing.assert_array_equal(found, codes.astype(dest.dtype))
    assert found.dtype == dest.dtype


@pytest.mark.parametrize("kind", STORAGE)
def test_unused_bits_of_a_byte_mean_nothing(kind: ElementKind) -> None:
    whole = np.arange(256, dtype=np.uint8)
    low = whole & ((1 << kind.bits) - 1)
    np.testing.assert_array_equal(
        converted(whole.view(kind.dtype), FLOAT32), converted(low.view(kind.dtype), FLOAT32)
    )


@onnx_has_all_kinds
@pytest.mark.parametrize("kind", SMALL_FLOATS)
@pytest.mark.parametrize("source", ["float16", "float32"])
def test_small_floats_are_rounded_as_onnx_does(kind: ElementKind, source: str) -> None:
    numbers = every_float16() if source == "float16" else near_boundaries(kind)
    if kind is E8M0:  # the reference takes other powers for infinity and subnormal numbers
        magnitude = np.abs(numbers.astype(np.float64))
        numbers = numbers[(magnitude >= 2.0**-126) & np.isfinite(magnitude)]
    assert_same_bits(converted(numbers, kind), referenced(numbers, kind))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, 0), (2.0**-149, 0), (2.0**-127, 0), (1.25 * 2.0**-127, 1), (2.0**-126, 1),
        (1, 127), (1 + 2.0**-23, 128), (2, 128), (2.0**127, 254), (1.5 * 2.0**127, 254),
        (np.inf, 254), (np.nan, 255),
    ],
)  # fmt: skip
def test_powers_of_two_are_rounded_up(number: float, expected: int) -> None:
    assert converted(np.array([number], np.float32), E8M0).view(np.uint8)[0] == expected


@onnx_has_all_kinds
@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
@pytest.mark.parametrize("source", [np.float32, np.float16, np.int8, np.uint8, np.int64])
def test_small_integers_keep_the_low_bits(kind: str, source: type) -> None:
    numbers: Array = np.arange(0 if source is np.uint8 else -100, 100).astype(source)
    small = ElementKind(kind)
    expected = (numbers.astype(np.int64).astype(np.uint8) & (1 << small.bits) - 1).astype(np.uint8)
    assert_same_bits(converted(numbers, small), expected.view(small.dtype))
    assert_same_bits(converted(numbers, small), referenced(numbers, small))


@pytest.mark.parametrize("kind", SMALL_FLOATS)
def test_double_is_rounded_once(kind: ElementKind) -> None:
    limits: Any = ml_dtypes.finfo(kind.dtype)  # type: ignore[no-untyped-call]
    step = float(limits.smallest_normal) * 2.0 ** -(limits.nmant + 1)
    tie = float(limits.smallest_normal) + step
    if kind is E8M0:
        return  # it goes through float32
    numbers = np.array([tie, tie * (1 + 2.0**-50), tie * (1 - 2.0**-50)])
    below, above = float(limits.smallest_normal), float(limits.smallest_normal) + 2 * step
    np.testing.assert_array_equal(
        converted(converted(numbers, kind), ElementKind.FLOAT64), [below, above, below]
    )


def test_bits_are_kept_and_any_bit_is_true() -> None:
    numbers = np.array([1.0, -0.0, np.nan], np.float32)
    np.testing.assert_array_equal(bits_as(numbers, ElementKind.INT32), numbers.view(np.int32))
    flags = bits_as(np.array([0, 1, 128], np.uint8), ElementKind.BOOL)
    np.testing.assert_array_equal(flags, [False, True, True])


def test_numbers_are_rounded_and_saturate() -> None:
    numbers = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, -1.5, 127.5, 1e30], np.float32)
    expected = {
        ElementKind.INT8: [-128, 127, -128, 0, 2, 0, -2, 127, 127],
        ElementKind.UINT8: [0, 255, 0, 0, 2, 0, 0, 128, 255],
        ElementKind.INT32: [-(2**31), 2**31 - 1, -(2**31), 0, 2, 0, -2, 128, 2**31 - 1],
        ElementKind.INT4: [-8, 7, -8, 0, 2, 0, -2, 7, 7],
    }
    for kind, wanted in expected.items():
        found = saturated(numbers, kind)
        assert found.dtype == kind.dtype
        assert found.astype(np.int64).tolist() == wanted, kind


def _as_integer(number: float, kind: ElementKind) -> int:
    """Return what a float becomes, by Python's integers."""
    bits = max(kind.bits, 32)
    half = 1 << (bits - 1)
    upper = bits == kind.bits and not kind.is_signed and number >= half
    moved = number - half if upper else number
    fits = abs(moved) < half  # not for a NaN
    whole = (int(moved) if fits else -half) ^ (half if upper else 0)
    low = whole & ((1 << kind.bits) - 1)
    return low - (1 << kind.bits) if kind.is_signed and low >> (kind.bits - 1) else low


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", [kind for kind in ElementKind if kind.value[0] in "iu"])
def test_floats_that_do_not_fit_have_one_meaning(source: str, kind: ElementKind) -> None:
    with np.errstate(over="ignore"):
        numbers = np.array(UNFIT).astype(ElementKind(source).dtype)
    expected = [_as_integer(float(number), kind) for number in numbers]
    assert converted(numbers, kind).astype(object).tolist() == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("int32", [-(2**31), -(2**31), -(2**31), -300]),
        ("int64", [-(2**63), 3 * 10**9, -(2**63), -300]),
        ("int8", [0, 0, 0, -44]),
        ("uint8", [0, 0, 0, 212]),
        ("uint16", [0, 0, 0, 2**16 - 300]),
        ("uint32", [2**31, 3 * 10**9, 0, 2**32 - 300]),
        ("uint64", [2**63, 3 * 10**9, 0, 2**64 - 300]),
    ],
)
def test_floats_that_do_not_fit_become_what_numpy_makes_of_long_arrays_on_x86(
    kind: str, expected: list[int]
) -> None:
    numbers = np.array([np.nan, 3e9, np.inf, -300.5])
    assert converted(numbers, ElementKind(kind)).astype(object).tolist() == expected

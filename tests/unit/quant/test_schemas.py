"""Scales and offsets: exact at 0, near everywhere in the range, and those of ONNX Runtime."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glow_nb.base.errors import OptionError
from glow_nb.base.types import ElementKind
from glow_nb.quant.schemas import (
    KINDS,
    SCHEMAS,
    Encoding,
    asymmetric,
    kind_named,
    power_of_two,
    schema_named,
    symmetric,
    symmetric_unsigned,
)

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
RANGES = st.tuples(NUMBERS, NUMBERS).map(lambda ends: (min(ends), max(ends)))

Ends = tuple[float, float]
ANY_SCHEMA = st.sampled_from(sorted(SCHEMAS))
ANY_KIND = st.sampled_from(KINDS)


def encoding_of(ends: Ends, name: str, kind: ElementKind) -> Encoding:
    return SCHEMAS[name](*ends, kind)


@given(RANGES, ANY_SCHEMA, ANY_KIND)
def test_zero_is_exact_and_the_numbers_fit_the_kind(
    ends: Ends, name: str, kind: ElementKind
) -> None:
    found = encoding_of(ends, name, kind)
    info = np.iinfo(kind.dtype)
    assert info.min <= found.offset <= info.max
    assert 0 < found.scale < math.inf
    assert found.scale == np.float32(found.scale) >= np.finfo(np.float32).tiny
    zero = np.zeros(1, np.float32)
    assert found.stored(zero)[0] == found.offset
    assert found.rounded(zero)[0] == 0


@given(RANGES, ANY_SCHEMA, ANY_KIND, st.floats(0, 1))
def test_a_number_of_the_range_moves_by_half_a_step(
    ends: Ends, name: str, kind: ElementKind, share: float
) -> None:
    found = encoding_of(ends, name, kind)
    assume(found.scale > 2.0**-126)
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    number = np.array(min(max(low + share * (high - low), low), high), np.float32)
    # float32 rounds numbers of many steps by a part of one
    slack = 0.5 + (np.iinfo(kind.dtype).max + 1) * 2.0**-22
    if name == "power_of_two" and max(-low, high) > np.finfo(np.float32).max / 2:
        number = number.clip(found.lowest, found.highest)  # with the next power, all would overflow
    assert abs(float(found.rounded(number)) - float(number)) <= slack * found.scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_all_integers_stand_for_finite_numbers(name: str, kind: ElementKind) -> None:
    """The least float32 is what many models add to hide a score."""
    most = float(np.finfo(np.float32).max)
    for ends in ((-most, most), (-most, 0.0), (0.0, most), (-most, 1.0)):
        found = encoding_of(ends, name, kind)
        reached = float(np.abs(found.rounded(np.array(ends, np.float32))).max())
        assert (0.49 if name == "power_of_two" else 0.99) * most < reached < math.inf


def test_what_the_schemas_are() -> None:
    assert asymmetric(-1.0, 4.1, UINT8) == Encoding(UINT8, float(np.float32(5.1 / 255)), 50)
    assert asymmetric(1.0, 2.55, UINT8) == Encoding(UINT8, float(np.float32(0.01)), 0)
    assert symmetric(-1.27, 0.5, INT8) == Encoding(INT8, float(np.float32(0.01)), 0)
    assert symmetric(0.5, 1.27, UINT8) == Encoding(UINT8, float(np.float32(0.01)), 128)
    assert symmetric_unsigned(0.0, 2.55, INT8) == Encoding(INT8, float(np.float32(0.01)), -128)
    assert symmetric_unsigned(0.0, 2.55, UINT8) == Encoding(UINT8, float(np.float32(0.01)), 0)
    assert symmetric_unsigned(-1.27, 1.0, INT8) == symmetric(-1.27, 1.0, INT8)
    assert power_of_two(-1.0, 3.0, INT8) == Encoding(INT8, 2.0**-5, 0)
    assert power_of_two(0.0, 127.0, INT8) == Encoding(INT8, 1.0, 0)
    assert symmetric(-2.0, 32767.0, INT16) == Encoding(INT16, 1.0, 0)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_range_of_nothing_has_the_scale_1(name: str) -> None:
    assert SCHEMAS[name](0.0, 0.0, INT8).scale == 1.0


@given(RANGES, st.sampled_from([INT8, UINT8]))
def test_asymmetric_is_what_onnxruntime_computes(ends: Ends, kind: ElementKind) -> None:
    from onnxruntime.quantization.quant_utils import compute_scale_zp

    info = np.iinfo(kind.dtype)
    limits = [np.array(limit, kind.dtype) for limit in (info.min, info.max)]
    offset, scale = compute_scale_zp(*(np.array(end, np.float32) for end in ends), *limits)
    assume(float(scale) >= 2.0**-126 and scale != 1.0)
    found = asymmetric(*ends, kind)
    assert found.scale == scale
    assert abs(found.offset - int(offset)) <= 1  # they divide before the scale is rounded


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match=r"schema=\['symmetric'\]; did you mean"):
        schema_named(["symmetric"])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="schema='symetric'; did you mean 'symmetric'"):
        schema_named("symetric")
    with pytest.raises(OptionError, match="weights='int4': choose one of"):
        kind_named("weights", "int4")
    assert kind_named("activations", UINT8) is UINT8

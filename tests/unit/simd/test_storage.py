"""Storage kinds in machine code against NumPy: every code, every float16, every boundary."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.conversion import converted, is_small_float
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for
from tests.in_turn import in_turn, one_in
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.running import RunningKernel
from tests.unit.storage_numbers import codes_of, every_float16, near_boundaries

BitCastInst = instruction_for(ops.BitCast)
ConvertToInst = instruction_for(ops.ConvertTo)

STORAGE = [kind for kind in ElementKind if kind.is_storage]
FLOAT32 = ElementKind.FLOAT32


def compiled(array: Array, kind: ElementKind, lanes: int = 8) -> Array:
    """Return *array* in *kind*, as machine code converts it."""
    type = TensorType.of(array)
    instruction = instruction_of(ConvertToInst, [type], kind=kind)
    kernel = RunningKernel(generate_kernel(instruction, Target.host(lanes)), Target.host(lanes))
    dest = np.zeros(array.shape, kind.dtype)
    kernel(dest, array)
    return dest


def check(array: Array, kind: ElementKind, lanes: int = 8) -> None:
    found, expected = compiled(array, kind, lanes), converted(array, kind)
    if kind.is_storage:
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
        return
    got, wanted = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(got, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(wanted[is_number]))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "dest"),
    in_turn(STORAGE, ["float16", "bfloat16", "float32", "float64", "bool"]),
)
def test_every_code_decodes(kind: ElementKind, dest: str) -> None:
    check(codes_of(kind), ElementKind(dest), lanes=4 if kind.bits > 4 else 8)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(2, STORAGE))
def test_unused_bits_of_a_byte_mean_nothing(kind: ElementKind) -> None:
    check(np.arange(256, dtype=np.uint8).view(kind.dtype), FLOAT32)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "source"),
    in_turn(filter(is_small_float, STORAGE), ["float16", "bfloat16", "float32", "float64"]),
)
def test_floats_are_rounded(kind: ElementKind, source: str) -> None:
    numbers = near_boundaries(kind)
    if source == "float16":
        numbers = every_float16()
    if source == "bfloat16":
        numbers = np.arange(1 << 16, dtype=np.uint16).view(ElementKind.BFLOAT16.dtype)
    if source == "float64":
        wide = numbers.astype(np.float64)
        numbers = np.concatenate([wide, wide * (1 + 2.0**-50), wide * (1 - 2.0**-50)])
    check(numbers, kind)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "source"),
    in_turn(STORAGE, ["bool", "int8", "uint8", "int16", "int32", "uint64", "int64"]),
)
def test_integers_are_encoded(kind: ElementKind, source: str) -> None:
    limits = [0, 1] if source == "bool" else [np.iinfo(source).min, np.iinfo(source).max]
    numbers = np.concatenate([np.arange(-130, 260), [2**24 + 1, 2**40 + 1]])
    check(np.concatenate([numbers.astype(source), np.array(limits, source)]), kind)


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "dest"), in_turn(STORAGE, [*STORAGE][5:] + [*STORAGE][:5]))
def test_storage_kinds_convert_to_each_other(kind: ElementKind, dest: ElementKind) -> None:
    codes = codes_of(kind)
    numbers = converted(codes, FLOAT32)
    if is_small_float(kind) and not is_small_float(dest):
        # What is too large for int32 is arbitrary.
        codes = codes[np.abs(numbers.astype(np.float64)) < 2.0**31]
    check(codes, dest)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", [4, 16])
def test_every_width_of_vectors(lanes: int) -> None:
    for kind in (ElementKind.FLOAT8E4M3FN, ElementKind.FLOAT8E8M0, ElementKind.INT4):
        check(codes_of(kind), FLOAT32, lanes)
        check(np.arange(-8, 8, 0.25).astype(np.float32), kind, lanes)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("source", "dest"),
    [
        ("float32", "int32"),
        ("uint64", "float64"),
        ("bfloat16", "int16"),
        ("float16", "uint16"),
        ("float8e5m2", "uint8"),
        ("uint4", "float4e2m1"),
        ("bool", "int8"),
        ("int8", "bool"),
    ],
)
def test_bits_are_kept(source: str, dest: str) -> None:
    from_kind, to_kind = ElementKind(source), ElementKind(dest)
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 2 if source == "bool" else 256, 53 * from_kind.size_bytes, np.uint8)
    pattern &= (1 << min(from_kind.bits, 8)) - 1
    array = pattern.view(from_kind.dtype)
    instruction = instruction_of(BitCastInst, [TensorType.of(array)], kind=to_kind)
    kernel = RunningKernel(generate_kernel(instruction, Target.host()), Target.host())
    found = np.zeros(53, to_kind.dtype)
    kernel(found, array)
    expected = pattern != 0 if dest == "bool" else pattern
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))

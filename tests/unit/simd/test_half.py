"""``float16`` to ``float32`` and back: every number, with the processor's help and without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind
from glow_nb.codegen.compile import ALLOWED_SYMBOLS, compile_kernel
from glow_nb.codegen.symbols import read_symbols
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource
from tests.in_turn import in_turn
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

FLOAT16, FLOAT32, FLOAT64 = ElementKind.FLOAT16, ElementKind.FLOAT32, ElementKind.FLOAT64


def without_instructions(target: Target) -> Target:
    """Return the same processor without instructions that convert ``float16``."""
    features = target.features.replace("+f16c", "-f16c").replace("+avx512", "-avx512")
    return replace(target, features=features)


HOST = Target.host()
TARGETS = {"host": HOST, "bits": without_instructions(HOST)}


def converted(array: Array, kind: ElementKind, target: Target, lanes: int) -> Array:
    text = f"""
def kernel(dest, src, scratch, thread, threads):
    for i in range(0, {array.size}, {lanes}):
        store(dest, i, convert_{kind.value}(load(src, i, {lanes})))
"""
    kinds = (kind, ElementKind.of(array.dtype))
    dest = np.empty(array.shape, kind.dtype)
    RunningKernel(KernelSource("convert", text, kinds), target)(dest, array)
    return dest


def check_same_numbers(found: Array, expected: Array) -> None:
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    bits = f"u{found.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(bits)[~is_nan], expected.view(bits)[~is_nan])


def single_numbers() -> Array:
    """Return ``float32`` numbers: each ``float16``, what lies between two, and any bits."""
    exact = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (exact[:-1].astype(np.float64) + exact[1:]) / 2
        halves = np.append(between, 0).astype(np.float32)
        near = [np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)]
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, np.uint32)
    return np.concatenate([exact, halves, *near, bits.view(np.float32)])


@pytest.mark.parametrize("lanes", [1, *LANE_COUNTS])
@pytest.mark.parametrize("name", TARGETS)
def test_every_number_is_widened(name: str, lanes: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = converted(every, FLOAT32, TARGETS[name], lanes)
    check_same_numbers(found, every.astype(np.float32))


@pytest.mark.parametrize("lanes", [1, *LANE_COUNTS])
@pytest.mark.parametrize("name", TARGETS)
def test_numbers_are_rounded_to_nearest(name: str, lanes: int) -> None:
    numbers = single_numbers()
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float16)
    check_same_numbers(converted(numbers, FLOAT16, TARGETS[name], lanes), expected)


@pytest.mark.parametrize("name", TARGETS)
def test_numbers_of_64_bits_are_rounded_once(name: str) -> None:
    exact = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    exact = exact[np.isfinite(exact)]
    numbers = np.concatenate([(exact[:-1] + exact[1:]) / 2 * (1 + t) for t in (-1e-15, 0, 1e-15)])
    numbers = numbers[: numbers.size // 16 * 16]
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float16)
    check_same_numbers(converted(numbers, FLOAT16, TARGETS[name], 8), expected)


CROSS = {
    "sse2": Target("x86_64-unknown-linux-gnu", "x86-64", "+sse2", lanes=4),
    "avx": Target("x86_64-unknown-linux-gnu", "sandybridge", "+avx", lanes=8),
    "f16c": Target("x86_64-unknown-linux-gnu", "haswell", "+avx,+avx2,+fma,+f16c", lanes=8),
    "neon": Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", lanes=4),
    "riscv": Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+d,+f", lanes=4),
    "mach-o": Target("x86_64-apple-macosx11.0.0", "x86-64", "+sse2", lanes=4),
    "coff": Target("x86_64-pc-windows-msvc", "x86-64", "+sse2", lanes=4),
}


@pytest.mark.parametrize(("name", "lanes"), in_turn(CROSS, [1, *LANE_COUNTS]))
def test_no_processor_needs_a_library_to_convert(name: str, lanes: int) -> None:
    """The arcsine ends in a sign that LLVM would move behind both roundings."""
    text = f"""
def kernel(dest, src, scratch, thread, threads):
    store(dest, 0, asin(load(src, 0, {lanes})))
    put(dest, 1, get(src, 0))
"""
    payload = compile_kernel(KernelSource("arcsine", text, (FLOAT16, FLOAT16)), CROSS[name])
    symbols = read_symbols(payload)
    assert symbols is not None
    assert symbols.undefined <= ALLOWED_SYMBOLS

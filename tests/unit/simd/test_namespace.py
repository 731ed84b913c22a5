"""The SIMD layer against NumPy: every intrinsic, every element kind, every vector width."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glow_nb.base.conversion import converted, saturated
from glow_nb.base.types import Array, ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.simd.namespace import NAMESPACE
from tests.in_turn import each_with_one_width, left_out
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

BOOL, FLOAT32, INT32 = ElementKind.BOOL, ElementKind.FLOAT32, ElementKind.INT32
COMPUTED = [kind for kind in ElementKind if not kind.is_storage]
INTEGERS = [kind for kind in COMPUTED if not kind.is_float and kind is not BOOL]
FLOATS = [kind for kind in ElementKind if kind.is_float]
NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)

Rule = Callable[..., Any]

ARITHMETIC: dict[str, Rule] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,
    "fmod": np.fmod,
    "floor_div": np.floor_divide,
}
FLOAT_UNARY: dict[str, Rule] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
}
INTEGER_BINARY: dict[str, Rule] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
COMPARISONS: dict[str, Rule] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}


def run(
    expressions: list[str], result: ElementKind, lhs: Array, rhs: Array, lanes: int
) -> list[Array]:
    """Evaluate expressions over the vectors a and b of all elements of *lhs* and *rhs*."""
    out = SourceWriter()
    with out.block("def kernel(dest, lhs, rhs, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {lhs.size}, {lanes}):"):
            out.line(f"a = load(lhs, i, {lanes})\nb = load(rhs, i, {lanes})")
            for number, expression in enumerate(expressions):
                out.line(f"store(dest, i + {number * lhs.size}, {expression})")
    kinds = (result, ElementKind.of(lhs.dtype), ElementKind.of(rhs.dtype))
    kernel = RunningKernel(KernelSource("expressions", out.text, kinds), Target.host(lanes))
    found, whole = guarded((len(expressions), lhs.size), result)
    kernel(found, lhs, rhs)
    assert guards_are_intact(whole)
    return list(found)


def samples(kind: ElementKind) -> tuple[Array, Array]:
    """Return two arrays of 64 elements with the numbers that trouble arithmetic."""
    random = np.random.default_rng(1)
    if kind is BOOL:
        return random.random(64) < 0.5, random.random(64) < 0.5
    if kind.is_float:
        pool = np.array([0, -0.0, 1, -1, 2.5, -2.5, 3, 0.5, -7, np.nan, np.inf, -np.inf])
        return tuple(random.choice(pool, 64).astype(kind.dtype) for _ in range(2))  # type: ignore[return-value]
    limits = np.iinfo(kind.dtype)
    last = 0 if limits.min == 0 else -1
    pool = np.array([0, 1, 2, 3, 5, 7, limits.max, limits.min, last], kind.dtype)
    lhs, rhs = (random.choice(pool, 64) for _ in range(2))
    lhs[:2], rhs[:2] = limits.min, limits.max if limits.min == 0 else -1
    return lhs, rhs


def assert_equal(found: Array, expected: Array, name: str = "") -> None:
    """Compare, a NaN being equal to a NaN; NumPy knows none in bfloat16."""
    if ElementKind.of(found.dtype).is_storage:
        found, expected = found.view(np.uint8), expected.view(np.uint8)
    if ElementKind.of(found.dtype) in NARROW:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(found, expected, err_msg=name)


def check(rules: dict[str, Rule], found: list[Array], *operands: Array) -> None:
    with np.errstate(all="ignore"):
        for (name, rule), row in zip(rules.items(), found, strict=True):
            assert_equal(row, rule(*operands).astype(row.dtype), name)


def calls(rules: dict[str, Rule], arguments: str) -> list[str]:
    return [f"{name}({arguments})" for name in rules]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width([*INTEGERS, *FLOATS], slow=left_out(2, INTEGERS))
)
def test_arithmetic_is_that_of_numpy(kind: ElementKind, lanes: int) -> None:
    lhs, rhs = samples(kind)
    check(ARITHMETIC, run(calls(ARITHMETIC, "a, b"), kind, lhs, rhs, lanes), lhs, rhs)


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(FLOATS))
def test_float_functions_are_those_of_numpy(kind: ElementKind, lanes: int) -> None:
    lhs, rhs = samples(kind)
    binary: dict[str, Rule] = {"div": np.divide, "copysign": np.copysign}
    expressions = [*calls(FLOAT_UNARY, "a"), *calls(binary, "a, b"), "fma(a, b, a)"]
    *found, fma = run(expressions, kind, lhs, rhs, lanes)
    check(FLOAT_UNARY, found[: len(FLOAT_UNARY)], lhs)
    check(binary, found[len(FLOAT_UNARY) :], lhs, rhs)
    with np.errstate(all="ignore"):
        exact = lhs.astype(float) * rhs.astype(float) + lhs.astype(float)
        expected = exact.astype(kind.dtype)
    assert_equal(fma, expected)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width(INTEGERS, slow=left_out(2, INTEGERS))
)
def test_integer_functions_are_those_of_numpy(kind: ElementKind, lanes: int) -> None:
    lhs, rhs = samples(kind)
    rhs = np.mod(rhs, 70 if kind.size_bytes > 1 else 64)
    unary: dict[str, Rule] = {"neg": np.negative, "abs": np.abs, "bit_not": np.invert}
    expressions = [*calls(INTEGER_BINARY, "a, b"), *calls(unary, "a"), "div(a, b)"]
    *found, quotient = run(expressions, kind, lhs, rhs, lanes)
    check(INTEGER_BINARY, found[: len(INTEGER_BINARY)], lhs, rhs)
    check(unary, found[len(INTEGER_BINARY) :], lhs)
    exponent = (rhs % 9).astype(kind.dtype)
    check({"pow": np.power}, run(["pow(a, b)"], kind, lhs, exponent, lanes), lhs, exponent)
    towards_zero = [
        abs(int(x)) // int(y) * (1 if x > 0 else -1) if y else 0
        for x, y in zip(lhs, rhs, strict=True)
    ]
    np.testing.assert_array_equal(quotient, np.array(towards_zero, dtype=object).astype(kind.dtype))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width(COMPUTED, slow=left_out(2, COMPUTED))
)
def test_comparisons_choose_what_where_takes(kind: ElementKind, lanes: int) -> None:
    lhs, rhs = samples(kind)
    special: dict[str, Rule] = {"isnan": np.isnan, "isinf": np.isinf} if kind.is_float else {}
    expressions = [*calls(COMPARISONS, "a, b"), *calls(special, "a")]
    found = run(expressions, BOOL, lhs, rhs, lanes)
    check(COMPARISONS, found[: len(COMPARISONS)], lhs, rhs)
    check(special, found[len(COMPARISONS) :], lhs)
    chosen = run(["where(less(a, b), a, b)"], kind, lhs, rhs, lanes)[0]
    with np.errstate(invalid="ignore"):
        assert_equal(chosen, np.where(np.less(lhs, rhs), lhs, rhs))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"),
    each_with_one_width(ElementKind, only=[FLOAT32, BOOL, ElementKind.INT8, ElementKind.FLOAT16]),
)
def test_conversions_are_those_of_numpy(kind: ElementKind, lanes: int) -> None:
    """The default run has a kind of each sort; the test of instructions converts all of them."""
    largest = (32, 60) if kind.is_storage else (100, 127)
    source = converted(np.array([0, 1, 2, 3, 7.5, 0.4, *largest] * 2), kind)
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {source.size}, {lanes}):"):
            for number, dest in enumerate(ElementKind):
                row = f"as_{dest.value}(at(dest, {number * source.size * 8}))"
                out.line(f"store({row}, i, convert_{dest.value}(load(x, i, {lanes})))")
    target = Target.host(lanes)
    kernel = RunningKernel(KernelSource("conversions", out.text, (ElementKind.UINT8, kind)), target)
    found, whole = guarded((len(ElementKind), source.size * 8), ElementKind.UINT8)
    kernel(found, source)
    assert guards_are_intact(whole)
    for row, dest in zip(found, ElementKind, strict=True):
        assert_equal(row.view(dest.dtype)[: source.size], converted(source, dest), dest.value)


@pytest.mark.jit
@pytest.mark.parametrize("dest", NARROW)
@pytest.mark.parametrize("kind", [FLOAT32, ElementKind.FLOAT64])
def test_narrowing_rounds_once_to_nearest_even(kind: ElementKind, dest: ElementKind) -> None:
    random = np.random.default_rng(2)
    steps = np.array([1, 1 + 2**-8, 1 + 2**-9, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-40])
    values = np.concatenate(
        [steps, -steps, random.normal(0, 1e-6, 200), random.normal(0, 3e4, 200)]
    )
    values = np.concatenate([values, [np.nan, np.inf, -np.inf, 65519.999, 1e39, 0.0]])
    source = (
        np.resize(values, 448).astype(kind.dtype, casting="unsafe") if kind is not FLOAT32 else None
    )
    if source is None:
        with np.errstate(over="ignore"):
            source = np.resize(values, 448).astype(np.float32)
    found = run([f"convert_{dest.value}(a)"], dest, source, source, 8)[0]
    if dest is ElementKind.BFLOAT16 and kind is ElementKind.FLOAT64:
        pytest.skip("ml_dtypes rounds twice on this way")
    with np.errstate(over="ignore"):
        assert_equal(found, source.astype(dest.dtype))


@pytest.mark.jit
def test_floats_that_do_not_fit_keep_the_low_bits_of_an_int32() -> None:
    source = np.resize(np.array([np.nan, np.inf, -np.inf, 300.0, -300.0, -1.5, 1e20]), 16)
    source = source.astype(np.float32)
    signed = run(["convert_int8(a)"], ElementKind.INT8, source, source, 8)[0]
    assert signed[:7].tolist() == [0, 0, 0, 44, -44, -1, 0]
    unsigned = run(["convert_uint8(a)"], ElementKind.UINT8, source, source, 8)[0]
    assert unsigned[:7].tolist() == [0, 0, 0, 44, 212, 255, 0]


SATURATED = [k for k in ElementKind if k.value.startswith(("int", "uint")) and k.bits <= 32]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"),
    each_with_one_width([FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16, INT32], only=[FLOAT32]),
)
def test_numbers_saturate_in_every_integer_kind(kind: ElementKind, lanes: int) -> None:
    edges = [float(limit + step) for k in SATURATED for limit in k.limits for step in (-1, 0, 1)]
    special = [np.nan, np.inf, -np.inf, 3e38, -3e38, 0.5, 1.5, -0.5, -2.5, 127.5, 255.4, -0.0]
    with np.errstate(over="ignore"):
        numbers = np.array(special if kind.is_float else [0], np.float64)
        source = np.concatenate([edges, numbers]).astype(np.float64)
        if kind is INT32:
            source = np.clip(source, *INT32.limits)
        source = np.resize(source.astype(kind.dtype), -(-source.size // 16) * 16)
    for dest in SATURATED:
        found = run([f"saturate_{dest.value}(a)"], dest, source, source, lanes)[0]
        np.testing.assert_array_equal(found, saturated(source, dest), dest.value)


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width(COMPUTED))
def test_masks_touch_the_first_elements_only(kind: ElementKind, lanes: int) -> None:
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        out.line(f"store_masked(dest, 0, load_masked(x, 0, {lanes}, {lanes - 1}), {lanes - 1})")
        out.line(f"store_masked(dest, {lanes}, load_masked(x, 0, {lanes}, threads), threads + 1)")
        out.line(f"store(dest, {2 * lanes}, broadcast(at(x, 1), 1, {lanes}))")
        out.line(f"store(dest, {3 * lanes}, splat_{kind.value}(1, {lanes}))")
        out.line(f"store(as_{kind.value}(as_int8(dest)), {4 * lanes}, iota_{kind.value}({lanes}))")
        out.line(f"put(dest, {5 * lanes}, get(x, 2))\ntile_prefetch(x, 5, 0, 1)")
    if kind is BOOL:
        out = SourceWriter()
        out.line(
            "def kernel(dest, x, scratch, thread, threads):\n"
            f"    store_masked(dest, 0, load_masked(x, 0, {lanes}, threads), threads + 1)"
        )
    kernel = RunningKernel(KernelSource("masks", out.text, (kind, kind)), Target.host(lanes))
    x = np.arange(3, 3 + lanes).astype(kind.dtype)
    dest = np.full(6 * lanes, 9).astype(kind.dtype)
    kernel._function(dest.ctypes.data, x.ctypes.data, 0, 0, 2)
    if kind is BOOL:
        assert dest[:4].tolist() == [True, True, False, True]
        return
    assert dest[: lanes - 1].tolist() == x[: lanes - 1].tolist()
    assert dest[lanes - 1] == 9
    assert dest[lanes : lanes + 4].tolist() == [3, 4, 0, 9]
    assert (dest[2 * lanes : 3 * lanes] == x[2]).all()
    assert (dest[3 * lanes : 4 * lanes] == 1).all()
    assert dest[4 * lanes : 5 * lanes].tolist() == list(range(lanes))
    assert dest[5 * lanes] == x[2]


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "lanes"), each_with_one_width([FLOAT32, ElementKind.BFLOAT16]))
def test_masks_of_any_number_of_elements(kind: ElementKind, lanes: int) -> None:
    text = (
        "def kernel(dest, x, scratch, thread, threads):\n"
        f"    store_masked(dest, 0, load_masked(x, 0, {lanes}, thread), threads)\n"
    )
    kernel = RunningKernel(KernelSource("masks", text, (kind, kind)), Target.host(lanes))
    x = np.arange(1, 1 + lanes).astype(kind.dtype)
    for read, written in itertools.product(range(-1, lanes + 2), repeat=2):
        dest = np.full(lanes + 2, 99).astype(kind.dtype)
        kernel._function(dest.ctypes.data, x.ctypes.data, 0, read, written)
        wanted = [n + 1 if n < read else 0 for n in range(lanes)][: max(written, 0)]
        assert dest.tolist() == wanted + [99] * (lanes + 2 - len(wanted))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"), each_with_one_width([FLOAT32, ElementKind.FLOAT64, INT32, ElementKind.UINT8])
)
def test_reductions_combine_all_lanes(kind: ElementKind, lanes: int) -> None:
    names = ["reduce_add", "reduce_mul", "reduce_maximum", "reduce_minimum"]
    names += [] if kind.is_float else ["reduce_and", "reduce_or"]
    x = np.random.default_rng(0).integers(1, 5, lanes).astype(kind.dtype)
    found = run([f"splat_{kind.value}({name}(a), {lanes})" for name in names], kind, x, x, lanes)
    rules: list[Rule] = [np.sum, np.prod, np.max, np.min]
    rules += [np.bitwise_and.reduce, np.bitwise_or.reduce]
    for row, rule in zip(found, rules, strict=False):
        assert (row == rule(x).astype(kind.dtype)).all()


@pytest.mark.jit
def test_reduction_by_maximum_keeps_nan() -> None:
    x = np.array([1, 2, np.nan, 3, 4, 5, 6, 7], np.float32)
    found = run(["splat_float32(reduce_maximum(a), 8)"], FLOAT32, x, x, 8)[0]
    assert np.isnan(found).all()


def test_every_name_is_an_identifier() -> None:
    assert all(name.isidentifier() for name in NAMESPACE)

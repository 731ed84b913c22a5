"""The elementary functions against the C library in float64."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.ops.random import inverse_error_function
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Instruction
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of
from tests.unit.kernels.running import RunningKernel
from tests.unit.simd.every_float import CHUNK, EVERY, worst_of_all

GeluInst = instruction_for(ops.Gelu)
PowInst = instruction_for(ops.Pow)
SwishInst = instruction_for(ops.Swish)

Floats = npt.NDArray[np.floating[Any]]
FLOAT32, FLOAT64 = ElementKind.FLOAT32, ElementKind.FLOAT64

LARGEST_ERROR_ULP = {
    "exp": 0.9,
    "expm1": 1.46,
    "log": 0.83,
    "log1p": 1.3,
    "tanh": 2.61,
    "erf": 1.02,
    "sigmoid": 2.49,
    "softplus": 1.95,
    "gelu": 3.7,
    **{"sin": 0.6, "cos": 0.6, "tan": 1.48},  # those of the C library, where angles are large
    **{"asin": 1.18, "acos": 1.18, "atan": 1.9},
    **dict.fromkeys(("sinh", "cosh", "asinh", "acosh", "atanh", "inverse_erf"), 0.51),
}
OTHERS_ULP = {
    "rsqrt": 1.5,
    "exp2": 2.3,  # 2.1 where a product and a sum are rounded once
    "exp_nonpositive": 0.9,
    "inverse_fourth_root": 1.6,
    "swish": 2.9,
    "gelu_tanh": 194.0,  # where it is 1e-35
}
"""Functions of part of the floats, and activations made of several functions."""
FLUSHED = {
    **dict.fromkeys(("sigmoid", "gelu"), 2.0**-126),
    "exp2": 2.0**-126,
    "exp_nonpositive": 1.19e-38,  # exp(-87.33)
    **dict.fromkeys(("swish", "gelu_tanh"), 2.0**-119),
}
"""They give up where their result would be smaller than this."""
ACTIVATIONS: dict[str, tuple[type[Instruction], dict[str, Any]]] = {
    "swish": (SwishInst, {"alpha": 1.0}),
    "gelu_tanh": (GeluInst, {"approximate": "tanh"}),
}
ARGUMENTS = {
    "exp2": "minimum(value, splat_float32(127.0, {lanes}))",
    "exp_nonpositive": "neg(abs(value))",
    "inverse_fourth_root": "maximum(abs(value), splat_float32(2.0**-126, {lanes}))",
}
"""What of a number may be an argument, where not all may."""
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-30, -1e-30)
STRIDE = 8191
"""Of how many bit patterns the default run takes one: a prime number."""


def reference(name: str, x: Floats) -> Floats:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            sigmoid: Floats = 1.0 / (1.0 + np.exp(-wide))
            return sigmoid
        if name == "softplus":
            return np.asarray(np.logaddexp(0.0, wide))
        if name == "erf":
            return np.array([math.erf(value) for value in wide.tolist()])
        if name == "inverse_erf":
            return np.asarray(inverse_error_function(wide))
        if name == "gelu":
            tail = [math.erfc(value) for value in (-wide / math.sqrt(2)).tolist()]
            return np.asarray(0.5 * wide * np.array(tail))
        numpy_name = f"arc{name[1:]}" if name.startswith("a") else name
        result: Floats = getattr(np, numpy_name)(wide)
        return result


def arguments() -> Floats:
    """Floats of all sizes, dense where the functions bend, and the special ones."""
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(-100, 88, 30000))
    ordinary = random.uniform(-1, 1, 30000) * random.choice([0.1, 1, 10, 100], 30000)
    signed = np.concatenate([sizes, -sizes, ordinary, np.linspace(-104, 89, 20000), SPECIAL])
    rest = -signed.size % 64
    return np.concatenate([signed, np.ones(rest)]).astype(np.float32)


def kernel(names: tuple[str, ...], kind: ElementKind, size: int, target: Target) -> RunningKernel:
    """Return a kernel that writes function after function of all arguments."""
    out = SourceWriter()
    with out.block("def kernel(dest, x, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {size}, {target.lanes}):"):
            out.line(f"value = load(x, i, {target.lanes})")
            for number, name in enumerate(names):
                argument = ARGUMENTS.get(name, "value").format(lanes=target.lanes)
                out.line(f"store(dest, i + {number * size}, {name}({argument}))")
    return RunningKernel(KernelSource("functions", out.text, (kind, kind)), target)


def error_ulp(found: Floats, expected: Floats) -> Floats:
    """Return the errors in units of the last place of float32; special values must be equal."""
    rounded = expected.astype(np.float32)
    special = ~np.isfinite(rounded) | ~np.isfinite(found)
    np.testing.assert_array_equal(found[special], rounded[special])
    ulp = np.maximum(np.spacing(np.abs(rounded)), 2.0**-149).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(special, 0.0, np.abs(found.astype(np.float64) - expected) / ulp)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", one_in(3, [4, 8, 16], first=1))
def test_float32_functions_keep_their_stated_error(lanes: int) -> None:
    """The slow run also has the other widths of vectors, which compute the same sums."""
    names = tuple(LARGEST_ERROR_ULP)
    x = arguments()
    found = np.empty((len(names), x.size), np.float32)
    kernel(names, FLOAT32, x.size, Target.host(lanes))(found, x)
    for name, row in zip(names, found, strict=True):
        check_error(name, x, row, reference(name, x))


def check_error(name: str, x: Floats, row: Floats, expected: Floats) -> None:
    """Hold the results *row* of a function to its stated error."""
    if name in FLUSHED:
        is_denormal = np.abs(expected) < 2.0**-126
        assert (np.abs(row[is_denormal]) < 2.0**-126).all()
        expected = np.where(is_denormal, row, expected)
    with np.errstate(over="ignore"):
        errors = error_ulp(row, expected)
    worst = int(errors.argmax())
    assert errors[worst] <= LARGEST_ERROR_ULP[name], (name, x[worst], row[worst])


@pytest.mark.jit
@pytest.mark.parametrize("name", one_in(5, LARGEST_ERROR_ULP))
def test_error_holds_for_floats_of_all_sizes(name: str) -> None:
    """The default run has every fifth function; the test above has all of them in both runs."""
    size = 1 << 16
    narrow = kernel((name,), FLOAT32, size, Target.host())
    known = "exp" if name == "sigmoid" else name
    wide = kernel((known,), FLOAT64, size, Target.host())
    for start in range(0, EVERY, size * STRIDE):
        bits = (start + STRIDE * np.arange(size, dtype=np.uint64)) % EVERY
        x = bits.astype(np.uint32).view(np.float32)
        found, expected = np.empty(size, np.float32), np.empty(size, np.float64)
        narrow(found, x)
        with np.errstate(invalid="ignore"):  # not numbers that are meant to be noticed
            exact = x.astype(np.float64)
        wide(expected, -exact if name == "sigmoid" else exact)
        if name == "sigmoid":
            expected = 1.0 / (1.0 + expected)
        check_error(name, x, found, expected)


def kernel_of_every(name: str) -> RunningKernel:
    """Return the kernel that applies a function, or an activation, to CHUNK numbers."""
    target = Target.host()
    if name in ACTIVATIONS:
        instruction_class, attributes = ACTIVATIONS[name]
        operand = TensorType(FLOAT32, (CHUNK,))
        instruction = instruction_of(instruction_class, [operand], **attributes)
        return RunningKernel(generate_kernel(instruction, target), target)
    return kernel((name,), FLOAT32, CHUNK, target)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("name", [*LARGEST_ERROR_ULP, *OTHERS_ULP])
def test_error_holds_for_every_float(name: str) -> None:
    worst = worst_of_all(name, kernel_of_every(name), FLUSHED.get(name, 0.0))
    print(f"{name}: {worst}")  # noqa: T201 - shown by pytest -s
    assert worst.ulp <= (LARGEST_ERROR_ULP | OTHERS_ULP)[name], worst


@pytest.mark.jit
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_powers_of_two_as_attention_needs_them(lanes: int) -> None:
    x = np.append(np.linspace(-140, 127, 1 << 16), [-np.inf, np.nan, 0, -126]).astype(np.float32)
    x = np.pad(x, (0, -x.size % 64))
    found = np.empty_like(x)
    kernel(("exp2",), FLOAT32, x.size, Target.host(lanes))(found, x)
    expected = np.exp2(x.astype(np.float64))
    expected[x < -126.5] = 0
    assert error_ulp(found, expected).max() <= OTHERS_ULP["exp2"]


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, ["int32", "int64", "uint64", "int16", "uint8"]))
def test_powers_of_integers_wrap(kind: str) -> None:
    limits: Any = np.iinfo(kind)
    bases = np.array([0, 1, 2, 3, 7, 10, limits.max, limits.min, limits.max - 1], kind)
    exponents = np.array([0, 1, 2, 31, 63, 64, 65, 100, limits.max, limits.min], kind)
    x, y = np.repeat(bases, exponents.size), np.tile(exponents, bases.size)
    type = TensorType.of(x)
    check(instruction_of(PowInst, [type, type]), Target.host(), operands=[x, y])


@pytest.mark.jit
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_powers_are_those_of_c(lanes: int) -> None:
    random = np.random.default_rng(1)
    edges = np.array([*SPECIAL, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 16777216.0, 16777215.0, 1e38, 2.5])
    base = np.concatenate([np.repeat(edges, edges.size), np.exp(random.uniform(-80, 80, 20000))])
    exponent = np.concatenate([np.tile(edges, edges.size), random.uniform(-5, 5, 20000)])
    rest = -base.size % 64
    x, y = (
        np.pad(each, (0, rest), constant_values=1.0).astype(np.float32) for each in (base, exponent)
    )
    out = SourceWriter()
    with out.block("def kernel(dest, x, y, scratch, thread, threads):"):
        with out.block(f"for i in range(0, {x.size}, {lanes}):"):
            out.line(f"store(dest, i, pow(load(x, i, {lanes}), load(y, i, {lanes})))")
    found = np.empty(x.size, np.float32)
    source = KernelSource("powers", out.text, (FLOAT32,) * 3)
    RunningKernel(source, Target.host(lanes))(found, x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64))
        assert error_ulp(found, expected).max() <= 0.51
    is_number = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


LARGEST_ERROR_OF_FLOAT64_ULP = {
    "exp": 1.1,
    "expm1": 2.2,
    "log": 0.85,
    "log1p": 1.5,
    "tanh": 2.7,
    "erf": 1.1 + 0.6,  # the C library's is taken for the truth
    "gelu": 5.0,  # likewise, of the argument as it is rounded
    "sigmoid": 2.5,
    "softplus": 2.0,
    "sin": 1.5,
    "cos": 1.5,
    "tan": 2.9,
    "asin": 2.1,
    "acos": 1.2,
    "atan": 1.8,
    "sinh": 2.6,
    "cosh": 1.6,
    "asinh": 2.1,
    "acosh": 2.7,
    "atanh": 2.0,
}


def arguments_of_float64(size: int) -> Floats:
    """Floats of all sizes, dense where the functions bend and near multiples of pi and log(2)."""
    random = np.random.default_rng(0)
    sizes = np.concatenate(
        [np.exp(random.uniform(-700, 700, size)), np.exp(random.normal(0, 3, size))]
    )
    near_one = np.exp(random.uniform(-36, 0, size))
    whole = np.arange(-size // 2, size // 2)
    limits = [5e-324, 1e-310, 1.7e308, 710.4, 709.7, -745.1, 2.0**39, 2.0**60]
    signed = [
        *(random.uniform(-bound, bound, size) for bound in (1, 10, 750, 2.0**39)),
        *(sizes * random.choice([-1, 1], 2 * size), 1 + near_one, 1 - near_one),
        *(whole * (math.pi / 2), whole * (math.log(2) / 2), [*SPECIAL, 0.5, -0.5, *limits]),
    ]
    x = np.concatenate(signed)
    return np.pad(x, (0, -x.size % 64))


def exact_of_float64(name: str, x: Floats) -> Floats:
    """Return the function in the widest floats that NumPy has."""
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.array([math.erf(value) for value in x.tolist()], np.longdouble)
        if name == "gelu":
            tail = [math.erfc(value) for value in (x * -math.sqrt(0.5)).tolist()]
            return np.asarray(wide * 0.5 * np.array(tail))
        if name == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-wide)))
        if name == "softplus":
            return np.asarray(np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide))))
        result: Floats = getattr(np, f"arc{name[1:]}" if name.startswith("a") else name)(wide)
        return result


def check_errors_of_float64(lanes: int, size: int) -> None:
    """Hold all functions of ``float64`` to their stated errors."""
    x, names = arguments_of_float64(size), tuple(LARGEST_ERROR_OF_FLOAT64_ULP)
    found = np.empty((len(names), x.size))
    kernel(names, FLOAT64, x.size, Target.host(lanes))(found, x)
    slack = 0.0 if np.finfo(np.longdouble).nmant > 52 else 1.0  # of the truth
    for name, row in zip(names, found, strict=True):
        exact = exact_of_float64(name, x)
        with np.errstate(all="ignore"):
            rounded = exact.astype(np.float64)
            errors = np.abs((row - exact) / np.maximum(np.spacing(np.abs(rounded)), 5e-324))
        is_plain = np.isfinite(rounded) & np.isfinite(row)
        if name in FLUSHED:
            is_plain &= np.abs(rounded) >= 2.0**-1022  # below it, the result may be 0
        else:
            np.testing.assert_array_equal(row[~is_plain], rounded[~is_plain], name)
            is_number = ~np.isnan(rounded)
            signs = np.signbit(row[is_number]), np.signbit(rounded[is_number])
            np.testing.assert_array_equal(*signs, name)
        worst = int(np.where(is_plain, errors, 0).argmax())
        limit = LARGEST_ERROR_OF_FLOAT64_ULP[name] + slack
        assert errors[worst] <= limit, (name, x[worst], row[worst], errors[worst])


@pytest.mark.jit
@pytest.mark.parametrize("lanes", one_in(3, [4, 8, 16], first=1))
def test_float64_functions_keep_their_stated_error(lanes: int) -> None:
    check_errors_of_float64(lanes, 2000)


@pytest.mark.jit
@pytest.mark.slow
def test_float64_functions_keep_their_stated_error_for_many_numbers() -> None:
    check_errors_of_float64(8, 1 << 17)

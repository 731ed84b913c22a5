"""The node that counts numbers: kernel and meaning agree, run after run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.histogram import Histogram
from glow_nb.hlir.ops.profile import Profile
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.profile import ProfileInst
from tests.unit.kernels.cases import check, instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

NOTHING = np.array([np.inf, -np.inf], np.float32)
TINY = np.float32(2.0**-149)
HUGE = np.finfo(np.float32).max


def check_kernel(numbers: Array, counts: Array, bounds: Array) -> None:
    operands = [np.asarray(numbers, np.float32), counts, np.asarray(bounds, np.float32)]
    instruction = instruction_of(ProfileInst, [TensorType.of(array) for array in operands])
    check(instruction, Target.host(), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [0.0],
        [-0.0, 0.0],
        [3.0] * 5,
        [TINY, -TINY],
        [HUGE, -HUGE],
        [HUGE, TINY],
        [1.0, np.nan],
        [-np.inf, 1.0],
        [np.inf],
        np.random.default_rng(0).standard_normal(1000),
    ],
)
@pytest.mark.parametrize("known", [[], [0.5, -0.25, 7.0], [1e30], [np.nan]])
def test_the_kernel_does_what_the_node_means(numbers: Any, known: list[float]) -> None:
    counts, bounds = np.zeros(16, np.int64), NOTHING
    if known == known[:1] and np.isnan(known).any():
        bounds = np.full(2, np.nan, np.float32)
    elif known:
        histogram = Histogram.of(np.array(known, np.float32), 16)
        counts = histogram.counts
        bounds = np.array([histogram.minimum, histogram.maximum], np.float32)
    check_kernel(numbers, counts, bounds)


@pytest.mark.jit
@pytest.mark.parametrize("numbers", [[], [1.0, -2.0], [np.inf]])
@pytest.mark.parametrize(
    "bounds",
    [(5, -3), (-3, -np.inf), (np.inf, 3), (0, np.inf), (-np.inf, -np.inf), (0, np.nan), (2, -2)],
)
def test_bounds_that_no_run_has_written_end_and_stay_inside(
    numbers: list[float], bounds: tuple[float, float]
) -> None:
    check_kernel(np.array(numbers), np.arange(-4, 4), np.array(bounds))


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_histogram_grows_from_run_to_run(backend: str) -> None:
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<30>")
    counts = builder.state("counts", np.zeros(64, np.int64))
    bounds = builder.state("bounds", NOTHING)
    node = builder.emit(Profile(x, counts, bounds))
    for state, value in zip((counts, bounds), node.results, strict=True):
        builder.update(state, value)
    network = glow_nb.compile(builder.function(), backend=backend, threads=1)
    rng = np.random.default_rng(0)
    seen = [(rng.standard_normal(30) * 10.0**n).astype(np.float32) for n in (-1, 1, 0, 2)]
    for numbers in seen:
        network.run(numbers)
    wanted = Histogram.of(np.concatenate(seen), 64)
    np.testing.assert_array_equal(network.state["counts"], wanted.counts)
    np.testing.assert_array_equal(network.state["bounds"], [wanted.minimum, wanted.maximum])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (("float64<3>", "int64<8>", "float32<2>"), "'input' is float64<3>, but must be float32<3>"),
        (("float32<3>", "int32<8>", "float32<2>"), "'counts' is int32<8>, but must be a vector"),
        (("float32<3>", "int64<1>", "float32<2>"), "make at least 2 bins"),
        (
            ("float32<3>", "int64<8>", "float32<3>"),
            "'bounds' is float32<3>, but must be float32<2>",
        ),
    ],
)
def test_operands_of_other_types_are_refused(types: tuple[str, ...], message: str) -> None:
    builder = glow_nb.Builder()
    with pytest.raises(VerifyError, match=message):
        Profile(*(builder.input("x", type) for type in types))


def test_inputs_of_as_many_elements_share_a_kernel() -> None:
    def symbol(*shape: int) -> str:
        counts, bounds = TensorType(ElementKind.INT64, (8,)), TensorType(ElementKind.FLOAT32, (2,))
        types = [TensorType(ElementKind.FLOAT32, shape), counts, bounds]
        return generate_kernel(instruction_of(ProfileInst, types), Target.host()).symbol

    assert symbol(2, 6) == symbol(12) == symbol(3, 2, 2)
    assert symbol(12) != symbol(13)


@pytest.mark.jit
def test_any_number_of_elements_is_counted() -> None:
    shape = open_size("n", 5), open_size("m", 7)
    bins = TensorType(ElementKind.INT64, (64,))
    types = [TensorType(ElementKind.FLOAT32, shape), bins, TensorType(ElementKind.FLOAT32, (2,))]

    def operands(profile: Any) -> list[Array]:
        numbers = np.random.default_rng(0).standard_normal(profile.input.type.shape)
        return [numbers.astype(np.float32), np.zeros(64, np.int64), NOTHING]

    sets = [{"n": 5, "m": 7}, {"n": 1, "m": 1}, {"n": 40, "m": 33}]
    check_open(
        instruction_of(ProfileInst, types), sets, Target.host(), threads=(1,), operands_of=operands
    )

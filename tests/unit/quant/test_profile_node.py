"""The node that counts numbers: kernel and meaning agree, run after run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.errors import VerifyError
from glow_nb.hlir.graph import Value
from glow_nb.kernels.target import Target
from glow_nb.quant.calibration import with_profiles
from glow_nb.quant.histogram import Histogram
from glow_nb.quant.profile_node import Profile, ProfileInst
from glow_nb.types import Array, TensorType
from tests.unit.kernels.cases import check, instruction_of
from tests.unit.quant.networks import dense

NOTHING = np.array([np.inf, -np.inf], np.float32)
TINY = np.float32(2.0**-149)
HUGE = np.finfo(np.float32).max


def check_kernel(numbers: Array, counts: Array, bounds: Array) -> None:
    operands = [np.asarray(numbers, np.float32), counts, np.asarray(bounds, np.float32)]
    operands.append(np.array([len(numbers)]))
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
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_histogram_grows_from_run_to_run(backend: str) -> None:
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<30>")
    counts = builder.state("counts", np.zeros(64, np.int64))
    bounds = builder.state("bounds", NOTHING)
    node = builder.emit(Profile(x, counts, bounds, builder.constant("size", np.array([30]))))
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
        (
            ("float32<3>", "int64<8>", "float32<2>", "int64<2>"),
            "'size' is int64<2>, but must be int64<1>",
        ),
    ],
)
def test_operands_of_other_types_are_refused(types: tuple[str, ...], message: str) -> None:
    builder = glow_nb.Builder()
    operands: list[Value] = [builder.input("x", type) for type in types]
    operands += [builder.constant("size", np.array([3]))] * (4 - len(operands))
    with pytest.raises(VerifyError, match=message):
        Profile(*operands)


def test_a_size_that_is_not_the_inputs_is_refused() -> None:
    builder = glow_nb.Builder()
    x, counts, bounds = (
        builder.input("x", f"{t}") for t in ("float32<3>", "int64<8>", "float32<2>")
    )
    with pytest.raises(VerifyError, match="'size' is 4, not that of input float32<3>"):
        Profile(x, counts, bounds, builder.constant("size", np.array([4])))


@pytest.mark.jit
def test_inputs_of_all_shapes_share_a_kernel() -> None:
    network = glow_nb.compile(with_profiles(dense(), 16)[0], threads=1)
    kernels = [kernel.symbol for kernel in network.kernels if kernel.family == "profile"]
    assert len(kernels) == 4
    assert len(set(kernels)) == 1

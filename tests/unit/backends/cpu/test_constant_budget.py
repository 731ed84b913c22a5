"""Which layers may have larger constants, so that all together stay within a limit."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.algorithms import Candidate, algorithm_of
from glow_nb.backends.cpu.algorithms.explain import explain
from glow_nb.backends.cpu.constant_budget import Layer, within
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.select_packed_operators import candidates_of, select_packed_operators
from glow_nb.base.plan import Plan
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Convolution, MatMul, Relu
from glow_nb.hlir.optimize.fold_constants import fold_constants
from glow_nb.kernels.operators import WinogradConvolution
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import WINOGRAD

TARGET = Target(
    "x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma", 8, l2_bytes=1 << 19, l3_bytes=1 << 25
)
SIZES = ((64, 56), (128, 28), (256, 14), (512, 7))
"""Channels and pixels a side of the four convolutions of :func:`network`, as in a ResNet."""


def network(sizes: tuple[tuple[int, int], ...] = SIZES) -> Function:
    """Return convolutions of 3 x 3 taps, each of an input of its own."""
    b = Builder()
    for channels, pixels in sizes:
        x = b.input(f"x{channels}", f"float32<1 x {pixels} x {pixels} x {channels}>")
        filter = b.constant(f"w{channels}", np.full((channels, 3, 3, channels), 0.1, np.float32))
        bias = b.constant(f"b{channels}", np.zeros(channels, np.float32))
        made = Convolution(
            x, filter, bias, kernel=(3, 3), stride=(1, 1), pads=(1,) * 4, dilation=(1, 1), group=1
        )
        b.save(b.emit(made), f"y{channels}")
    return b.function()


def tiles(function: Function, growth: float) -> list[tuple[int, ...] | None]:
    """Return the Winograd tile of each convolution, None for direct sums."""
    made = select_packed_operators(function, target=TARGET, constant_growth=growth)
    found = {node.name: node.tile for node in made if isinstance(node, WinogradConvolution)}
    return [found.get(node.name) for node in function if isinstance(node, Convolution)]


def constant_bytes(function: Function, growth: float) -> int:
    """Return what the constants take that kernels of *function* read."""
    made = fold_constants(select_packed_operators(function, target=TARGET, constant_growth=growth))
    return sum(constant.type.size_bytes for constant in made.constants)


def test_a_network_spends_its_room_where_it_saves_the_most_cycles_a_byte() -> None:
    function = network()
    assert None not in tiles(function, 8)
    found = tiles(function, 2)
    assert found[0] == tiles(function, 8)[0]  # few weights, many pixels
    assert found[3] is None or np.prod(found[3]) < np.prod(found[0] or ())
    assert tiles(function, 1) == [None] * 4
    limits = [tiles(function, growth) for growth in (1, 1.05, 1.5, 2, 3, 5, 8)]
    sizes = [sum(np.prod(tile) for tile in each if tile) for each in limits]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1] < sizes[3] < sizes[-1]


def test_the_table_says_which_candidates_take_too_much_memory() -> None:
    def notes(growth: float) -> list[str]:
        (layer,) = explain(network(SIZES[:1]), TARGET, CpuOptions(constant_growth=growth)).values()
        return [each.note for each in layer.weighed]

    assert notes(8)[0] == "chosen"
    limited = notes(1)
    before = limited[: limited.index("chosen")]
    assert before
    assert set(before) == {"takes more memory than constant_growth allows"}


@pytest.mark.parametrize("growth", [1, 1.2, 2])
def test_constants_take_no_more_than_the_limit(growth: float) -> None:
    function = network()
    weights = sum(constant.type.size_bytes for constant in function.constants)
    assert constant_bytes(function, growth) <= max(growth, 1.03) * weights  # of padding
    assert constant_bytes(function, 8) > max(growth, 1.03) * weights


def test_weights_that_are_read_elsewhere_are_kept_twice() -> None:
    """What the copies take is room that no algorithm has."""
    b = Builder()
    w = b.constant("w", np.full((768, 768), 0.01, np.float32))
    b.save(b.emit(MatMul(b.input("x", "float32<256 x 768>"), w)), "y")
    assert constant_bytes(b.function(), 2) > w.type.size_bytes
    b.save(b.emit(Relu(w)), "z")
    assert constant_bytes(b.function(), 2) == 2 * w.type.size_bytes


def candidate(number: int) -> Candidate:
    return Candidate(Plan.of("direct", block=8 * (number + 1)), 1.0)


def layer(*forms: tuple[float, int]) -> Layer:
    """Return a layer of candidates of so many cycles and bytes."""
    cycles, sizes = zip(*forms, strict=True)
    return Layer(("layer",), tuple(map(candidate, range(len(forms)))), cycles, sizes)


def test_the_best_rate_comes_first_and_what_does_not_fit_is_left_out() -> None:
    layers = (layer((10, 100), (50, 0)), layer((10, 30), (40, 0)), layer((10, 10), (11, 0)))
    for room, chosen in ((140, [0, 0, 0]), (130, [0, 0, 1]), (40, [1, 0, 0]), (29, [1, 1, 0])):
        spending = within(room, layers)
        assert list(spending.chosen) == chosen
        assert spending.spent <= room
    assert list(within(-1, layers).chosen) == [1, 1, 1]
    assert str(within(45, layers)).splitlines()[-1] == "40 B are taken; 45 B could be"
    assert str(within(math.inf, layers)).endswith("140 B are taken; no limit could be")


def test_a_layer_may_take_a_smaller_form() -> None:
    layers = [layer((10, 64), (12, 40), (30, 16), (60, 0))]
    for room, chosen in ((64, 0), (63, 1), (39, 2), (15, 3)):
        assert list(within(room, layers).chosen) == [chosen]


def test_what_is_preferred_less_saves_nothing_if_it_is_faster() -> None:
    layers = (layer((10, 64), (8, 40), (30, 0)), layer((0, 1000), (1, 0)))
    assert list(within(100, layers).chosen) == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_any_layers_stay_within_the_room_and_near_the_best_choice(seed: int) -> None:
    random = np.random.default_rng(seed)
    layers = tuple(
        layer(*zip(np.sort(random.integers(1, 99, 3)).tolist(), (40, 20, 0), strict=True))
        for _ in range(5)
    )
    room = int(random.integers(0, 200))
    spending = within(room, layers)
    assert spending.spent <= room
    saved = sum(e.costs[2] - e.costs[c] for e, c in zip(layers, spending.chosen, strict=True))
    best = max(
        sum(e.costs[2] - e.costs[c] for e, c in zip(layers, all, strict=True))
        for all in product(range(3), repeat=5)
        if sum(e.more_bytes[c] for e, c in zip(layers, all, strict=True)) <= room
    )
    assert saved >= best / 2


def test_sizes_are_those_of_the_transformed_filter() -> None:
    (node,) = (node for node in network(((64, 56),)) if isinstance(node, Convolution))
    size = node.filter.type.size_bytes
    for candidate in candidates_of(node, TARGET, "auto", 3):
        more = algorithm_of(candidate.plan).more_bytes(candidate.plan, node)
        if candidate.plan.algorithm != WINOGRAD:
            assert more == 0
            continue
        block, (rows, columns) = candidate.plan.number("block"), candidate.plan.sizes("tile")
        padded = -(-64 // block) * block / 64  # columns of the last panel
        assert more == round((padded * (rows + 2) * (columns + 2) / 9 - 1) * size)


@pytest.mark.jit
def test_compile_keeps_the_limit() -> None:
    b = Builder()
    x: Value = b.input("x", "float32<1 x 16 x 16 x 32>")
    for number in range(2):
        filter = b.constant(f"w{number}", np.full((32, 3, 3, 32), 0.01, np.float32))
        bias = b.constant(f"b{number}", np.zeros(32, np.float32))
        x = b.emit(
            Convolution(
                x,
                filter,
                bias,
                kernel=(3, 3),
                stride=(1, 1),
                pads=(1,) * 4,
                dilation=(1, 1),
                group=1,
            )
        )
    b.save(x, "y")
    weights = sum(constant.type.size_bytes for constant in b.function().constants)
    for growth in (1, 1.5):
        net = glow_nb.compile(b.function(), threads=1, constant_growth=growth)
        assert net.memory.constant_bytes <= growth * weights + 4096  # of alignment

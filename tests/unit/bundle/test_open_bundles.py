"""Bundles with open sizes, in this process: results, layouts of memory, and what they refuse."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.placement_order import PlacementOrder
from glow_nb.base.size import Guard, Symbol, at
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.bundle.codes import (
    MISALIGNED,
    NO_SUCH_SIZE,
    NOT_INITIALIZED,
    OTHER_SIZES,
    TOO_LARGE,
    TOO_SMALL,
)
from glow_nb.bundle.plan import Variant, plan_bundle
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.llir.check_placement import check_placement
from glow_nb.llir.order_placement import placed_for
from glow_nb.network.network import CompiledNetwork
from tests.unit.bundle.bundles import LoadedOpenBundle, bundle_of, natives_of, needs_elf

pytestmark = [needs_elf, pytest.mark.jit]

N, M = Symbol("n", 32, 1, 512), Symbol("m", 5)


def function() -> Function:
    """Return a function with activations, a state, and open places in an output and a weight."""
    rows, columns = N.size, M.size
    b = Builder("open")
    x = b.input("x", TensorType(ElementKind.FLOAT32, (rows, columns)))
    count = glow_nb.State(
        "count", TensorType(ElementKind.FLOAT32, (3,)), payload=np.ones(3, np.float32)
    )
    total = b.emit(ops.Add(count, b.input("y", "float32<3>")))
    b.update(count, total)
    soft = b.emit(ops.Softmax(b.emit(ops.Transpose(x, (1, 0))), axis=0))
    back = b.emit(ops.Transpose(soft, (1, 0)))
    b.save(b.emit(ops.Concat((b.emit(ops.Softmax(back, axis=1)), x), axis=0)), "both")
    b.save(total, "total")
    table = b.constant("table", np.arange(1030, dtype=np.float32).reshape(515, 2))
    part = b.emit(ops.Slice(table, starts=(rows, 0), stops=(rows + 3, 2), steps=(1, 1)))
    b.save(b.emit(ops.Softmax(part, axis=0)), "part")
    return b.function()


@pytest.fixture(scope="module")
def net() -> CompiledNetwork:
    network = glow_nb.compile(function(), sizes={}, threads=2, specialize_after=None)
    one = network.of_one_program
    assert isinstance(one, CompiledNetwork)
    return one


def loaded(native: NativeProgram) -> LoadedOpenBundle:
    """Return the bundle of one program."""
    return LoadedOpenBundle(plan_bundle("net", ["open"], [Variant((native,))], {}))


def feeds(n: int, m: int) -> dict[str, Array]:
    x = np.random.default_rng(n * m).standard_normal((n, m)).astype(np.float32)
    return {"x": x, "y": np.ones(3, np.float32)}


def test_it_computes_the_same_bits_for_all_sizes_and_states_stay(net: CompiledNetwork) -> None:
    bundle = LoadedOpenBundle(bundle_of(net))
    bundle.prepare(n=40, m=30)
    for step, (n, m) in enumerate([(40, 30), (1, 1), (7, 33), (7, 33), (33, 7)]):
        room = bundle.sizes.copy()
        assert bundle.measure(n=n, m=m) == 0
        bundle.sizes[-2:] = room[-2:]  # which were measured for larger sizes
        got, want = bundle.run_open(feeds(n, m)), net.run(feeds(n, m))
        for name in ("both", "part"):
            assert got[name].tobytes() == want[name].tobytes(), (name, n, m)
        np.testing.assert_array_equal(got["total"], np.full(3, step + 2, np.float32))


@pytest.mark.usefixtures("sharing_is_free")
def test_the_first_phase_lays_out_and_shares_of_the_others_make_up_a_run() -> None:
    one = glow_nb.compile(function(), sizes={}, threads=3, specialize_after=None).of_one_program
    bundle = LoadedOpenBundle(bundle_of(one))
    bundle.prepare(n=50, m=9)
    given = (bundle.constants, bundle.tensors, bundle.arena, bundle.sizes)
    inputs, outputs = bundle.rows()
    (described,) = bundle.bundle.functions
    for row, tensor in zip(inputs, described.inputs, strict=True):
        bundle.array_at(row, tensor)[...] = feeds(50, 9)[tensor.name]
    assert bundle.call("run_share", *given, 0, 1, 0) == NOT_INITIALIZED  # nothing is laid out yet
    for phase in range(described.phases):
        for share in (2, 0, 1):
            assert bundle.call("run_share", *given, 1, phase, share) == 0
    got = bundle.array_at(outputs[0], described.outputs[0])
    assert got.tobytes() == one.run(feeds(50, 9))["both"].tobytes()
    bundle.sizes[0] = 49
    assert bundle.call("run_share", *given, 0, 1, 0) == NOT_INITIALIZED  # but for other sizes


def test_activations_lie_where_runs_in_python_place_them(net: CompiledNetwork) -> None:
    (native,) = natives_of(net)
    bundle, draw = loaded(native), random.Random(1)
    for _ in range(5):
        sizes = {"n": draw.randint(1, 512), "m": draw.randint(1, 300)}
        bundle.prepare(**sizes)
        bundle.run_open(feeds(**sizes))
        offsets, _, _ = bundle.laid_out()
        placed = placed_for(net.program, sizes)
        check_placement(placed)
        assert placed.arena is not None
        assert offsets == list(placed.arena.offsets.values())


def drawn_sizes(draw: random.Random, count: int) -> list[int]:
    """Return some sizes of memory: polynomials and quotients, also such that are 0 at times."""
    n, m = N.size, M.size
    forms = [n, 64 * n, n * m * 4, (n + 2) // 3 * 8, (n * m + 7) // 2, n * n - n, (m - 1) * 300]
    forms += [4 * ((5 - 3 * n) // 7 + 3 * n), 1 << 12, m // n * 640, 0]
    return [draw.choice(forms) for _ in range(count)]


def drawn_order(draw: random.Random, sizes: Sequence[int]) -> PlacementOrder:
    """Return an order of activations that live for random times."""
    lives = [sorted(draw.sample(range(20), 2)) for _ in sizes]
    order = draw.sample(range(len(sizes)), len(sizes))
    before = [
        tuple(o for o in order[:rank] if lives[o][0] < lives[n][1] and lives[n][0] < lives[o][1])
        for rank, n in enumerate(order)
    ]
    return PlacementOrder(tuple(sizes), tuple(order), tuple(before))


def test_random_orders_of_random_sizes_are_placed_as_in_python(net: CompiledNetwork) -> None:
    (native,) = natives_of(net)
    assert native.open is not None
    draw = random.Random(0)
    for _ in range(4):
        order = drawn_order(draw, drawn_sizes(draw, 40))
        opened = replace(native.open, placement=order, windows=(), scratch_bytes=(N.size * 100,))
        # Only its first phase is run, which lays out.
        bundle = loaded(replace(native, open=opened))
        for _ in range(25):
            sizes = {"n": draw.choice([1, draw.randint(1, 512)]), "m": draw.randint(1, 99)}
            bundle.prepare(**sizes)
            given = (bundle.constants, bundle.tensors, bundle.arena, bundle.sizes)
            assert bundle.call("run_share", *given, 0, 0, 0) == 0
            offsets, windows, arena_bytes = bundle.laid_out()
            wanted, end = order.at(sizes)
            assert (offsets, windows) == (wanted, [])
            scratch = max(aligned_bytes(100 * sizes["n"]), native.layout.thread_scratch_bytes)
            assert arena_bytes == end + native.threads * scratch
            assert [aligned_bytes(at(size, sizes)) for size in order.sizes] == bundle.lengths()


def test_sizes_that_it_is_not_right_for_are_refused_by_a_code(net: CompiledNetwork) -> None:
    (native,) = natives_of(net)
    assert native.open is not None
    guards = (Guard(N.size * 2, "<=", M.size + 100), Guard(M.size, "!=", 7))
    bundle = loaded(replace(native, open=replace(native.open, guards=guards)))
    assert bundle.measure(n=50, m=1) == 0
    for n in (0, 513, -1, (1 << 63) - 1, -(1 << 63)):
        assert bundle.measure(n=n, m=1) == NO_SUCH_SIZE
        assert bundle.sizes[-2:].tolist() == [0, 0]
    assert bundle.measure(n=51, m=1) == OTHER_SIZES
    assert bundle.measure(n=51, m=2) == 0
    assert bundle.measure(n=1, m=7) == OTHER_SIZES
    assert bundle.measure(n=1, m=(1 << 31) - 1) == 0
    assert bundle.call("measure", 0) == MISALIGNED
    assert bundle.call("run_tensors", bundle.sizes, 0, bundle.sizes) == MISALIGNED


@pytest.mark.parametrize(
    "size",
    [
        M.size**3 * 2,  # beyond 64 bits
        -(M.size**3) * 2,
        M.size**2 // 1000 + (1 << 48),  # beyond any memory
        M.size**2 * (1 << 70),
        1 - M.size,  # no size of memory at all
    ],
    ids=str,
)
def test_sizes_beyond_all_memory_are_refused_by_a_code(net: CompiledNetwork, size: int) -> None:
    (native,) = natives_of(net)
    assert native.open is not None
    placement = replace(native.open.placement, sizes=(size,) * len(native.open.placement.sizes))
    opened = replace(native.open, placement=placement)
    assert loaded(replace(native, open=opened)).measure(n=1, m=(1 << 31) - 1) == TOO_LARGE


def test_a_sum_beyond_all_memory_is_refused_by_a_code(net: CompiledNetwork) -> None:
    (native,) = natives_of(net)
    assert native.open is not None
    much = replace(native.open, scratch_bytes=(M.size * (1 << 20),))
    assert loaded(replace(native, open=much)).measure(n=1, m=1) == 0
    assert loaded(replace(native, open=much)).measure(n=1, m=(1 << 31) - 1) == TOO_LARGE
    many = PlacementOrder((1 << 46,) * 5, tuple(range(5)), tuple(tuple(range(n)) for n in range(5)))
    opened = replace(native.open, placement=many, windows=())
    assert loaded(replace(native, open=opened)).measure(n=1, m=1) == TOO_LARGE


def test_a_run_that_needs_more_than_it_is_given_does_nothing(net: CompiledNetwork) -> None:
    bundle = LoadedOpenBundle(bundle_of(net))
    assert bundle.measure(n=8, m=8) == 0
    given = (bundle.constants, bundle.tensors, bundle.arena, bundle.sizes)
    assert bundle.call("run", *given) == NOT_INITIALIZED
    bundle.prepare(n=8, m=8)
    given = (bundle.constants, bundle.tensors, bundle.arena, bundle.sizes)
    begin = bundle.bundle.tensors_bytes
    before, arena = bundle.tensors[begin:].copy(), bundle.arena.copy()
    for sizes, code in (((9, 80), TOO_SMALL), ((-1, 8), NO_SUCH_SIZE), ((600, 8), NO_SUCH_SIZE)):
        bundle.sizes[:2] = sizes
        assert bundle.call("run", *given) == code
        assert bundle.call("run_share", *given, 0, 0, 0) == code
        assert bundle.call("run_share", *given, 0, 1, 0) != 0
    assert bundle.call("run", *given[:3], 0) == MISALIGNED
    np.testing.assert_array_equal(bundle.tensors[begin:], before)
    np.testing.assert_array_equal(bundle.arena, arena)


def test_an_output_that_begins_as_an_input_of_open_size_is_a_copy_of_it() -> None:
    b = Builder("open")
    x = b.input("x", TensorType(ElementKind.FLOAT32, (N.size,)))
    b.save(b.emit(ops.Relu(x)), "y")
    network = glow_nb.compile(b.function(), sizes={}, threads=1)
    (native,) = natives_of(network.of_one_program)
    fed = replace(native, outputs=(replace(native.outputs[0], fed_by=0),))
    bundle = loaded(fed)
    bundle.prepare(n=4)
    (row,), (to,) = bundle.rows()
    (described,) = bundle.bundle.functions
    bundle.array_at(row, described.inputs[0])[...] = np.array([-1, 2, -3, 4], np.float32)
    given = (bundle.constants, bundle.tensors, bundle.arena, bundle.sizes)
    assert bundle.call("run_share", *given, 0, 0, 0) == 0
    copied = bundle.array_at(to, described.outputs[0])
    np.testing.assert_array_equal(copied, np.array([-1, 2, -3, 4], np.float32))


def test_sizes_that_no_input_tells_are_no_bundle(net: CompiledNetwork) -> None:
    (native,) = natives_of(net)
    assert native.open is not None
    opened = replace(native.open, symbols=(*native.open.symbols, Symbol("found", 3)))
    with pytest.raises(UnsupportedError, match=r"no input tells the sizes \['found'\]"):
        loaded(replace(native, open=opened))
    with pytest.raises(UnsupportedError, match="make one for each"):
        plan_bundle("net", ["one", "two"], [Variant((native, native))], {})

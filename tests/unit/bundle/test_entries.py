"""The functions that C calls, in this process: results, state, shares, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.bundle.codes import (
    MISALIGNED,
    NO_SUCH_SHARE,
    NOT_INITIALIZED,
    WRONG_CONSTANTS,
    WRONG_PROCESSOR,
)
from glow_nb.bundle.plan import HEAD_BYTES, IDENTITY_OFFSET, Variant, plan_bundle
from glow_nb.hlir import ops
from glow_nb.hlir.module import Module
from tests.unit.bundle.bundles import (
    LoadedBundle,
    bundle_of,
    counting_module,
    natives_of,
    needs_elf,
    needs_x86,
)
from tests.unit.network.saved.models import X, dense_model

pytestmark = [needs_elf, pytest.mark.jit]

ONE: Array = np.ones(3, np.float32)


@pytest.fixture(scope="module")
def net() -> glow_nb.Network:
    return glow_nb.compile(dense_model(), threads=2)


@pytest.fixture
def loaded(net: glow_nb.Network) -> LoadedBundle:
    return LoadedBundle(bundle_of(net))


def test_a_bundle_computes_the_same_bits(net: glow_nb.Network, loaded: LoadedBundle) -> None:
    assert loaded.initialize() == 0
    for x in (X, -X):
        assert loaded.run({"x": x})["y"].tobytes() == net.run({"x": x})["y"].tobytes()


def test_functions_of_any_names_stand_beside_those_that_c_does_not_call() -> None:
    step, read = counting_module().functions
    inner = ("choose", "misaligned", "variant_in", "cpu0")
    functions = [replace(step, name=name) for name in inner] + [replace(read, name="choose_v0_run")]
    loaded = LoadedBundle(bundle_of(glow_nb.compile(Module(tuple(functions)), threads=1)))
    assert loaded.initialize() == 0
    for number in range(4):
        (y,) = loaded.run({"x */ y": ONE}, number).values()
        np.testing.assert_array_equal(y, (2 + number) * ONE)


def test_any_thread_has_scratch_for_the_share_of_a_function_of_one() -> None:
    (made,) = natives_of(glow_nb.compile(dense_model(), threads=2))
    large = replace(made, entry=replace(made.entry, threads=2))
    small = replace(made, entry=replace(made.entry, threads=1, scratch_bytes=1 << 20))
    bundle = plan_bundle("net", ["large", "small"], [Variant((large, small))], {})
    assert bundle.arena_bytes >= 2 * small.layout.thread_scratch_bytes


def test_functions_share_their_state_and_leave_it_for_the_next_run() -> None:
    net = glow_nb.compile(counting_module(), threads=1)
    net["step/1"].run(ONE)
    loaded = LoadedBundle(bundle_of(net))
    assert loaded.initialize() == 0
    for total in (3, 4):
        (y,) = loaded.run({"x */ y": ONE}).values()
        np.testing.assert_array_equal(y, total * ONE)
    np.testing.assert_allclose(loaded.run({}, 1)["y"], np.tanh(4 * ONE), rtol=1e-6)
    assert loaded.initialize() == 0
    np.testing.assert_array_equal(loaded.place(loaded.bundle.states[0]), 2 * ONE)


def test_what_is_given_wrongly_is_told_and_nothing_is_done(loaded: LoadedBundle) -> None:
    constants, tensors, arena = loaded.constants, loaded.tensors, loaded.arena
    before = tensors.copy()
    assert loaded.call("run", constants, tensors, arena) == NOT_INITIALIZED
    assert loaded.call("initialize", constants, 0) == MISALIGNED
    assert loaded.call("initialize", constants[1:], tensors) == MISALIGNED
    strange = constants.copy()
    strange[IDENTITY_OFFSET] ^= 1
    other = LoadedBundle(loaded.bundle)
    other.constants[:] = strange
    assert loaded.call("initialize", other.constants, tensors) == WRONG_CONSTANTS
    np.testing.assert_array_equal(tensors, before)
    assert loaded.initialize() == 0
    assert loaded.call("run", constants, tensors, arena[8:]) == MISALIGNED
    assert loaded.call("run", 0, tensors, arena) == MISALIGNED
    assert loaded.call("run_share", constants, tensors, arena, 9, 0, 0) == NO_SUCH_SHARE
    np.testing.assert_array_equal(tensors[HEAD_BYTES:], before[HEAD_BYTES:])


@pytest.mark.usefixtures("sharing_is_free")
def test_shares_of_phases_make_up_a_run() -> None:
    net = glow_nb.compile(dense_model(), threads=3)
    loaded = LoadedBundle(bundle_of(net))
    assert loaded.initialize() == 0
    loaded.feed({"x": X})
    blocks = (loaded.constants, loaded.tensors, loaded.arena)
    for phase in range(loaded.bundle.functions[0].phases + 1):  # one more does nothing
        for share in (2, 0, 1, 3):
            assert loaded.call("run_share", *blocks, 1, phase, share) == 0
    want = net.run({"x": X})["y"]
    assert loaded.outputs()["y"].tobytes() == want.tobytes()
    assert loaded.run({"x": X})["y"].tobytes() == want.tobytes()
    assert loaded.bundle.threads == 3


def test_an_output_that_is_an_input_begins_as_a_copy_of_it() -> None:
    b = glow_nb.Builder("net")
    b.save(b.emit(ops.Relu(b.input("x", "float32<4>"))), "y")
    (native,) = natives_of(glow_nb.compile(b.function(), threads=1))
    outputs = (replace(native.outputs[0], fed_by=0),)
    fed = replace(native, outputs=outputs)
    loaded = LoadedBundle(plan_bundle("net", ["net"], [Variant((fed,))], {}))
    x = np.array([-1, 2, -3, 4], np.float32)
    assert loaded.initialize() == 0
    loaded.feed({"x": x})
    assert loaded.call("run_share", loaded.constants, loaded.tensors, loaded.arena, 0, 0, 0) == 0
    np.testing.assert_array_equal(loaded.outputs()["y"], x)
    np.testing.assert_array_equal(loaded.run({"x": x})["y"], np.maximum(x, 0))


@needs_x86
def test_of_the_variants_that_a_processor_can_run_it_takes_the_one_that_asks_for_most() -> None:
    nets = [glow_nb.compile(dense_model(seed), threads=1) for seed in range(3)]
    natives = [natives_of(net)[0] for net in nets]
    host = natives[1].target
    unknown = f"{host.features},+fma4,+avx512vp2intersect,+amx-tile"  # which no processor has all
    targets = [replace(host, cpu="least", features="+sse2"), host, replace(host, features=unknown)]
    variants = [
        Variant((replace(native, target=target),))
        for native, target in zip(natives, targets, strict=True)
    ]
    for chosen in (variants, variants[::-1]):
        loaded = LoadedBundle(plan_bundle("net", ["dense"], chosen, {}))
        assert loaded.initialize() == 0
        got = loaded.run({"x": X})["y"]
        assert got.tobytes() == nets[1].run({"x": X})["y"].tobytes()
        assert loaded.variant() == host.cpu
    only_unknown = LoadedBundle(plan_bundle("net", ["dense"], variants[2:], {}))
    assert only_unknown.initialize() == WRONG_PROCESSOR
    assert only_unknown.variant() is None

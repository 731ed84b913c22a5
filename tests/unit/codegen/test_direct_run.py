"""The short way of a run gives what the ordinary one gives, and leaves the rest to that."""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.errors import FeedError
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.run_layout import OutputBinding
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.network.network import CompiledNetwork
from tests.unit.codegen.samples import Chain

pytestmark = pytest.mark.jit

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = X + 1
READ_ONLY = Y.copy()
READ_ONLY.flags.writeable = False


def network(threads: int = 1) -> CompiledNetwork:
    b = glow_nb.Builder("main")
    x, y = b.input("x", "float32<2 x 3>"), b.input("y", "float32<2 x 3>")
    b.save(b.emit(ops.Sub(x, y)), "difference")
    b.save(b.emit(ops.Mul(x, y)), "product")
    net = glow_nb.compile(b.function(), threads=threads)
    assert isinstance(net, CompiledNetwork)
    return net


def counter() -> Function:
    """Return a network that counts its runs."""
    b = glow_nb.Builder("main")
    count = b.state("runs", np.zeros(1, np.float32))
    b.save(count, "count")
    b.update(count, b.emit(ops.Add(count, b.constant("one", np.ones(1, np.float32)))))
    return b.function()


def forbid_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_checked(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(LoadedProgram, "run_checked", run_checked)


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_that_fit_take_the_short_way(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(threads)
    net.run({"x": X, "y": Y})  # makes what runs are done in
    forbid_the_ordinary_way(monkeypatch)
    first = net.run({"y": Y, "x": X})
    second = net.run({"x": Y, "y": X})
    assert list(first) == ["difference", "product"]
    for found, (x, y) in ((first, (X, Y)), (second, (Y, X))):
        np.testing.assert_array_equal(found["difference"], x - y)
        np.testing.assert_array_equal(found["product"], x * y)
    assert not np.shares_memory(first["product"], second["product"])


@pytest.mark.parametrize(
    "feeds",
    [
        ChainMap({"x": X}, {"y": Y}),
        OrderedDict(x=X, y=Y),
        {"x": X, "y": np.asfortranarray(Y)},
        {"x": X, "y": READ_ONLY},
        {"x": X, "y": Y.astype(">f4")},
        {"x": X, "y": Y.view(np.matrix)},
        {"x": X, "y": np.repeat(Y, 2, axis=1)[:, ::2]},
    ],
)
def test_other_feeds_take_the_ordinary_way(feeds: Any) -> None:
    net = network()
    for _ in range(2):
        np.testing.assert_array_equal(net.run(feeds)["difference"], X - Y)
    executable = net.executable
    assert isinstance(executable, CpuExecutable)
    short = executable.direct_run(["x", "y"], ["difference", "product"])
    assert short is not None
    assert short(feeds) is None
    assert short({"x": X, "y": Y}) is not None


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": X}, r"input\(s\) \['y'\] are not fed"),
        ({"x": X, "z": Y}, "unknown input 'z'"),
        ({"x": X, "y": Y, 3: Y}, "unknown input 3"),
        ({"x": X, "y": Y.T}, r"'y': shape is \[3, 2\], the network takes \[2, 3\]"),
        ({"x": X, "y": Y.astype(np.float64)}, "'y': dtype is float64"),
        ({"x": X, "y": None}, "'y': None is no array"),
        (X, "the network has 2 inputs"),
    ],
)
def test_what_does_not_fit_is_refused_after_good_runs(feeds: Any, message: str) -> None:
    net = network()
    for _ in range(2):
        net.run({"x": X, "y": Y})
    with pytest.raises(FeedError, match=message):
        net.run(feeds)


def test_no_memory_for_results_is_left_to_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Chain(1).load()
    short = program.direct_run(["x"], ["y"])
    assert short is not None
    x = np.ones(program._inputs[0][1], np.float32)
    assert short({"x": x}) is None, "there is no context yet"
    (expected,) = program.run([x])
    found = short({"x": x})
    assert found is not None
    np.testing.assert_array_equal(found["y"], expected)

    def empty(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(program, "_makers", [empty])
        without_memory = program.direct_run(["x"], ["y"])
        assert without_memory is not None
        assert without_memory({"x": x}) is None
    assert len(program._idle) == 1
    assert short({"x": x}) is not None


def test_there_is_none_where_an_output_begins_as_a_copy_of_an_input() -> None:
    native = Chain(1).make()
    vector = native.inputs[0].type
    assert load(native).direct_run(["x"], ["y"]) is not None
    fed = replace(native, outputs=(OutputBinding(vector, "y", fed_by=0),))
    assert load(fed).direct_run(["x"], ["y"]) is None


def test_there_is_none_for_state() -> None:
    net = glow_nb.compile(counter(), threads=1)
    assert isinstance(net, CompiledNetwork)
    assert isinstance(net.executable, CpuExecutable)
    assert net.executable.direct_run([], ["count"]) is None
    assert [net.run({})["count"].item() for _ in range(3)] == [0, 1, 2]

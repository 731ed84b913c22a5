"""Requests that run together: rows joined, padded and split, and checked to stay apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, GlowError, GlowWarning, OptionError
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, SymbolicType, TensorType
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Add, Mul, ReduceSum
from glow_nb.runtime.hosting.batching import RowFeeds, batch_sizes, joined, split
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.scripted_device import ScriptedDevice, wait_until
from tests.unit.runtime.small_networks import row, running_sum, scaled


def by_rows(factor: float) -> Callable[[int], Function]:
    """Return what makes ``y = x * factor`` for any number of rows."""
    return lambda rows: scaled(factor, rows=rows)


@pytest.mark.parametrize(
    ("most", "sizes"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))]
)
def test_sizes_are_powers_of_two_and_the_largest(most: int, sizes: tuple[int, ...]) -> None:
    assert batch_sizes(most) == sizes


def test_rows_are_joined_padded_and_split_again() -> None:
    arrays = [np.full((rows, 3), rows, np.int32) for rows in (2, 1)]
    whole = joined(arrays, 5)
    assert whole[:, 0].tolist() == [2, 2, 1, 1, 1]  # padded with the last row
    parts = split({"y": whole}, [2, 1])
    assert [part["y"].tolist() for part in parts] == [array.tolist() for array in arrays]


def test_rows_that_do_not_fit_are_refused() -> None:
    kind = ElementKind.FLOAT32
    inputs = {name: SymbolicType(kind, ("batch", 2)) for name in ("a", "b")}
    feeds = RowFeeds(inputs, 3)
    good = np.zeros((2, 2), np.float32)
    arrays, rows = feeds.rows({"a": good[::-1], "b": good})
    assert rows == 2
    assert all(array.flags.c_contiguous for array in arrays)
    wrongs: list[tuple[Array, str]] = [
        (np.zeros((4, 2), np.float32), "dimension 'batch' is 2 in input 'a' but 4"),
        (np.zeros((2, 3), np.float32), r"shape is \[2, 3\]"),
        (np.zeros((2, 2), np.float64), "dtype is float64"),
    ]
    for bad, message in wrongs:
        with pytest.raises(FeedError, match=message):
            feeds.rows({"a": good, "b": bad})
    for rows in (0, 4):
        wrong = np.zeros((rows, 2), np.float32)
        with pytest.raises(FeedError, match=rf"has {rows} rows, the network takes 1 to 3"):
            feeds.rows({"a": wrong, "b": wrong})


def test_what_waits_runs_together() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", by_rows(2.0), max_batch=4)
        assert host.networks()["double"].batch_sizes == (1, 2, 4)
        assert str(host.networks()["double"].inputs["x"]) == "float32<batch x 2>"
        device.may_run.clear()
        requests = [host.submit("double", row(n)) for n in range(9)]
        device.may_run.set()
        assert [float(r.result(30)["y"][0, 0]) for r in requests] == [2.0 * n for n in range(9)]
        batches = host.statistics().networks["double"].counters.batches
        assert batches == {1: 3, 4: 2} or batches == {1: 2, 4: 2}  # two begin at once


def test_requests_of_several_rows_share_a_batch() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", by_rows(2.0), max_batch=4)
        device.may_run.clear()
        feeds = [np.random.default_rng(n).normal(size=(n, 2)) for n in (1, 1, 2, 1, 3, 4, 3)]
        arrays = [feed.astype(np.float32) for feed in feeds]
        requests = [host.submit("double", {"x": array}) for array in arrays]
        device.may_run.set()
        for request, array in zip(requests, arrays, strict=True):
            assert np.array_equal(request.result(30)["y"], 2 * array)
        assert host.run("double", arrays[5])["y"].shape == (4, 2)


def test_a_batch_waits_for_more_but_not_for_ever() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", by_rows(2.0), max_batch=4, max_delay=0.01)
        alone = host.submit("double", row(1))
        assert not device.ran[7:]  # runs of the check
        assert alone.result(30)["y"][0, 0] == 2.0
        began = time.monotonic()
        host.run("double", row(1))
        assert time.monotonic() - began >= 0.01
        host.add_network("slow", by_rows(2.0), max_batch=4, max_delay=1000.0)
        full = [host.submit("slow", row(1)) for _ in range(4)]
        wait(full, 30)
        assert host.statistics().networks["slow"].counters.batches == {4: 1}
        late = host.submit("slow", row(1), deadline=0.01)
        assert isinstance(late.exception(30), GlowError)


def test_a_late_request_does_not_take_its_batch_with_it() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", by_rows(2.0), max_batch=4, max_delay=1000.0)
        device.may_run.clear()
        requests = [host.submit("double", row(n), deadline=None if n else 0.02) for n in range(4)]
        wait_until(requests[0].done)
        assert requests[1].cancel()
        device.may_run.set()
        assert [float(r.result(30)["y"][0, 0]) for r in requests[2:]] == [4.0, 6.0]


def test_an_open_batch_of_a_model_is_found(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(["batch", 2], ["batch", 2]), path)
    with HostManager([ScriptedDevice("a")]) as host:
        host.add_network("net", str(path), max_batch=3)
        assert host.networks()["net"].batch_sizes == (1, 2, 3)
        assert host.run("net", {"x": np.full((3, 2), -1, np.float32)})["y"].shape == (3, 2)
        host.add_network("one", str(path))
        assert str(host.networks()["one"].inputs["x"]) == "float32<batch x 2>"


def model(input_shape: Sequence[str | int], output_shape: Sequence[str | int]) -> onnx.ModelProto:
    """Return a model that is one ReLU."""
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "net",
        [onnx.helper.make_tensor_value_info("x", kind, input_shape)],
        [onnx.helper.make_tensor_value_info("y", kind, output_shape)],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=9)


def of_rows(rows: int, compute: Callable[[glow_nb.Builder, glow_nb.Value], Node]) -> Function:
    builder = glow_nb.Builder("net")
    x = builder.input("x", f"float32<{rows} x 2>")
    builder.save(builder.emit(compute(builder, x)), "y")
    return builder.function()


def mixed(builder: glow_nb.Builder, x: glow_nb.Value) -> Node:
    """Return the rows with the sum of all added to each."""
    return Add(x, builder.emit(ReduceSum(x, axes=(0,), keep_dims=True)))


def placed(builder: glow_nb.Builder, x: glow_nb.Value) -> Node:
    """Return the rows, each multiplied by its number."""
    numbers = np.arange(x.type.size, dtype=np.float32).reshape(x.type.shape)
    return Mul(x, builder.constant("numbers", numbers))


def _open_graph() -> Function:
    """Return ``y = x + x`` for any number of rows."""
    builder = glow_nb.Builder("twice")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (Symbol("batch", 4, 1, 8).size, 3)))
    builder.save(builder.emit(Add(x, x)), "y")
    return builder.function()


def test_an_open_batch_of_a_graph_is_found() -> None:
    device = ScriptedDevice("d0")
    x = np.ones((3, 3), np.float32)
    with HostManager([device]) as host:
        host.add_network("net", _open_graph(), max_batch=3)
        np.testing.assert_array_equal(host.run("net", {"x": x})["y"], 2 * x)
        host.add_network("alone", _open_graph())
        np.testing.assert_array_equal(host.run("alone", {"x": x})["y"], 2 * x)
        with pytest.raises(OptionError, match=r"of one batch size leaves .'batch'.* open"):
            host.add_network("built", lambda _: _open_graph(), max_batch=2)


@pytest.mark.parametrize("compute", [mixed, placed])
def test_a_network_that_mixes_rows_is_refused(
    compute: Callable[[glow_nb.Builder, glow_nb.Value], Node],
) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        with pytest.raises(OptionError, match="depends on the other rows, or on its place"):
            host.add_network("net", partial(of_rows, compute=compute), max_batch=4)
        assert not device.keys
        assert not host.networks()


def test_sizes_with_other_bits_are_left_out_with_a_warning() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        with pytest.warns(GlowWarning, match=r"batches of \[1, 2\] give other bits than one of 4"):
            host.add_network(
                "net", lambda rows: scaled(2.0 if rows == 4 else 3.0, rows=rows), max_batch=4
            )
        assert host.networks()["net"].batch_sizes == (4,)
        assert len(device.keys) == 1
        answer = host.run("net", row(1))["y"]
        assert answer.shape == (1, 2)
        assert answer[0, 0] == 2.0


def test_a_network_whose_rows_are_not_leading_is_refused() -> None:
    def transposed(rows: int) -> Function:
        builder = glow_nb.Builder("net")
        x = builder.input("x", f"float32<2 x {rows}>")
        builder.save(builder.emit(Add(x, x)), "y")
        return builder.function()

    with HostManager([ScriptedDevice("a")]) as host:
        with pytest.raises(OptionError, match=r"'x' is float32<2 x 1> for a batch of 1"):
            host.add_network("net", transposed, max_batch=2)
        with pytest.raises(OptionError, match="it has state"):
            host.add_network("sum", lambda _: running_sum(), max_batch=2)

        def broken(_: int) -> Function:
            raise ValueError("mine")

        with pytest.raises(GlowError, match=r"network 'net': broken\(1\): ValueError: mine"):
            host.add_network("net", broken, max_batch=2)


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_rows_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(1, 5), 2)).astype(np.float32) for _ in range(60)]
    answers: dict[int, Array] = {}
    devices = [ScriptedDevice("a"), ScriptedDevice("b")]
    with HostManager(devices) as host:
        host.add_network("net", by_rows(0.3), max_batch=5, max_delay=0.001, duplicates=2)

        def ask(numbers: range) -> None:
            for number in numbers:
                answers[number] = host.run("net", {"x": arrays[number]})["y"]

        threads = [threading.Thread(target=ask, args=(range(n, 60, 6),)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    for number, array in enumerate(arrays):
        assert np.array_equal(answers[number], array * np.float32(0.3))

"""Runs that choose outputs, write to given arrays, are bound, or are made in the background."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.network.network import CompiledNetwork, Network
from tests.unit.formats.onnx.importer.models import model, value
from tests.unit.network.stateful import BACKENDS, ONES, counter, new_total, twice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def two_outputs() -> Function:
    """Return ``total = x + y``, ``product = x * y``."""
    b = glow_nb.Builder("main")
    x, y = b.input("x", "float32<2 x 3>"), b.input("y", "float32<2 x 3>")
    b.save(b.emit(ops.Add(x, y)), "total")
    b.save(b.emit(ops.Mul(x, y)), "product")
    return b.function()


def through() -> Function:
    """Return ``x``, which is an output as well, and ``y = relu(x)``."""
    b = glow_nb.Builder("main")
    x = b.input("x", "float32<3>")
    b.save(x, "copy")
    b.save(b.emit(ops.Relu(x)), "y")
    return b.function()


@pytest.fixture(scope="module", params=BACKENDS)
def net(request: pytest.FixtureRequest) -> Network:
    return glow_nb.compile(two_outputs(), backend=request.param, threads=1)


FEEDS = {"x": X, "y": X + 1}


class TestOutputs:
    def test_are_returned_in_the_order_in_which_they_are_chosen(self, net: Network) -> None:
        assert list(net.run(FEEDS, outputs=["product", "total"])) == ["product", "total"]
        chosen = net.run(x=X, y=X + 1, outputs=("product",))
        assert list(chosen) == ["product"]
        np.testing.assert_array_equal(chosen["product"], X * (X + 1))

    @pytest.mark.parametrize(
        ("outputs", "message"),
        [
            (["totl"], "there is no output 'totl'; did you mean 'total'.*the outputs are"),
            ("total", r"outputs='total': give a list of names"),
            ([], r"outputs=\[\]: give a list of names"),
            ([1], r"outputs=\[1\]: give a list of names"),
            (X, "outputs=a ndarray: give a list of names"),
        ],
    )
    def test_what_is_no_output_is_refused(self, net: Network, outputs: Any, message: str) -> None:
        with pytest.raises(OptionError, match=message):
            net.run(FEEDS, outputs=outputs)

    def test_an_input_that_is_called_so_is_fed_in_a_dict(self) -> None:
        b = glow_nb.Builder("main")
        b.save(b.emit(ops.Relu(b.input("outputs", "float32<2 x 3>"))), "y")
        net = glow_nb.compile(b.function(), backend="interpreter")
        np.testing.assert_array_equal(net.run({"outputs": X}, outputs=["y"])["y"], X)
        with pytest.raises(OptionError, match="the input 'outputs' is fed in a dict"):
            net.run({"outputs": X}, outputs=X)
        with pytest.raises(FeedError, match=r"nothing is fed: run\(\{'outputs': array\}\)"):
            net.run(outputs=X)


class TestInto:
    def test_given_arrays_are_written_and_returned(self, net: Network) -> None:
        total = np.empty((2, 3), np.float32)
        found = net.run(FEEDS, into={"total": total})
        assert found["total"] is total
        np.testing.assert_array_equal(total, X + X + 1)
        np.testing.assert_array_equal(found["product"], X * (X + 1))
        assert list(net.run(FEEDS, into={"total": total}, outputs=["product"])) == ["product"]

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.empty((2, 3)), r"'total': the array is float64 of shape \[2, 3\]"),
            (np.empty((3, 2), np.float32), r"'total': .*shape \[3, 2\].*float32<2 x 3>"),
            (np.empty((2, 3), ">f4"), "'total': the array is >f4"),
            (np.empty((2, 6), np.float32)[:, ::2], "'total': the array is not contiguous"),
            (np.frombuffer(bytes(24), np.float32).reshape(2, 3), "'total': .*read-only"),
            (X.tolist(), "'total': a list is no NumPy array"),
            (np.ma.masked_array(X), "'total': a MaskedArray is no NumPy array"),
            (FEEDS["x"], "'total': the array overlaps that of input 'x'"),
        ],
    )
    def test_an_array_that_cannot_be_written_is_refused(
        self, net: Network, array: Any, message: str
    ) -> None:
        with pytest.raises(FeedError, match=f"output {message}"):
            net.run(FEEDS, into={"total": array})
        with pytest.raises(FeedError, match=f"output {message}"):
            net.bind(FEEDS, {"total": array})

    def test_arrays_that_overlap_are_refused(self, net: Network) -> None:
        block = np.zeros(9, np.float32)
        halves = {"total": block[:6].reshape(2, 3), "product": block[3:].reshape(2, 3)}
        with pytest.raises(FeedError, match="'product': .*overlaps that of output 'total'"):
            net.run(FEEDS, into=halves)
        rows = np.zeros((4, 3), np.float32)  # a feed that is copied is the caller's all the same
        with pytest.raises(FeedError, match="'total': .*overlaps that of input 'x'"):
            net.run({"x": rows[::2], "y": X}, into={"total": rows[:2]})
        between = net.run({"x": rows[::3], "y": X}, into={"total": rows[1:3]})
        np.testing.assert_array_equal(between["total"], X)

    @pytest.mark.parametrize(
        ("into", "message"),
        [
            ({"totl": X}, "there is no output 'totl'; did you mean 'total'"),
            ([X], "into=a list: give a dict of arrays by output name"),
        ],
    )
    def test_what_is_no_output_is_refused(self, net: Network, into: Any, message: str) -> None:
        with pytest.raises(OptionError, match=message):
            net.run(FEEDS, into=into)

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_an_output_that_is_an_input_is_written(self, backend: str) -> None:
        net = glow_nb.compile(through(), backend=backend, threads=1)
        place, x = np.zeros(3, np.float32), np.array([-1, 0, 1], np.float32)
        net.run(x, into={"copy": place})
        np.testing.assert_array_equal(place, x)

    def test_what_counts_of_an_output_is_a_view_of_its_array(self) -> None:
        proto = model([make_node("NonZero", ["x"], ["y"])], [value("x", (2, 3))], ["y"])
        net = glow_nb.compile(proto, backend="interpreter")
        place = np.full((2, 6), -1, np.int64)
        found = net.run(X, into={"y": place})["y"]
        np.testing.assert_array_equal(found, np.nonzero(X))
        assert np.shares_memory(found, place)


class TestBind:
    def test_each_call_reads_and_writes_the_same_arrays(self, net: Network) -> None:
        feeds = {name: array.copy() for name, array in FEEDS.items()}
        total = np.empty((2, 3), np.float32)
        run = net.bind(feeds, {"total": total})
        assert run()["total"] is total and run() is run.outputs
        feeds["x"][:] = 10
        product = run()["product"]
        np.testing.assert_array_equal(total, 10 + feeds["y"])
        np.testing.assert_array_equal(product, 10 * feeds["y"])
        assert list(run.inputs) == ["x", "y"]

    def test_inputs_are_not_copied(self, net: Network) -> None:
        for odd in (X.tolist(), np.asfortranarray(X), X.astype(np.float64)):
            with pytest.raises(FeedError, match="input 'x': "):
                net.bind({"x": odd, "y": X})  # type: ignore[dict-item]

    def test_the_arrays_live_as_long_as_the_run(self, net: Network) -> None:
        run = net.bind({"x": X.copy(), "y": X.copy()})
        np.testing.assert_array_equal(run()["total"], 2 * X)


@pytest.mark.parametrize("backend", BACKENDS)
class TestState:
    def test_moves_on_once_for_each_run(self, backend: str) -> None:
        module = Module((counter(total := new_total()), twice(total)))
        net = glow_nb.compile(module, backend=backend, threads=1)
        place = np.empty(3, np.float32)
        net["count"].run(ONES, into={"y": place})
        run = net["count"].bind({"x": ONES.copy()}, {"y": place})
        run()
        np.testing.assert_array_equal(place, 1)
        np.testing.assert_array_equal(net.state["total"], 2)
        np.testing.assert_array_equal(net["twice"].run({}, outputs=["y"])["y"], 4)

    def test_runs_in_the_background_take_turns(self, backend: str) -> None:
        module = Module((counter(total := new_total()), twice(total)))
        net = glow_nb.compile(module, backend=backend, threads=1)
        futures = []
        for _ in range(20):
            futures += [net["count"].run_async(ONES), net["twice"].run_async({})]
        for done, future in enumerate(futures):
            expected = done // 2 if done % 2 == 0 else 2 * (done // 2 + 1)
            np.testing.assert_array_equal(future.result(60)["y"], expected)


class TestInBackground:
    def test_a_future_is_awaited(self, net: Network) -> None:
        async def results() -> list[dict[str, np.ndarray]]:
            many = (net.run_async({"x": X + n, "y": X}, outputs=["total"]) for n in range(5))
            return await asyncio.gather(*many)

        for n, found in enumerate(asyncio.run(results())):
            assert list(found) == ["total"]
            np.testing.assert_array_equal(found["total"], X + n + X)

    def test_an_error_is_that_of_the_run(self, net: Network) -> None:
        with pytest.raises(FeedError, match="unknown input 'z'"):
            net.run_async({"z": X}).result(60)

    def test_the_caller_goes_on_meanwhile(self) -> None:
        opened, began = threading.Event(), threading.Event()

        class Slow:
            def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
                began.set()
                assert opened.wait(60)
                return X

        net = glow_nb.compile(two_outputs(), backend="interpreter", threads=1)
        future = net.run_async({"x": Slow(), "y": X})  # type: ignore[dict-item]
        assert began.wait(60) and not future.done()
        opened.set()
        np.testing.assert_array_equal(future.result(60)["total"], 2 * X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_open_sizes_have_all_calls(backend: str) -> None:
    proto = model([make_node("Relu", ["x"], ["y"])], [value("x", ("n", 3))], ["y"])
    net = glow_nb.compile(proto, backend=backend, threads=1)
    place = np.empty((2, 3), np.float32)
    assert net.run(X, into={"y": place}, outputs=["y"])["y"] is place
    np.testing.assert_array_equal(net.bind(X)()["y"], X)
    np.testing.assert_array_equal(net.run_async(X).result(60)["y"], X)
    with pytest.raises(FeedError, match=r"'y': .*shape \[2, 3\].*float32<4 x 3>"):
        net.run(np.ones((4, 3), np.float32), into={"y": place})


def test_a_module_says_which_function_to_choose() -> None:
    total = new_total()
    net = glow_nb.compile(Module((counter(total), twice(total))), backend="interpreter")
    calls: tuple[Callable[[], object], ...] = (
        lambda: net.run({}, outputs=["y"]),
        lambda: net.bind({}),
        lambda: net.run_async({}),
    )
    for call in calls:
        with pytest.raises(OptionError, match="choose one of them"):
            call()


def test_defaults_that_are_fed_have_all_calls() -> None:
    inputs = [value("x", (2, 3)), value("w", (2, 3))]
    proto = model([make_node("Add", ["x", "w"], ["y"])], inputs, ["y"])
    proto.graph.initializer.append(_tensor("w", np.zeros((2, 3), np.float32)))
    net = glow_nb.compile(proto, backend="interpreter")
    place = np.empty((2, 3), np.float32)
    assert net.run({"x": X, "w": X}, into={"y": place}, outputs=["y"])["y"] is place
    np.testing.assert_array_equal(place, 2 * X)
    np.testing.assert_array_equal(net.bind({"x": X, "w": X + 1})()["y"], 2 * X + 1)


def _tensor(name: str, array: np.ndarray) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(array, name)


@pytest.mark.jit
def test_a_loaded_network_has_all_calls(tmp_path: Path) -> None:
    glow_nb.compile(counter(new_total()), threads=1).save(tmp_path / "net")
    net = glow_nb.load_compiled(tmp_path / "net")
    place = np.empty(3, np.float32)
    net.run(ONES, into={"y": place})
    run = net.bind({"x": ONES.copy()}, {"y": place})
    run()
    np.testing.assert_array_equal(place, 1)
    np.testing.assert_array_equal(net.run_async(ONES).result(60)["y"], 2)


def test_a_backend_that_only_runs_has_all_calls() -> None:

    net = glow_nb.compile(two_outputs(), backend="interpreter")
    assert isinstance(net, CompiledNetwork) and not hasattr(net.executable, "bind")
    total = np.empty((2, 3), np.float32)
    net.bind(FEEDS, {"total": total})()
    np.testing.assert_array_equal(total, X + X + 1)


class Lent:
    """An array of another library, which lends its memory."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class TestDlpack:
    def test_tensors_are_fed_without_a_copy(self, net: Network) -> None:
        x = X.copy()
        lent: Any = Lent(x)
        np.testing.assert_array_equal(net.run({"x": lent, "y": X})["total"], 2 * X)
        run = net.bind({"x": lent, "y": X})
        x += 1
        np.testing.assert_array_equal(run()["total"], 2 * X + 1)
        assert np.shares_memory(run.inputs["x"], x)

    def test_outputs_are_lent(self, net: Network) -> None:
        total = net.run(FEEDS)["total"]
        assert np.shares_memory(np.from_dlpack(total), total)

    @pytest.mark.parametrize(("kind", "name"), [(2, "CUDA device 1"), (99, "kind 99 1")])
    def test_a_tensor_on_another_device_is_refused(
        self, net: Network, kind: int, name: str
    ) -> None:
        far: Any = Lent(X, (kind, 1))
        for call in (net.run, net.bind):
            with pytest.raises(FeedError, match=rf"input 'x': a Lent on .*{name}.*tensor.cpu\(\)"):
                call({"x": far, "y": X})

    def test_what_numpy_cannot_lend_is_converted(self, net: Network) -> None:
        class Odd(Lent):
            @override
            def __dlpack__(self, **_: Any) -> object:
                raise BufferError("such numbers are not lent")

            def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
                return self.array

        odd: Any = Odd(X)
        np.testing.assert_array_equal(net.run({"x": odd, "y": X})["total"], 2 * X)

    def test_open_sizes_take_tensors(self) -> None:
        proto = model([make_node("Relu", ["x"], ["y"])], [value("x", ("n", 3))], ["y"])
        net = glow_nb.compile(proto, backend="interpreter")
        lent: Any = Lent(X)
        np.testing.assert_array_equal(net.run(lent)["y"], X)

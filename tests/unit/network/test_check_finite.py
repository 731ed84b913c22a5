"""``compile(check_finite=True)``: the first kernel that makes a NaN or an infinity is named."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import glow_nb
from glow_nb import FiniteCheck, NonFiniteError
from glow_nb.base.errors import OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, State
from tests.unit.formats.onnx.importer.models import model, value
from tests.unit.network.stateful import BACKENDS

ONES = np.ones((2, 4), np.float32)


def logarithm() -> Function:
    """Return ``y = exp(log(x + x))``, and ``z = 2 x``, all elementwise."""
    b = glow_nb.Builder("main")
    double = b.emit(ops.Add(x := b.input("x", "float32<2 x 4>"), x), "double")
    b.save(b.emit(ops.Exp(b.emit(ops.Log(double), "log")), "exp"), "y")
    b.save(b.emit(ops.Neg(double), "negative"), "z")
    return b.function()


@pytest.mark.parametrize("backend", BACKENDS)
class TestKernels:
    def test_the_first_is_named_with_its_operator(self, backend: str) -> None:
        net = glow_nb.compile(logarithm(), backend=backend, threads=1, check_finite=True)
        np.testing.assert_allclose(net.run(ONES)["y"], 2 * ONES, rtol=1e-6)
        x = ONES.copy()
        x[1, 2:] = -1
        with pytest.raises(
            NonFiniteError, match=r"%log .*element \[1, 2\] is nan.*of 2 "
        ) as caught:
            net.run(x)
        error = caught.value
        assert error.kernel is not None
        report = net.kernels[error.kernel]
        assert (error.family, error.operators) == (report.family, ("log",))
        assert "log" in report.origins
        assert (error.index, error.count) == ((1, 2), 2)
        np.testing.assert_array_equal(error.outputs["z"], -2 * x)  # the run was made

    def test_an_infinity_may_be_meant(self, backend: str) -> None:
        x = ONES.copy()
        x[0, 0] = 0  # whose logarithm is -inf, and that of 1e39 no float32
        plain = glow_nb.compile(logarithm(), backend=backend, threads=1)
        expected = plain.run(x)["y"]
        for check in (FiniteCheck(exclude=["log"]), FiniteCheck(infinity=False)):
            net = glow_nb.compile(logarithm(), backend=backend, threads=1, check_finite=check)
            np.testing.assert_array_equal(net.run(x)["y"], expected)
        net = glow_nb.compile(
            logarithm(),
            backend=backend,
            threads=1,
            without=["stack_instructions"],
            check_finite=True,
        )
        with pytest.raises(NonFiniteError, match="is -inf, in %log"):
            net.run(x)

    def test_what_is_fed_is_looked_at_first(self, backend: str) -> None:
        x = ONES.copy()
        x[1, 3] = np.inf
        net = glow_nb.compile(logarithm(), backend=backend, threads=1, check_finite=True)
        with pytest.raises(NonFiniteError, match=r"input 'x': element \[1, 3\] is inf;") as caught:
            net.run(x)
        assert caught.value.kernel is None
        masked = FiniteCheck(exclude=["x", "double", "log", "exp", "negative"])
        net = glow_nb.compile(logarithm(), backend=backend, threads=1, check_finite=masked)
        assert net.run(x)["y"][1, 3] == np.inf

    def test_a_state_moves_on_once(self, backend: str) -> None:
        total = State.of("total", np.zeros(3, np.float32))
        b = glow_nb.Builder("count")
        added = b.emit(ops.Add(total, b.input("x", "float32<3>")), "added")
        b.save(b.emit(ops.Log(added), "log"), "y")
        b.update(total, added)
        net = glow_nb.compile(b.function(), backend=backend, threads=1, check_finite=True)
        net.run(np.ones(3, np.float32))
        with pytest.raises(NonFiniteError) as caught:
            net.run(np.full(3, -2, np.float32))
        assert "log" in caught.value.operators
        np.testing.assert_array_equal(net.state["total"], -1)

    def test_slices_of_a_result_are_looked_at(self, backend: str) -> None:
        """Kernels write them with gaps into the result of a concatenation."""
        b = glow_nb.Builder("main")
        x = b.input("x", "float32<2 x 4>")
        parts = [b.emit(ops.Softmax(x, axis=1), "softmax"), b.emit(ops.Log(x), "log")]
        b.save(b.emit(ops.Concat(tuple(parts), axis=1), "joined"), "y")
        net = glow_nb.compile(b.function(), backend=backend, threads=1, check_finite=True)
        net.run(ONES)
        with pytest.raises(NonFiniteError, match="is nan, the first of 8") as caught:
            net.run(-ONES)
        assert "log" in caught.value.operators


def test_all_calls_and_open_sizes_are_checked() -> None:
    nodes = [make_node("Log", ["x"], ["l"], name="log_1"), make_node("Neg", ["l"], ["y"])]
    proto = model(nodes, [value("x", ("n", 4))], ["y"])
    net = glow_nb.compile(proto, backend="interpreter", check_finite=True)
    place, x = np.empty((2, 4), np.float32), ONES.copy()
    run = net.bind(x, {"y": place})
    run()
    x[:] = -1
    calls: tuple[Callable[[], object], ...] = (
        run,
        lambda: net.run(x, into={"y": place}),
        lambda: net.run(x, watch=["l"]),
        lambda: net.run_async(x).result(60),
    )
    for call in calls:
        with pytest.raises(NonFiniteError, match="%log_1 makes") as caught:
            call()
        assert caught.value.operators == ("log_1",)


def test_integers_are_not_looked_at() -> None:
    proto = model(
        [make_node("Cast", ["x"], ["i"], to=TensorProto.INT32), make_node("Abs", ["i"], ["y"])],
        [value("x", (2, 4))],
        ["y"],
    )
    net = glow_nb.compile(proto, backend="interpreter", check_finite=True)
    np.testing.assert_array_equal(net.run(-ONES)["y"], 1)


def test_an_error_is_pickled_whole() -> None:
    net = glow_nb.compile(logarithm(), backend="interpreter", check_finite=True)
    with pytest.raises(NonFiniteError) as caught:
        net.run(-ONES)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.kernel, again.operators) == (caught.value.kernel, caught.value.operators)


@pytest.mark.parametrize(
    ("check", "message"),
    [("yes", "check_finite='yes': give True"), (1, "check_finite=1: give True")],
)
def test_what_is_no_check_is_refused(check: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(logarithm(), backend="interpreter", check_finite=check)
    with pytest.raises(OptionError, match="exclude='log': give a list of names"):
        FiniteCheck(exclude="log")
    with pytest.raises(OptionError, match="infinity=0: give True or False"):
        FiniteCheck(infinity=0)  # type: ignore[arg-type]

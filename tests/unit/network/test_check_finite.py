"""``compile(check_finite=True)``: the first kernel that makes a NaN or an infinity is named."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import glow_nb
from glow_nb import FiniteCheck, NonFiniteError
from glow_nb.base.errors import OptionError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function, State
from glow_nb.hlir.module import Module
from tests.unit.formats.onnx.importer.models import model, value, weight
from tests.unit.network.stateful import BACKENDS, counter, new_total

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


@pytest.mark.parametrize("backend", BACKENDS)
class TestWhatComesIn:
    def test_a_state_is_named(self, backend: str) -> None:
        total, unused = (State.of(name, np.zeros(3, np.float32)) for name in ("total", "kept"))
        b = glow_nb.Builder("count")
        added = b.emit(ops.Add(total, x := b.input("x", "float32<3>")), "added")
        b.save(b.emit(ops.Neg(added), "negative"), "y")
        b.update(total, added)
        b.update(unused, x)
        function = b.function()
        net = glow_nb.compile(function, backend=backend, threads=1, check_finite=True)
        net.state["kept"] = np.full(3, np.nan, np.float32)  # which no kernel reads
        net.run(ONES[0, :3])
        net.state["total"] = np.array([1, np.nan, 1], np.float32)
        message = r"state 'total': element \[1\] is nan before the run; assign finite numbers"
        with pytest.raises(NonFiniteError, match=message) as caught:
            net.run(ONES[0, :3])
        assert (caught.value.kernel, caught.value.operators) == (None, ("total",))
        np.testing.assert_array_equal(caught.value.outputs["y"], [-2, np.nan, -2])
        masked = FiniteCheck(exclude=["total", "added", "negative"])
        net = glow_nb.compile(
            function, backend=backend, threads=1, check_finite=masked, state=net.state
        )
        net.run(ONES[0, :3])

    def test_a_constant_is_named_as_in_the_model(self, backend: str) -> None:
        weights = np.ones((4, 3), np.float32)
        weights[2, 1] = np.nan
        b = glow_nb.Builder("main")
        turned = b.emit(ops.Transpose(b.constant("w", weights.T.copy()), (1, 0)), "turned")
        product = b.emit(ops.MatMul(b.input("x", "float32<2 x 4>"), turned), "product")
        b.save(b.emit(ops.Exp(product), "exp"), "y")
        function = b.function()
        net = glow_nb.compile(function, backend=backend, threads=1, check_finite=True)
        message = r"constant 'w': element \[1, 2\] is nan; kernel 0 .*%product, reads it"
        with pytest.raises(NonFiniteError, match=message) as caught:
            net.run(ONES)
        assert (caught.value.kernel, caught.value.value) == (None, "w")
        assert "give the model finite numbers there" in str(caught.value)
        assert "exclude=['w', 'product']" in str(caught.value)
        allowed = FiniteCheck(exclude=["w", "product", "exp"])
        glow_nb.compile(function, backend=backend, threads=1, check_finite=allowed).run(ONES)

    def test_an_infinite_constant_may_be_harmless(self, backend: str) -> None:
        b = glow_nb.Builder("main")
        bound = b.constant("bound", np.full((2, 4), np.inf, np.float32))
        lesser = b.emit(ops.Minimum(b.input("x", "float32<2 x 4>"), bound), "lesser")
        b.save(b.emit(ops.Log(lesser), "log"), "y")
        net = glow_nb.compile(b.function(), backend=backend, threads=1, check_finite=True)
        net.run(ONES)
        with pytest.raises(NonFiniteError, match="%log writes"):
            net.run(-ONES)


def logarithm_of_onnx() -> onnx.ModelProto:
    """Return ``y = exp(log(x))`` as a model whose nodes and values have names of their own."""
    nodes = [
        make_node("Identity", ["x"], ["same"], name="identity_1"),
        make_node("Log", ["same"], ["l"], name="log_1"),
        make_node("Exp", ["l"], ["y"], name="exp_1"),
    ]
    return model(nodes, [value("x", (2, 4))], ["y"])


class TestExcludedNames:
    @pytest.mark.parametrize("name", ["l", "log_1", "y", "exp_1"])
    def test_nodes_and_values_mean_the_kernel(self, name: str) -> None:
        check = FiniteCheck(exclude=[name])
        net = glow_nb.compile(logarithm_of_onnx(), backend="interpreter", check_finite=check)
        net.run(-ONES)

    def test_what_passes_removed_is_known(self) -> None:
        check = FiniteCheck(exclude=["same", "identity_1", "x"])
        net = glow_nb.compile(logarithm_of_onnx(), backend="interpreter", check_finite=check)
        with pytest.raises(NonFiniteError, match="log_1"):
            net.run(-ONES)

    @pytest.mark.parametrize("batch", [2, "n"])
    def test_others_are_refused(self, batch: Any) -> None:
        proto = model(
            [make_node("Log", ["x"], ["l"], name="log_1")], [value("x", (batch, 4))], ["l"]
        )
        message = "names that the model does not have: 'lgo_1'; did you mean 'log_1'"
        with pytest.raises(OptionError, match=message):
            check = FiniteCheck(exclude=["lgo_1"])
            glow_nb.compile(proto, backend="interpreter", check_finite=check).run(ONES)

    def test_each_function_of_a_module_has_names(self) -> None:
        module = Module((logarithm(), counter(new_total())))
        glow_nb.compile(module, backend="interpreter", check_finite=FiniteCheck(exclude=["log"]))
        with pytest.raises(OptionError, match="does not have: 'logs'"):
            check = FiniteCheck(exclude=["log", "logs"])
            glow_nb.compile(module, backend="interpreter", check_finite=check)


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
        with pytest.raises(NonFiniteError, match="%log_1 writes") as caught:
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


def causal(past: int | str = 3) -> onnx.ModelProto:
    """Return attention whose queries see no later keys."""
    shapes = {"q": (1, 2, past, 4), "k": (1, 2, past, 4), "v": (1, 2, past, 4)}
    nodes = [make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)]
    return model(nodes, [value(name, shape) for name, shape in shapes.items()], ["y"], opset=23)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("past", [3, "n"])
def test_scores_that_attention_hides_are_meant(backend: str, past: int | str) -> None:
    net = glow_nb.compile(causal(past), backend=backend, threads=1, check_finite=True)
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for name in "qkv"}
    assert np.isfinite(net.run(feeds)["y"]).all()
    feeds["q"] *= np.float32(1e38)
    feeds["k"] *= 100
    with pytest.raises(NonFiniteError, match="%y"):
        net.run(feeds)


def test_a_mask_of_the_model_is_not_meant() -> None:
    mask = np.where(np.tri(3, dtype=bool), 0, -np.inf).astype(np.float32)
    nodes = [
        make_node("MatMul", ["q", "k"], ["scores"]),
        make_node("Where", ["seen", "scores", "hidden"], ["masked"]),
        make_node("Softmax", ["masked"], ["y"]),
    ]
    weights = [weight("seen", mask == 0), weight("hidden", np.full(1, -np.inf, np.float32))]
    made = model(nodes, [value("q", (3, 4)), value("k", (4, 3))], ["y", "masked"], weights=weights)
    net = glow_nb.compile(made, backend="interpreter", check_finite=True)
    with pytest.raises(NonFiniteError, match="'hidden'.*-inf"):
        net.run({"q": np.ones((3, 4), np.float32), "k": np.ones((4, 3), np.float32)})

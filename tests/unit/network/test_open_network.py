"""Networks compiled once for all sizes."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.backends.cpu import tune
from glow_nb.base.errors import (
    FeedError,
    OptionError,
    PassError,
    UnboundDimension,
    UnsupportedError,
)
from glow_nb.base.size import Symbol
from glow_nb.base.size_ranges import described_ranges
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.with_sizes import with_sizes

BACKENDS = ["cpu", "interpreter"]


def _function() -> Function:
    batch = Symbol("batch", 32, 1, 512).size
    builder = Builder("softmaxes")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (batch, 8)))
    builder.save(builder.emit(ops.Softmax(x, axis=1)), "y")
    return builder.function()


def _model(*dimensions: str | int | None) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dimensions)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=1)]
    graph = helper.make_graph(nodes, "softmax", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_program_runs_for_all_sizes(backend: str) -> None:
    net = glow_nb.compile(_model("batch", 8), sizes={"batch": (1, 64)}, backend=backend, threads=1)
    for batch in (1, 3, 64, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 8)).astype(np.float32)
        np.testing.assert_allclose(net.run({"x": x})["y"], _softmax(x), rtol=1e-5, atol=1e-7)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert len(net.variants) == 1
    assert not net.specialized


def test_a_graph_with_open_sizes_needs_no_ranges() -> None:
    net = glow_nb.compile(_function(), sizes={}, backend="interpreter", threads=1)
    assert net.run(np.zeros((512, 8), np.float32))["y"].shape == (512, 8)


def test_dimensions_without_a_name_are_given_by_position() -> None:
    sizes = {"x": (None, 8)}
    net = glow_nb.compile(_model(None, 8), sizes=sizes, backend="interpreter", threads=1)
    assert net.run(np.zeros((7, 8), np.float32))["y"].shape == (7, 8)


def test_results_are_written_to_given_arrays_and_bound() -> None:
    net = glow_nb.compile(_function(), sizes={}, threads=1)
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    into = np.empty((5, 8), np.float32)
    net.run({"x": x}, into={"y": into})
    np.testing.assert_allclose(into, _softmax(x), rtol=1e-5)
    bound = net.bind({"x": x})
    net.run({"x": np.zeros((9, 8), np.float32)})  # which lies elsewhere in memory
    x *= -1
    np.testing.assert_allclose(bound()["y"], _softmax(x), rtol=1e-5)


def test_prepared_sizes_run_on_a_program_of_their_own() -> None:
    net = glow_nb.compile(_function(), sizes={}, backend="interpreter", threads=1)
    own = net.prepare({"batch": 4}).result()
    assert own.inputs["x"].shape == (4, 8)
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert net.variants[-1] is own


@pytest.mark.parametrize(
    ("sizes", "hints", "message"),
    [
        ({"batch": (3, 2)}, None, r"sizes=\{'batch': \(3, 2\)\}: the range holds no size"),
        ({"rows": (1, 2)}, None, r"no open size of this name.*it has .'batch'"),
        ({"batch": (1, 8)}, {"batch": 9}, r"hints=\{'batch': 9\}: it is outside the range 1..8"),
        ({"batch": 4}, {"batch": 5}, r"hints=\{'batch': 5\}: it is outside the range 4..4"),
        ({"x": [4, 8]}, {"batch": 5}, r"hints=\{'batch': 5\}: it is outside the range 4..4"),
        ({"x": [4, 8], "batch": 3}, None, r"'batch' is in \(3, 3\) and.* in \(4, 4\)"),
        ({"x": (4, 8)}, None, r"sizes=\{'x': \(4, 8\)\}: it is an input.* ranges of .'batch'"),
        ({"batch": [1, 8]}, None, r"sizes=\{'batch': \[1, 8\]\}: it is a dimension"),
        ({"batch": (1, None)}, None, r"sizes=\{'batch': \[1, None\]\}: it is a dimension"),
        ({"batch": "many"}, None, r"sizes=\{'batch': 'many'\}: give the least and the greatest"),
        ({"x": (1, 2, 3)}, None, r"3 dimensions, and the input has 2"),
        ({"z": (1, 2, 3)}, None, r"the model has no input of this name"),
        ({"x": (1, (2, 5))}, None, r"the model says 8 where \(2, 5\) is given"),
        ({"x": (1, None)}, None, r"the model says 8 where an open size \(None\) is given"),
        ({"x": ("rows", 8)}, None, r"the model says 'batch' where 'rows' is given, at x\[0\]"),
        ({"x": ((1, 4), 8), "batch": (2, 3)}, None, r"'batch' is in \(2, 3\) and.* in \(1, 4\)"),
        ([("batch", 1)], None, r"give a dict such as"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(
    sizes: object, hints: dict[str, int] | None, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(_model("batch", 8), sizes=sizes, hints=hints, backend="interpreter")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"z": (1, None, 8)}, r"the model has no input of this name"),
        ({"x": ((1, 5), 8)}, r"the model says 4 where \(1, 5\) is given"),
        ({"x": (4, 8, None)}, r"3 dimensions, and the input has 2"),
        ({"batch": (1, 5)}, r"the model has no open size of this name"),
    ],
)
def test_nothing_is_said_of_sizes_that_a_model_fixes(
    sizes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        glow_nb.compile(_model(4, 8), sizes=sizes, backend="interpreter", threads=1)


def test_fed_sizes_outside_of_their_range_are_refused() -> None:
    net = glow_nb.compile(_model("batch", 8), sizes={"batch": (2, 4)}, threads=1)
    with pytest.raises(FeedError, match=r"axis 0 of input 'x' says 5, .* its range 2\.\.4"):
        net.run(np.zeros((5, 8), np.float32))


def test_sizes_of_many_runs_get_a_program_of_their_own() -> None:
    net = glow_nb.compile(_function(), sizes={}, threads=1, specialize_after=3)
    assert isinstance(net, glow_nb.DynamicNetwork)
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    for _ in range(3):
        net.run({"x": x})
    own = net.prepare({"batch": 5}).result()  # behind what was begun in the background
    assert net.variants[1:] == (own,)
    np.testing.assert_allclose(net.run({"x": x})["y"], _softmax(x), rtol=1e-5)
    assert net.general is not None and net.general.first is not None
    layout = net.general.first.executable._loaded.layout_for([x])  # type: ignore[attr-defined]
    assert layout.runs == 3  # the fourth run was that of the other program
    other = np.ones((6, 8), np.float32)
    np.testing.assert_allclose(net.run({"x": other})["y"], _softmax(other), rtol=1e-5)


def test_what_is_not_there_for_open_sizes_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"debug=True: program 'softmaxes' has open sizes"):
        glow_nb.compile(_function(), sizes={}, threads=1, debug=True)


def test_sizes_that_are_prepared_are_in_their_ranges() -> None:
    net = glow_nb.compile(_function(), sizes={"batch": (1, 4)}, backend="interpreter", threads=1)
    with pytest.raises(FeedError, match=r"says 5, which is outside its range 1\.\.4"):
        net.prepare({"batch": 5})


def test_a_size_is_open_or_fixed() -> None:
    with pytest.raises(OptionError, match=r"sizes= and shapes= both speak of 'batch'"):
        glow_nb.compile(_model("batch", 8), sizes={"batch": (1, 4)}, shapes={"batch": 2})


def test_products_of_open_sizes_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune, "default_folder", lambda: tmp_path)  # which has no measurements
    monkeypatch.setattr(tune, "_measured", {})
    monkeypatch.setattr(tune.MeasuringTuner, "_compile", lambda *requests: None)
    monkeypatch.delattr(tune.MeasuringTuner, "measure_anew")
    builder = Builder("product")
    batch = Symbol("batch", 4, 1, 8).size
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (batch, 24)))
    weights = np.arange(576, dtype=np.float32).reshape(24, 24)
    builder.save(builder.emit(ops.MatMul(x, builder.constant("w", weights))), "y")
    function = builder.function()
    with pytest.raises(PassError, match="measure_anew"):  # of a fixed size, it is measured
        glow_nb.compile(with_sizes(function, {"batch": 4}), threads=1, tune=True)
    net = glow_nb.compile(function, sizes={}, threads=1, tune=True)
    y = net.run(np.ones((2, 24), np.float32))["y"]
    np.testing.assert_array_equal(y, [weights.sum(0)] * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_may_be_fed_where_a_range_begins_at_0(backend: str) -> None:
    net = glow_nb.compile(_model("batch", 8), sizes={"batch": (0, 4)}, backend=backend, threads=1)
    for batch in (2, 0):
        assert net.run(np.zeros((batch, 8), np.float32))["y"].shape == (batch, 8)


def test_programs_of_single_sizes_are_let_go() -> None:
    net = glow_nb.compile(_function(), sizes={}, threads=1, max_variants=1, specialize_after=None)
    assert isinstance(net, glow_nb.DynamicNetwork)
    made = []
    for batch in (3, 4, 5):
        net.run({"x": np.zeros((batch, 8), np.float32)})
        own: Any = net.prepare({"batch": batch}).result()
        made.append(weakref.ref(own.executable._loaded._idle))  # its memory
        del own
        net.run({"x": np.zeros((batch, 8), np.float32)})
    gc.collect()
    assert [one() is not None for one in made] == [False, False, True]


def _with_default(node: onnx.NodeProto, name: str, default: np.ndarray) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    kind = helper.np_dtype_to_tensor_dtype(default.dtype)
    given = helper.make_tensor_value_info(name, kind, default.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializer = numpy_helper.from_array(default, name)
    graph = helper.make_graph([node], "given", [x, given], [y], [initializer])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_fed_in_place_of_a_default_serve_their_run_alone(backend: str) -> None:
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    model = _with_default(node, "factor", np.full(1, 2, np.float32))
    net = glow_nb.compile(model, sizes={"batch": (1, 4)}, backend=backend, threads=1)
    x = np.ones((3, 4), np.float32)
    for factor in (5, 7):
        assert (net.run({"x": x, "factor": np.full(1, factor, np.float32)})["y"] == factor).all()
        assert (net.run({"x": x})["y"] == 2).all()
    with pytest.raises(FeedError, match=r"says 5, which is outside its range 1\.\.4"):
        net.run({"x": np.ones((5, 4), np.float32), "factor": np.full(1, 5, np.float32)})


def test_shapes_that_are_fed_in_place_of_a_default_serve_their_run_alone() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = _with_default(node, "shape", np.array([-1, 2]))
    net = glow_nb.compile(model, sizes={}, threads=1)
    x = np.ones((2, 4), np.float32)
    for _ in range(2):
        assert net.run({"x": x})["y"].shape == (4, 2)
        assert net.run({"x": x, "shape": np.array([-1, 8])})["y"].shape == (1, 8)


def _mel_weights(size: str | None = "N") -> onnx.ModelProto:
    """Return a model that needs a number for the *size* of x, and compares M with 5."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])
    i = helper.make_tensor_value_info("i", TensorProto.INT64, ["M"])
    one, other, y = (helper.make_tensor_value_info(v, TensorProto.FLOAT, None) for v in "abq")
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        helper.make_node("Squeeze", ["n"], ["bins"]),
        helper.make_node("MelWeightMatrix", ["bins", "length", "rate", "low", "high"], ["mel"]),
        helper.make_node("Gather", ["mel", "i"], ["y"]),
        helper.make_node("Shape", ["i"], ["m"]),
        helper.make_node("Greater", ["m", "five"], ["above"]),
        helper.make_node("Squeeze", ["above"], ["is_above"]),
        helper.make_node(
            "If",
            ["is_above"],
            ["q"],
            then_branch=helper.make_graph([helper.make_node("Relu", ["y"], ["a"])], "t", [], [one]),
            else_branch=helper.make_graph(
                [helper.make_node("Neg", ["y"], ["b"])], "e", [], [other]
            ),
        ),
    ]
    numbers = {"length": 16, "rate": 8000, "low": 0.0, "high": 4000.0}
    kinds = [np.float32 if isinstance(number, float) else np.int64 for number in numbers.values()]
    weights = [
        numpy_helper.from_array(np.array(number, kind), name)
        for (name, number), kind in zip(numbers.items(), kinds, strict=True)
    ]
    weights.append(numpy_helper.from_array(np.array([5]), "five"))
    graph = helper.make_graph(nodes, "mel", [x, i], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_size_that_was_made_a_number_is_that_of_its_hint_in_all_programs() -> None:
    net = glow_nb.compile(
        _mel_weights(), sizes={}, hints={"N": 6}, backend="interpreter", threads=1
    )
    for size, sign in ((7, 1), (3, -1), (9, 1)):  # of which 3 needs a program of its own
        indices = np.arange(size) % 6
        found = net.run({"x": np.ones(6, np.float32), "i": indices})["q"]
        assert found.shape == (size, 6)
        assert (found * sign).min() == 0 < (found * sign).max()
    with pytest.raises(FeedError, match=r"'x' says 4, and the program has 6 .*MelWeight.*hints="):
        net.run({"x": np.ones(4, np.float32), "i": np.arange(3)})


def test_what_needs_a_number_is_told_by_the_name_that_users_give() -> None:
    net = glow_nb.compile(_mel_weights(None), hints={"x[0]": 6}, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    (only,) = net.specialized
    assert only.name == "x[0]" and only.reason.endswith("it needs a number for x[0]")


def test_a_range_without_an_end_is_described_by_its_begin() -> None:
    assert described_ranges([Symbol("n", 64, 33), Symbol("m", 4)]) == "n >= 33, any m"


def test_a_range_belongs_to_sizes() -> None:
    with pytest.raises(OptionError, match=r"'batch' is a dimension and no input.* by sizes="):
        glow_nb.compile(_model("batch", 8), shapes={"batch": (1, 8)})


def test_errors_write_open_sizes_as_types_do() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = _with_default(node, "shape", np.array([-1, 8]))
    net = glow_nb.compile(model, sizes={}, backend="interpreter", threads=1)
    wanted = r"batch = 3: .* are batch = 2 or batch = 4; .*the 4\*batch elements of %x : "
    with pytest.raises(FeedError, match=wanted):
        net.run(np.ones((3, 4), np.float32))


def test_runs_go_on_while_their_sizes_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    net = glow_nb.compile(_function(), sizes={}, backend="interpreter", threads=1)
    assert isinstance(net, glow_nb.DynamicNetwork)
    begun, ran, compile_for = threading.Event(), threading.Event(), net._compile_for

    def wait_for_the_run(*arguments: Any) -> glow_nb.CompiledNetwork:
        begun.set()
        assert ran.wait(60)
        return compile_for(*arguments)

    monkeypatch.setattr(net, "_compile_for", wait_for_the_run)
    own = net.prepare({"batch": 5})
    assert begun.wait(60)
    into = np.zeros((5, 8), np.float32)
    runs = threading.Thread(
        target=net.run, args=(np.ones((5, 8), np.float32),), kwargs={"into": {"y": into}}
    )
    runs.start()
    runs.join(20)
    is_waiting = runs.is_alive()
    ran.set()
    runs.join()
    assert not is_waiting
    assert own.result().inputs["x"].shape == (5, 8)


def test_a_program_for_all_sizes_is_prepared_by_its_network() -> None:
    net = glow_nb.compile(_function(), sizes={}, backend="interpreter", threads=1)
    assert isinstance(net, glow_nb.DynamicNetwork)
    with pytest.raises(OptionError, match=r"is one of a network, for batch in 1\.\.512"):
        net.variants[0].prepare({"batch": 4})


def test_a_network_says_that_a_model_leaves_no_size_open() -> None:
    net = glow_nb.compile(_model("batch", 8), sizes={"batch": 4}, backend="interpreter", threads=1)
    assert repr(net).endswith("compiled for fixed sizes>")


def test_an_input_of_any_rank_is_to_be_given_as_a_shape() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "any", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnboundDimension, match=r"shapes=\{'x': \(1, 3\)\}"):
        glow_nb.compile(model, sizes={}, backend="interpreter", threads=1)
    glow_nb.compile(model, shapes={"x": (1, 3)}, backend="interpreter", threads=1)


def test_a_model_that_is_loaded_may_leave_sizes_open() -> None:
    with pytest.raises(UnboundDimension, match=r"shapes=.*, or leave them open, open_sizes=True$"):
        glow_nb.load(_model("batch", 8))
    assert glow_nb.load(_model("batch", 8), open_sizes=True).sizes

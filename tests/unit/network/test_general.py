"""A network with open sizes is one program for all of them, as far as there can be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import glow_nb
from glow_nb.base.errors import FeedError, MemoryLimitError, OptionError, UnsupportedError
from glow_nb.base.memory_limit import MemoryLimit
from glow_nb.base.passes import PassRun
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Function
from tests.unit.formats.onnx.importer.models import model, one, value

BACKENDS = ("interpreter", "cpu")


def softmax(**options: object) -> glow_nb.DynamicNetwork:
    proto = one("Softmax", inputs=[value("x", ("batch", "length"))], axis=-1)
    net = glow_nb.compile(proto, **{"backend": "interpreter", **options})  # type: ignore[arg-type]
    assert isinstance(net, glow_nb.DynamicNetwork)
    return net


def check(net: glow_nb.DynamicNetwork, batch: int, length: int) -> None:
    x = np.linspace(-2, 3, batch * length, dtype=np.float32).reshape(batch, length)
    wanted = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(net.run(x)["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_arrays_are_the_example_and_others_compile_nothing(backend: str) -> None:
    runs: list[PassRun] = []
    net = softmax(backend=backend, observer=runs.append)
    assert not runs and not net.variants
    check(net, 3, 50)
    compiled = len(runs)
    for batch, length in ((1, 1), (7, 9), (3, 50), (2, 111)):
        check(net, batch, length)
    assert len(runs) == compiled and net.specialized == ()
    (variant,) = net.variants
    assert variant.sizes == "any batch, any length"
    assert str(variant.inputs["x"]) == "float32<batch x length>"
    assert [symbol.hint for symbol in variant.border.symbols] == [3, 50]


def test_sizes_of_zero_get_a_program_of_their_own() -> None:
    net = softmax()
    for batch in (0, 2, 0):
        check(net, batch, 5)
    assert sorted(one.sizes for one in net.variants) == [
        "any batch, any length",
        "batch = 0, length = 5",
    ]


def with_cache(**options: Any) -> glow_nb.DynamicNetwork:
    """Return rows after those of a cache, and the share of each one's sum in all sums."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("ReduceSum", ["present", "last"], ["scores"], keepdims=0),
        helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    inputs = [value("past", ("batch", "past", 4)), value("x", ("batch", "length", 4))]
    last = [numpy_helper.from_array(np.array([2]), "last")]
    net = glow_nb.compile(model(nodes, inputs, ("y", "present"), last), threads=1, **options)
    assert isinstance(net, glow_nb.DynamicNetwork)
    return net


def check_cache(net: glow_nb.DynamicNetwork, batch: int, past: int, length: int) -> None:
    rng = np.random.default_rng(0)
    rows, x = (rng.random((batch, n, 4), np.float32) for n in (past, length))
    present = np.concatenate([rows, x], 1)
    scores = np.exp(present.sum(2))
    found = net.run(past=rows, x=x)
    assert np.array_equal(found["present"], present)
    np.testing.assert_allclose(found["y"], scores / scores.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cache_that_begins_empty_needs_no_program_for_each_prompt(backend: str) -> None:
    net = with_cache(backend=backend)
    for batch, past, length in ((1, 0, 7), (2, 0, 3), (1, 0, 40), (1, 7, 1), (1, 500, 9)):
        check_cache(net, batch, past, length)
    assert [one.sizes for one in net.variants] == ["any batch, past >= 0, any length"]


def test_a_cache_that_is_empty_later_needs_one_program_more() -> None:
    net = with_cache(backend="interpreter")
    for past, length in ((5, 2), (0, 7), (0, 3), (5, 1)):
        check_cache(net, 1, past, length)
    kinds = ["any batch, any past, any length", "any batch, past >= 0, any length"]
    assert [one.sizes for one in net.variants] == kinds


def not_open_from_zero(function: Function) -> Function:
    if any(symbol.low == 0 for symbol in function.sizes):
        raise UnsupportedError("this pass does not want 0")
    return function


def test_empty_inputs_that_no_program_takes_get_one_for_each_set_of_sizes() -> None:
    runs: list[PassRun] = []
    options: Any = {"backend": "interpreter", "observer": runs.append}
    net = with_cache(pipeline=(not_open_from_zero,), **options)
    for past, length in ((5, 2), (0, 2), (0, 3), (6, 3)):
        check_cache(net, 1, past, length)
    assert [one.sizes for one in net.variants] == [
        "any batch, any past, any length",
        "batch = 1, past = 0, length = 2",
        "batch = 1, past = 0, length = 3",
    ]
    assert net.specialized == ()
    imported = [run.after for run in runs if run.name == "import"]
    assert sum(any(size.low == 0 for size in each.sizes) for each in imported) == 1


def test_results_for_which_there_is_no_memory_end_their_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = softmax(backend="cpu", threads=1)
    check(net, 3, 5)
    limit = MemoryLimit(8 << 20, "its control group")
    monkeypatch.setattr("glow_nb.base.memory_limit.memory_limit", lambda: limit)
    x = np.zeros((1000, 3000), np.float32)
    with pytest.raises(MemoryLimitError, match=r"outputs 12000000 bytes.* may use 8388608"):
        net.run(x)
    np.testing.assert_allclose(net.run(x, into={"y": np.empty_like(x)})["y"], 1 / 3000, rtol=1e-5)
    check(net, 4, 7)


def test_prepared_sizes_need_no_other_program() -> None:
    net = softmax(backend="cpu", threads=1)
    prepared = net.prepare({"batch": 2, "length": 8}).result()
    check(net, 2, 8)
    assert net.variants == (prepared,)
    check(net, 3, 9)
    check(net, 2, 8)
    assert [one.sizes for one in net.variants] == ["any batch, any length", prepared.sizes]


def of_fixed_sizes(function: Function) -> Function:
    if any(not isinstance(n, int) for v in function.inputs for n in v.type.shape):
        raise UnsupportedError("this pass wants numbers")
    return function


def test_what_cannot_be_compiled_for_all_sizes_is_for_each_and_says_why() -> None:
    net = softmax(pipeline=(of_fixed_sizes,))
    for batch in (2, 3, 2):
        check(net, batch, 4)
    assert [one.sizes for one in net.variants] == ["batch = 3, length = 4", "batch = 2, length = 4"]
    assert {one.name for one in net.specialized} == {"batch", "length"}
    assert "this pass wants numbers" in net.specialized[0].reason


def not_of_seven(function: Function) -> Function:
    if any(hinted(n) == 7 for v in function.inputs for n in v.type.shape):
        raise UnsupportedError("this pass does not want 7")
    return function


def test_sizes_that_nothing_takes_are_no_reason_for_other_runs() -> None:
    net = softmax(pipeline=(not_of_seven,))
    with pytest.raises(glow_nb.GlowError, match="does not want 7"):
        check(net, 7, 5)
    check(net, 0, 5)  # which has a program of its own
    assert net.specialized == ()
    check(net, 3, 5)
    assert "any batch, any length" in [one.sizes for one in net.variants]


def test_a_model_that_takes_one_size_says_so() -> None:
    b = np.ones((5,), np.float32)
    weights = [numpy_helper.from_array(b, "b")]
    proto = one("Add", ("x", "b"), inputs=[value("x", ("n",))], weights=weights)
    net = glow_nb.compile(proto, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    with pytest.raises(glow_nb.GlowError, match="7"):
        net.run(np.ones((7,), np.float32))
    np.testing.assert_array_equal(net.run(np.ones((5,), np.float32))["y"], b + 1)
    assert [(one.name, one.size) for one in net.specialized] == [("n", 5)]


def test_a_number_in_the_place_of_a_size_gets_one_more_program() -> None:
    weights = [numpy_helper.from_array(np.array([6, -1]), "s")]
    proto = one("Reshape", ("x", "s"), inputs=[value("x", ("n", "m"))], weights=weights)
    net = glow_nb.compile(proto, backend="interpreter")
    for n, m in ((3, 4), (2, 9), (6, 5), (3, 8)):
        x = np.arange(n * m, dtype=np.float32).reshape(n, m)
        np.testing.assert_array_equal(net.run(x)["y"], x.reshape(6, -1))


@pytest.mark.jit
def test_runs_of_each_program_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 4] x) => (float[n, 4] y) {
        s = Shape <start = 0, end = 1> (x)
        three = Constant <value = int64[1] {3}> ()
        is_three = Equal (s, three)
        y = If (is_three) <then_branch = t () => (float[n, 4] a) { a = Relu (x) },
                           else_branch = e () => (float[n, 4] b) { b = Neg (x) }>
    }"""
    net = glow_nb.compile(onnx.parser.parse_model(text), threads=1)
    feeds = {n: {"x": np.ones((n, 4), np.float32)} for n in (3, 5)}
    for feed in feeds.values():
        net.run(feed)
    assert isinstance(net, glow_nb.DynamicNetwork) and len(net.variants) == 2
    monkeypatch.delattr(glow_nb.DynamicNetwork, "_network_for")
    for n, sign in ((3, 1), (5, -1), (3, 1)):
        np.testing.assert_array_equal(net.run(feeds[n])["y"], sign * feeds[n]["x"])


def test_feeds_that_disagree_are_refused_before_anything_is_compiled() -> None:
    proto = one("Add", ("x", "z"), inputs=[value("x", ("n", 2)), value("z", ("n", 2))])
    net = glow_nb.compile(proto, backend="interpreter")
    with pytest.raises(FeedError, match="'n' is 3 in input 'x' but 4 in 'z'"):
        net.run({"x": np.ones((3, 2), np.float32), "z": np.ones((4, 2), np.float32)})
    assert isinstance(net, glow_nb.DynamicNetwork) and not net.variants


@pytest.mark.parametrize("hints", [{"batch": 3}, 5, [1], {}])
def test_each_set_of_sizes_by_itself_has_no_example(hints: Any) -> None:
    with pytest.raises(OptionError, match="sizes='each', hints="):
        softmax(sizes="each", hints=hints)


def test_a_word_that_is_no_way_to_compile_sizes_is_refused() -> None:
    with pytest.raises(OptionError, match="give a dict such as"):
        softmax(sizes="all")


def test_graphs_are_one_program_as_well() -> None:
    text = """
func @main<n in 1..9 like 2>(%x : float32<n x 4>) -> (%y : float32<n x 4>) {
  %t = tanh(%x) : float32<n x 4>
  %y_save = save(%t, %y)
}
"""
    net = glow_nb.compile(text, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    for n in (3, 9):
        x = np.full((n, 4), 0.5, np.float32)
        np.testing.assert_allclose(net.run(x)["y"], np.tanh(x), rtol=1e-6)
    assert [one.sizes for one in net.variants] == ["n in 1..9"]
    with pytest.raises(FeedError, match="10"):
        net.run(np.ones((10, 4), np.float32))


def test_memory_that_was_short_is_no_reason_to_compile_each_set_of_sizes() -> None:
    is_short = [True]

    def short_once(function: Function) -> Function:
        if is_short.pop() if is_short else False:
            raise MemoryLimitError("compile: there is no memory")
        return function

    net = softmax(pipeline=(short_once,))
    check(net, 2, 3)
    assert net.specialized == ()
    check(net, 2, 4)
    assert [one.sizes for one in net.variants] == ["any batch, any length", "batch = 2, length = 3"]


def test_an_observer_that_runs_the_network_meanwhile_is_no_reason_either() -> None:
    begun: list[glow_nb.DynamicNetwork] = []

    def run_it(_: PassRun) -> None:
        if begun:
            check(begun.pop(), 5, 3)

    net = softmax(observer=run_it)
    begun.append(net)
    check(net, 2, 3)
    assert net.specialized == ()
    assert [one.sizes for one in net.variants] == ["any batch, any length", "batch = 5, length = 3"]

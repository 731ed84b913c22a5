"""Networks with data-dependent sizes."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import onnx.parser
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, OptionError, UnsupportedError
from glow_nb.network.staged import StagedNetwork

TEXT = """
constant %w : float32<2 x 3> = dense [1, 2, 3, 4, 5, 6]
func @rows<found in 0..6 like 4>(%x : float32<6 x 2>, %m : float32<6>)
    -> (%y : float32<found x 3>, %total : float32<1 x 3>) {
  %places = non_zero(%m) : int64<1 x 6>, int64<>
  %d = decide_size(%places#1) {size = found} : bool<found x 0>
  %first = slice(%places#0) {starts = [0, 0], stops = [1, found], steps = [1, 1]} : int64<1 x found>
  %row = reshape(%first) {shape = [found]} : int64<found>
  %taken = gather(%x, %row) {axis = 0} : float32<found x 2>
  %product = mat_mul(%taken, %w) : float32<found x 3>
  %sum = reduce_sum(%product) {axes = [0], keep_dims = true} : float32<1 x 3>
  %y_save = save(%product, %y)
  %total_save = save(%sum, %total)
}
"""
WEIGHTS = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def feeds_of(count: int) -> dict[str, np.ndarray]:
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    return {"x": x, "m": (np.arange(6) >= 6 - count).astype(np.float32)}


def network(**options: object) -> StagedNetwork:
    made = glow_nb.compile(glow_nb.load(TEXT), threads=1, **options)  # type: ignore[arg-type]
    assert isinstance(made, StagedNetwork)
    return made


@pytest.mark.parametrize(("backend", "threads"), [("interpreter", 1), ("cpu", 1), ("cpu", 2)])
def test_one_program_serves_all_counts(backend: str, threads: int) -> None:
    net = glow_nb.compile(glow_nb.load(TEXT), backend=backend, threads=threads)
    assert isinstance(net, StagedNetwork)
    for count in (2, 0, 6, 1):
        feeds = feeds_of(count)
        expected = feeds["x"][6 - count :] @ WEIGHTS
        outputs = net.run(feeds)
        np.testing.assert_array_equal(outputs["y"], expected)
        np.testing.assert_array_equal(outputs["total"], expected.sum(0, keepdims=True))
    last = net.stages[-1]
    assert isinstance(last, glow_nb.DynamicNetwork)
    assert last.general is not None
    (only,) = last.general.networks
    assert not only.guards


def test_what_is_shown_of_it() -> None:
    net = network(backend="interpreter")
    assert str(net.outputs["y"]) == "float32<found x 3>"
    assert "2 stages" in repr(net)
    assert [kernel.instruction for kernel in net.kernels]
    for view in ("program", "memory"):
        expected = rf"data-dependent sizes \(found\).*stages\[0\]\.{view}"
        with pytest.raises(UnsupportedError, match=expected):
            getattr(net, view)
    assert net.stages[0].memory.arena_bytes >= 0


def test_arrays_are_given_for_outputs_of_a_known_size_alone() -> None:
    net, total = network(backend="interpreter"), np.empty((1, 3), np.float32)
    outputs = net.run(feeds_of(2), into={"total": total})
    assert outputs["total"] is total
    np.testing.assert_array_equal(total, (feeds_of(2)["x"][4:] @ WEIGHTS).sum(0, keepdims=True))
    with pytest.raises(FeedError, match="float32<found x 3>"):
        net.run(feeds_of(2), into={"y": np.empty((2, 3), np.float32)})
    with pytest.raises(UnsupportedError, match=r"data-dependent sizes \(found\).*how large y is"):
        net.bind(feeds_of(2))


FED = """
func @rows<found in 0..6 like 4, n in 1..6 like 6>(%x : float32<n x 2>, %m : float32<n>)
    -> (%same : float32<n x 2>, %largest : float32<1>) {
  %places = non_zero(%m) : int64<1 x n>, int64<>
  %d = decide_size(%places#1) {size = found} : bool<found x 0>
  %first = slice(%places#0) {starts = [0, 0], stops = [1, found], steps = [1, 1]} : int64<1 x found>
  %row = reshape(%first) {shape = [found]} : int64<found>
  %taken = gather(%m, %row) {axis = 0} : float32<found>
  %sum = reduce_sum(%taken) {axes = [0], keep_dims = true} : float32<1>
  %relu = relu(%x) : float32<n x 2>
  %same_save = save(%relu, %same)
  %largest_save = save(%sum, %largest)
}
"""


def test_arrays_are_given_for_outputs_of_sizes_that_are_fed() -> None:
    net = glow_nb.compile(glow_nb.load(FED), backend="interpreter")
    for n in (6, 3):
        feeds = {"x": np.ones((n, 2), np.float32), "m": np.ones(n, np.float32)}
        same = np.zeros((n, 2), np.float32)
        assert net.run(feeds, into={"same": same})["same"] is same and same.all()
        bound = net.bind(feeds, {"same": same})
        feeds["x"][:] = 2
        assert bound()["same"] is same and (same == 2).all() and bound()["largest"] == n
    with pytest.raises(UnsupportedError, match=r"net\.variants\[0\]\.stages\[0\]\.memory"):
        _ = net.memory
    feeds = {"x": np.ones((3, 2), np.float32), "m": np.ones(3, np.float32)}
    with pytest.raises(FeedError, match="float32<3 x 2>"):
        net.run(feeds, into={"same": np.zeros((6, 2), np.float32)})


def test_the_error_of_a_bound_run_names_the_outputs_that_a_run_decides() -> None:
    text = TEXT.replace("%y", "%rows").replace("-> (", "-> (%again : float32<found x 3>, ")
    text = text.replace("  %total_save", "  %again_save = save(%product, %again)\n  %total_save")
    net = glow_nb.compile(glow_nb.load(text), backend="interpreter")
    with pytest.raises(UnsupportedError, match="how large again, rows is"):
        net.bind(feeds_of(2))


def test_values_of_all_stages_are_watched() -> None:
    outputs = network(backend="interpreter").run(feeds_of(2), watch=["row", "places#1"])
    assert outputs["row"].tolist() == [4, 5]
    assert outputs["places#1"] == 2


def test_bundles_refuse_it_by_name(tmp_path: object) -> None:
    for write in (network().build, partial(glow_nb.build, glow_nb.load(TEXT))):
        expected = r"'rows'.*data-dependent sizes \(found\).*net\.save"
        with pytest.raises(UnsupportedError, match=expected):
            write(f"{tmp_path}/net")


MODEL = """<ir_version: 9, opset_import: ["" : 18]>
rows (float[N, 4] x) => (int64[2, K] places, float[M] largest, float[N, 4] same) {
    places = NonZero (x)
    shape = Shape (places)
    one = Constant <value = int64[1] {1}> ()
    count = Gather <axis = 0> (shape, one)
    three = Constant <value = int64[1] {3}> ()
    k = Min (count, three)
    all = Constant <value = int64[1] {-1}> ()
    flat = Reshape (x, all)
    largest, where = TopK (flat, k)
    same = Relu (x)
}"""


def test_sizes_may_be_open_as_well() -> None:
    net = glow_nb.compile(onnx.parser.parse_model(MODEL), sizes={}, backend="interpreter")
    for rows, count in ((1, 4), (3, 1), (5, 0), (2, 8)):
        x = np.zeros(rows * 4, np.float32)
        x[:count] = np.arange(1, count + 1)
        outputs = net.run({"x": x.reshape(rows, 4)})
        assert outputs["places"].shape == (2, count)
        assert outputs["largest"].tolist() == sorted(x[:count], reverse=True)[:3]
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert net.general is not None
    assert len(net.general.networks) == 1


def test_a_network_of_stages_with_open_sizes_has_its_function_by_name() -> None:
    text = TEXT.replace("found in", "n in 1..8 like 6, found in").replace("6 x 2", "n x 2")
    text = text.replace("float32<6>", "float32<n>").replace("1 x 6", "1 x n")
    net = glow_nb.compile(glow_nb.load(text), sizes={}, backend="interpreter")
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert net.functions == {"rows": net}


def test_wrong_numbers_end_the_run() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[2, 3] x, int64[2] shape) => (float[a, b] y) { y = Expand (x, shape) }"""
    net = glow_nb.compile(
        onnx.parser.parse_model(text.replace("[2, 3]", "[1, 3]")), backend="interpreter"
    )
    x = np.ones((1, 3), np.float32)
    assert net.run({"x": x, "shape": np.array([2, 3])})["y"].shape == (2, 3)
    with pytest.raises(FeedError, match="'y': the run computes -2"):
        net.run({"x": x, "shape": np.array([-2, 3])})


def test_shapes_that_do_not_fit_end_the_run() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[4, 3] x, int64[2] shape) => (float[a, b] y) { y = Reshape (x, shape) }"""
    net = glow_nb.compile(onnx.parser.parse_model(text), backend="interpreter")
    x = np.ones((4, 3), np.float32)
    assert net.run({"x": x, "shape": np.array([-1, 2])})["y"].shape == (6, 2)
    with pytest.raises(
        FeedError, match="size 'y_elements': the run computes 10 for it, but it must be 12"
    ):
        net.run({"x": x, "shape": np.array([5, 2])})


def test_fed_sizes_that_the_model_was_not_imported_for_get_another_program() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[1, N, 4] boxes, float[1, 1, N] scores) => (int64[2] found) {
        most = Constant <value = int64[1] {5}> ()
        chosen = NonMaxSuppression (boxes, scores, most)
        found = Shape (chosen)
    }"""
    net = glow_nb.compile(onnx.parser.parse_model(text), sizes={}, backend="interpreter")
    for count in (8, 3):
        corners = np.arange(count, dtype=np.float32)[:, None] * 2 + np.array([0, 0, 1, 1])
        feeds = {
            "boxes": corners[None].astype(np.float32),
            "scores": np.ones((1, 1, count), np.float32),
        }
        assert net.run(feeds)["found"].tolist() == [min(count, 5), 3]
    assert isinstance(net, glow_nb.DynamicNetwork)
    assert net.general is not None
    assert len(net.general.networks) == 2


def test_caches_in_place_are_refused() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[P, 4] past, float[1, 4] new) => (float[T, 4] now, int64[2] found) {
        now = Concat <axis = 0> (past, new)
        places = NonZero (new)
        found = Shape (places)
    }"""
    model, caches = onnx.parser.parse_model(text), {"past": "now"}
    with pytest.raises(UnsupportedError, match="caches=.*there are data-dependent sizes"):
        glow_nb.compile(model, caches=caches, sizes={"P": (1, 9)}, backend="interpreter")


@pytest.mark.jit
def test_the_profile_has_the_kernels_of_all_stages() -> None:
    net = network()
    profile = net.profile(feeds_of(3), runs=2, limits=False)
    assert [kernel.report.family for kernel in profile.kernels] == [k.family for k in net.kernels]
    assert profile.runs == 2 and len(profile.timings.plain_seconds) == 2
    assert min(profile.run_seconds) >= sum(kernel.min_seconds for kernel in profile.kernels)
    events = profile.chrome_trace()["traceEvents"]
    assert all(event["ts"] >= 0 for event in events if event["ph"] == "X")
    with pytest.raises(OptionError, match="runs"):
        net.profile(feeds_of(3), runs=0)


@pytest.mark.jit
def test_the_layers_of_all_stages_have_a_precision() -> None:
    report = network(precision="bfloat16").precision
    assert report.precision == "bfloat16"
    assert [layer.name for layer in report.layers] == ["product", "sum"]

"""Data-dependent sizes: operands that only a run computes, and counts, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import glow_nb
from glow_nb.base.errors import FeedError, ModelError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from tests.unit.formats.onnx.importer.decided_models import RNG, floats, model, whole


def some(*shape: int, share: float) -> Array:
    return (RNG.random(shape) < share).astype(np.float32)


def boxes(count: int) -> Array:
    corners = np.sort(RNG.random((1, count, 2, 2), np.float32), axis=2)
    return corners.reshape(1, count, 4)


CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "Range": (
        """(int64 a, int64 l, int64 d, float[4] w) => (int64[k] r, float[k, 4] y) {
        r = Range (a, l, d)
        f = Cast <to = 1> (r)
        column = Unsqueeze (f, last)
        y = Mul (column, w) }""",
        [
            {"a": np.int64(a), "l": np.int64(b), "d": np.int64(c), "w": floats(4)}
            for a, b, c in (
                *((0, 5, 1), (3, 20, 4), (10, -3, -2), (5, 5, 1), (5, 2, 1), (0, 9, 2**62)),
                *((2**60, 2**60 + 3, 1), (-(2**60), -(2**60) - 3, -2), (2**62, 2**62 + 5, 2**62)),
            )
        ],
    ),
    "Range of floats": (
        "(float a, float l, float d) => (float[k] r) { r = Range (a, l, d) }",
        [
            {"a": np.float32(a), "l": np.float32(b), "d": np.float32(c)}
            for a, b, c in ((0, 5, 1), (0.5, 2, 0.3), (1, -3, -0.5), (5, 5, 1))
        ],
    ),
    "Reshape": (
        """(float[6, 4] x, int64[3] s) => (float[a, b, c] y, float[a, b, c] z) {
        y = Reshape (x, s)
        z = Softmax <axis = -1> (y) }""",
        [
            {"x": floats(6, 4), "s": whole(*s)}
            for s in ((2, 3, 4), (6, 4, 1), (1, 1, 24), (2, -1, 3), (0, 2, 2), (-1, 4, 3))
        ],
    ),
    "Expand": (
        """(float[1, 4] x, int64[2] s, float[4, 3] w) => (float[a, b] y, float[a, c] z) {
        y = Expand (x, s)
        z = MatMul (y, w) }""",
        [
            {"x": floats(1, 4), "s": whole(*s), "w": floats(4, 3)}
            for s in ((2, 4), (1, 1), (7, 4), (0, 4))
        ],
    ),
    "Tile": (
        """(float[2, 4] x, int64[2] s) => (float[a, b] y, float[a, 1] z) {
        y = Tile (x, s)
        z = ReduceSum (y, last) }""",
        [{"x": floats(2, 4), "s": whole(*s)} for s in ((2, 4), (1, 1), (7, 3), (0, 1))],
    ),
    "Slice": (
        """(float[9, 4] x, int64[1] s, int64[1] e, float[4, 3] w)
            => (float[a, 4] y, float[a, 3] z, float[b, 4] second, float[c, 4] back) {
        two = Constant <value = int64[1] {2}> ()
        minus = Constant <value = int64[1] {-1}> ()
        y = Slice (x, s, e, axis)
        z = MatMul (y, w)
        second = Slice (x, s, e, axis, two)
        back = Slice (x, e, s, axis, minus) }""",
        [
            {"x": floats(9, 4), "s": whole(s), "e": whole(e), "w": floats(4, 3)}
            for s, e in ((2, 4), (0, 9), (-3, 100), (5, 2), (-100, -2), (8, 9))
        ],
    ),
    "Slice of long steps": (
        """(float[9, 4] x, int64[1] s, int64[1] e) => (float[a, 4] y, float[b, 4] z) {
        on = Constant <value = int64[1] {9223372036854775807}> ()
        back = Constant <value = int64[1] {-9223372036854775807}> ()
        y = Slice (x, s, e, axis, on)
        z = Slice (x, e, s, axis, back) }""",
        [{"x": floats(9, 4), "s": whole(s), "e": whole(e)} for s, e in ((1, 8), (5, 5))],
    ),
    "Split": (
        """(float[9, 4] x, int64[3] p, float[4, 2] w)
            => (float[a, 2] y, float[b, 4] z, float[c, 4] u) {
        first, z, u = Split <axis = 0> (x, p)
        y = MatMul (first, w) }""",
        [
            {"x": floats(9, 4), "p": whole(*p), "w": floats(4, 2)}
            for p in ((3, 3, 3), (9, 0, 0), (1, 6, 2))
        ],
    ),
    "TopK": (
        """(float[3, 9] x, int64[1] k) => (float[3, a] y, int64[3, a] i, float[3, 1] z) {
        y, i = TopK (x, k)
        z = ReduceSum (y, last) }""",
        [{"x": floats(3, 9), "k": whole(k)} for k in (1, 0, 9, 4)],
    ),
    "OneHot": (
        """(int64[4] x, int64 d, float[2] v) => (float[4, a] y, float[4] z) {
        y = OneHot (x, d, v)
        z = ReduceSum <keepdims = 0> (y, last) }""",
        [
            {"x": whole(0, 1, -1, 2), "d": np.int64(d), "v": np.array([0, 1], np.float32)}
            for d in (3, 5, 17)
        ],
    ),
    "ConstantOfShape": (
        """(int64[2] s, float[1, 3] x) => (float[a, b] y, float[a, 3] z) {
        y = ConstantOfShape <value = float[1] {2.5}> (s)
        z = Expand (x, s) }""",
        [{"s": whole(a, 3), "x": floats(1, 3)} for a in (2, 5, 1, 0)],
    ),
    "Pad": (
        """(float[3, 4] x, int64[4] p) => (float[a, b] y, float[a, 1] z) {
        y = Pad (x, p)
        z = ReduceMax (y, last) }""",
        [{"x": floats(3, 4), "p": whole(*p)} for p in ((0, 1, 0, 2), (2, 0, 1, 0), (0, 0, 0, 0))],
    ),
    **{
        f"Pad of any sign, {mode}": (
            f"""(float[n, 4] x, int64[4] p) => (float[a, b] y, float[a, 1] z) {{
            y = Pad <mode = "{mode}"> (x, p)
            z = ReduceSum (y, last) }}""",
            [
                {"x": floats(n, 4), "p": whole(*p)}
                for n, p in (
                    *((3, (1, -1, 2, 2)), (3, (-1, 2, 1, -1)), (3, (0, 0, 0, 0))),
                    *((4, (1, 1, -2, -2)), (3, (2, -2, 2, 1))),
                )
            ],
        )
        for mode in ("constant", "edge", "reflect", "wrap")
    },
    "one k of two TopK": (
        """(float[3, 9] x, float[3, 5] z, int64[1] k) => (float[3, a] y, int64[3, a] j) {
        large, i = TopK (x, k)
        other, j = TopK (z, k)
        y = Add (large, other) }""",
        [{"x": floats(3, 9), "z": floats(3, 5), "k": whole(k)} for k in (1, 0, 5, 4)],
    ),
    "Expand of what may be one": (
        """(float[n, 4] x, int64[2] s) => (float[a, 4] y, float[1, 4] z) {
        y = Expand (x, s)
        z = ReduceSum (y, axis) }""",
        [
            {"x": floats(n, 4), "s": whole(*s)}
            for n, s in ((1, (5, 4)), (3, (3, 1)), (3, (1, 4)), (1, (1, 1)), (1, (0, 4)))
        ],
    ),
    "a shape of what was found": (
        """(float[3, 4] x) => (int64[2, a] y, float[a, b] z) {
        found = NonZero (x)
        shape = Shape (found)
        y = Reshape (found, shape)
        floats = Cast <to = 1> (y)
        turned = Transpose <perm = [1, 0]> (floats)
        z = MatMul (turned, floats) }""",
        [{"x": some(3, 4, share=share)} for share in (0.5, 0, 1)],
    ),
    "Resize": (
        """(float[1, 3, 4, 4] x, int64[2] n, float[3, 3, 3, 3] w) => (float[1, 3, a, b] y) {
        front = Constant <value = int64[2] {1, 3}> ()
        sizes = Concat <axis = 0> (front, n)
        large = Resize <mode = "linear"> (x, , , sizes)
        y = Conv <pads = [1, 1, 1, 1]> (large, w) }""",
        [
            {"x": floats(1, 3, 4, 4), "w": floats(3, 3, 3, 3), "n": whole(*n)}
            for n in ((8, 8), (2, 6), (17, 5))
        ],
    ),
    **{
        f"Resize by factors, {mode}": (
            f"""(float[1, 2, 4, n] x, float[2] f) => (float[1, 2, a, b] y) {{
            front = Constant <value = float[2] {{1.0, 1.0}}> ()
            factors = Concat <axis = 0> (front, f)
            y = Resize <mode = "{mode}"> (x, , factors) }}""",
            [
                {"x": floats(1, 2, 4, n), "f": np.array(f, np.float32)}
                for n, f in ((6, (2, 1.5)), (5, (1, 1)), (7, (0.6, 2.7)), (6, (0.3, 0.5)))
            ],
        )
        for mode in ("nearest", "linear", "cubic")
    },
    "Unique": (
        """(float[12] x) => (float[a] u, int64[12] v, int64[a] c, float[a] s, float t) {
        u, i, v, c = Unique (x)
        s = Softmax (u)
        t = ReduceSum <keepdims = 0> (u) }""",
        [{"x": RNG.integers(0, k, 12).astype(np.float32)} for k in (1, 3, 50)],
    ),
    "Compress": (
        """(float[8, 3] x, bool[8] c, float[3, 5] w)
            => (float[a, 5] y, float[1, 3] m, int64[a] am) {
        k = Compress <axis = 0> (x, c)
        y = MatMul (k, w)
        m = ReduceSum (k, axis)
        am = ArgMax <axis = 1, keepdims = 0> (k) }""",
        [
            {"x": floats(8, 3), "c": RNG.random(8) < share, "w": floats(3, 5)}
            for share in (0.5, 0, 1)
        ],
    ),
    "NonZero": (
        """(float[6, 5] m, float[6, 5] x)
            => (float[k] y, float[k, k] z, float[k] s, float[j, 5] c) {
        places = NonZero (m)
        rows = Transpose <perm = [1, 0]> (places)
        y = GatherND (x, rows)
        again = NonZero (m)
        others = Transpose <perm = [1, 0]> (again)
        chosen = GatherND (m, others)
        s = Add (y, chosen)
        column = Unsqueeze (y, last)
        row = Unsqueeze (chosen, axis)
        z = Mul (column, row)
        zero = Constant <value = int64 {0}> ()
        first = Gather <axis = 0> (places, zero)
        taken = Gather <axis = 0> (x, first)
        c = Concat <axis = 0> (x, taken, x) }""",
        [{"m": some(6, 5, share=share), "x": floats(6, 5)} for share in (0.5, 0, 1)],
    ),
    "NonMaxSuppression": (
        """(float[1, 20, 4] b, float[1, 2, 20] s)
            => (float[k, 4] kept, float[k] points, float[t, 4] top) {
        most = Constant <value = int64[1] {5}> ()
        overlap = Constant <value = float[1] {0.3}> ()
        least = Constant <value = float[1] {0.5}> ()
        n = NonMaxSuppression (b, s, most, overlap, least)
        two = Constant <value = int64[1] {2}> ()
        three = Constant <value = int64[1] {3}> ()
        box = Slice (n, two, three, last)
        places = Squeeze (box, last)
        all = Squeeze (b, axis)
        kept = Gather <axis = 0> (all, places)
        turned = Transpose <perm = [0, 2, 1]> (s)
        batch = Slice (n, axis, last, last)
        class = Slice (n, last, two, last)
        where = Concat <axis = 1> (batch, box, class)
        points = GatherND (turned, where)
        shape = Shape (points)
        four = Constant <value = int64[1] {4}> ()
        k = Min (four, shape)
        values, best = TopK (points, k)
        top = Gather <axis = 0> (kept, best) }""",
        [
            {"b": boxes(20), "s": RNG.random((1, 2, 20), np.float32) * np.float32(most)}
            for most in (1, 0.4, 0.6)
        ],
    ),
    "numbers that are the most that is found": (
        """(float[2] m, float[3] n) => (int64[2, a] y, int64[3, 2] z) {
        pair = Constant <value = int64[2] {2, -1}> ()
        table = Constant <value = int64[2] {3, 2}> ()
        found = NonZero (m)
        y = Reshape (found, pair)
        all = NonZero (n)
        two = Constant <value = int64[1] {2}> ()
        some = Slice (all, axis, two, last)
        z = Expand (some, table) }""",
        [{"m": np.full(2, k, np.float32), "n": np.ones(3, np.float32)} for k in (0, 1)],
    ),
    "a limit of what was found": (
        """(float[9, 4] x, float[9] m) => (float[a, 4] y, float[1, 4] z) {
        places = NonZero (m)
        row = Squeeze (places, axis)
        three = Constant <value = int64[1] {3}> ()
        first = Slice (row, axis, three, axis)
        y = Gather <axis = 0> (x, first)
        z = ReduceSum (y, axis) }""",
        [{"x": floats(9, 4), "m": some(9, share=share)} for share in (0.5, 1, 0, 0.1)],
    ),
}


def expected(proto: onnx.ModelProto, feeds: list[dict[str, Any]]) -> Iterator[list[Array]]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for each in feeds:
        yield session.run(None, {name: np.asarray(array) for name, array in each.items()})


def compare(outputs: dict[str, Array], wanted: list[Array]) -> None:
    for (name, got), right in zip(outputs.items(), wanted, strict=True):
        assert (got.shape, got.dtype) == (right.shape, right.dtype), name
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_sizes_that_runs_decide(name: str) -> None:
    text, feeds = CASES[name]
    function = glow_nb.load(model(text), open_sizes=True)
    assert print_function(parse_function(print_function(function))) == print_function(function)
    for each, wanted in zip(feeds, expected(model(text), feeds), strict=True):
        compare(evaluate(function, each), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "threads"), [("interpreter", 1), ("cpu", 1), ("cpu", 2)])
@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_of_them(name: str, backend: str, threads: int) -> None:
    text, feeds = CASES[name]
    network: Any = glow_nb.compile(model(text), backend=backend, threads=threads)
    for each, wanted in zip(feeds, expected(model(text), feeds), strict=True):
        compare(network.run(each), wanted)
    stages: Any = getattr(network, "stages", ()) or network.variants[0].stages
    for stage in stages:
        general = getattr(stage, "general", None)
        assert general is None or len(general.networks) == 1
        assert general is None or len(stage.variants) == 1


def test_a_shape_without_numbers_is_that_of_one_element() -> None:
    text = "(float[{}] x, int64[0] s) => (float y) {{ y = Reshape (x, s) }}"
    feeds = {"x": floats(1), "s": whole()}
    assert evaluate(import_onnx(model(text.format(1))), feeds)["y"] == feeds["x"][0]
    with pytest.raises(ModelError, match=r"the 2 elements of .* do not fill shape \[\]"):
        glow_nb.load(model(text.format(2)), open_sizes=True)


def test_an_expansion_to_no_axes_changes_nothing() -> None:
    text = "(float[2, 4] x, int64[0] s) => (float[a, b] y) { y = Expand (x, s) }"
    x = floats(2, 4)
    assert np.array_equal(evaluate(import_onnx(model(text)), {"x": x, "s": whole()})["y"], x)


def test_examples_of_sizes_that_runs_decide_are_no_advice() -> None:
    text = """(float[3, 9] x, float[4, 9] z, int64[1] k) => (float[a, 9] y) {
        large, i = TopK (x, k)
        all = Concat <axis = 0> (large, z)
        y = Identity (all) }"""
    with pytest.raises(ModelError) as caught:
        glow_nb.load(model(text), open_sizes=True)
    assert "hints" not in str(caught.value)


def test_a_number_of_several_uses_has_the_range_that_all_allow() -> None:
    text = """(float[ROWS, 9] x, float[ROWS, 5] z, int64[1] k) => (float[a, b] y) {
        large, i = TopK (x, k)
        other, j = TopK (z, k)
        y = Add (large, other) }"""
    for rows in ("3", "n"):
        function = glow_nb.load(model(text.replace("ROWS", rows)), open_sizes=True)
        (size,) = (symbol for symbol in function.sizes if symbol.name != "n")
        assert (size.low, size.high) == (0, 5) and not function.guards
        with pytest.raises(FeedError, match=r"6 .*range 0\.\.5"):
            evaluate(function, {"x": floats(3, 9), "z": floats(3, 5), "k": whole(6)})


def test_what_needs_a_number_is_refused() -> None:
    text = "(float[3, 4] x, int64[1] a) => (float[b, c] y) { y = Unsqueeze (x, a) }"
    with pytest.raises(UnsupportedError, match=r"\(Unsqueeze\): 'axes' must be known when"):
        import_onnx(model(text))


@pytest.mark.parametrize("name", ["NonZero", "Range", "Reshape", "Slice"])
def test_the_graph_is_a_model_again(name: str) -> None:
    text, feeds = CASES[name]
    again = glow_nb.export_onnx(import_onnx(model(text)))
    for wanted, outputs in zip(expected(model(text), feeds), expected(again, feeds), strict=True):
        compare(dict(zip(map(str, range(len(outputs))), outputs, strict=True)), wanted)

"""Operands that only a run computes, and that fit no result, are errors, as in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import glow_nb
from glow_nb.base.errors import FeedError
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.decided_models import floats, model, whole

WRONG: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "Reshape": (
        "(float[6, 4] x, int64[3] s) => (float[a, b, c] y) { y = Reshape (x, s) }",
        [
            {"x": floats(6, 4), "s": whole(*s)}
            for s in ((2, 3, 7), (2, 3, -3), (-2, 3, 4), (-1, 2, -1), (-1, -1, 24), (2, 2, 0))
        ],
        r"size 'y_elements': the run computes -?\d+ for it, but it must be 24",
    ),
    "Reshape of an open size": (
        "(float[n, 4] x, int64[2] s) => (float[a, b] y) { y = Reshape (x, s) }",
        [{"x": floats(5, 4), "s": whole(*s)} for s in ((4, 4), (4, 6), (-1, -1))],
        "size 'y_elements_in_excess'",
    ),
    "Reshape to a vector": (
        "(float[6, 4] x, int64[1] s) => (float[a] y) { y = Reshape (x, s) }",
        [{"x": floats(6, 4), "s": whole(s)} for s in (23, 0, -2)],
        "size 'y_elements'",
    ),
    "Split": (
        """(float[9, 4] x, int64[3] p) => (float[a, 4] y, float[b, 4] z, float[c, 4] u) {
        y, z, u = Split <axis = 0> (x, p) }""",
        [{"x": floats(9, 4), "p": whole(*p)} for p in ((3, 3, 2), (9, 9, 9), (0, 0, 0))],
        r"size 'y_sum': the run computes \d+ for it, but it must be 9",
    ),
    "Range": (
        "(int64 a, int64 l, int64 d) => (int64[k] y) { y = Range (a, l, d) }",
        [{"a": np.int64(a), "l": np.int64(5), "d": np.int64(0)} for a in (0, 9)],
        "size 'y': the run computes -1 for it",
    ),
    "Range of floats": (
        "(float a, float l, float d) => (float[k] y) { y = Range (a, l, d) }",
        [{"a": np.float32(a), "l": np.float32(5), "d": np.float32(0)} for a in (0, 9)],
        "size 'y': the run computes -1 for it",
    ),
    "Expand": (
        "(float[1, 4] x, int64[2] s) => (float[a, b] y) { y = Expand (x, s) }",
        [{"x": floats(1, 4), "s": whole(2, s)} for s in (3, 0, -1)],
        r"size 'y_expanded': the run computes -?\d for it, but it must be 4",
    ),
    "Reshape of what was found": (
        """(float[2] m) => (int64[2, a] y) {
        pair = Constant <value = int64[2] {2, -1}> ()
        found = NonZero (m)
        y = Reshape (found, pair) }""",
        [{"m": np.array([0, 1], np.float32)}],
        "the graph holds only where",
    ),
    "Expand of what was found": (
        """(float[2] m) => (int64[3, 2] y) {
        table = Constant <value = int64[2] {3, 2}> ()
        found = NonZero (m)
        y = Expand (found, table) }""",
        [{"m": np.zeros(2, np.float32)}],
        "the graph holds only where",
    ),
    "Squeeze of what was not found": (
        """(float[1] m) => (int64[a] y) {
        found = NonZero (m)
        y = Squeeze (found, last) }""",
        [{"m": np.zeros(1, np.float32)}],
        "the graph holds only where",
    ),
    **{
        f"{mode} of nothing": (
            f"""(float[n, 4] x, int64[4] p) => (float[a, b] y) {{
            y = Pad <mode = "{mode}"> (x, p) }}""",
            [{"x": floats(2, 4), "p": whole(*p)} for p in ((-2, 0, 1, 0), (0, -5, 0, 3))],
            r"size 'y(_cells_of_nothing)?(_2)?': the run computes",
        )
        for mode in ("edge", "reflect")
    },
    "Resize": (
        """(float[1, 2, 4, 4] x, float[4] f) => (float[a, b, c, d] y) {
        y = Resize <mode = "nearest"> (x, , f) }""",
        [
            {"x": floats(1, 2, 4, 4), "f": np.array([1, 1, f, 1], np.float32)}
            for f in (0, -2, np.nan)
        ],
        r"size 'y(_\d)?': the run computes -1 for it",
    ),
    "Expand of an open size": (
        "(float[n, 1] x, int64[2] s) => (float[a, b] y) { y = Expand (x, s) }",
        [{"x": floats(2, 1), "s": whole(s, 3)} for s in (3, 0)],
        "size 'y_expanded_in_excess'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_fit_no_result_are_errors(name: str) -> None:
    text, feeds, message = WRONG[name]
    function = glow_nb.load(model(text), open_sizes=True)
    session = onnxruntime.InferenceSession(model(text).SerializeToString())
    for each in feeds:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            session.run(None, {key: np.asarray(array) for key, array in each.items()})
        with pytest.raises(FeedError, match=message):
            evaluate(function, each)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "threads"), [("interpreter", 1), ("cpu", 1), ("cpu", 2)])
@pytest.mark.parametrize("name", WRONG)
def test_they_are_errors_of_networks(name: str, backend: str, threads: int) -> None:
    text, feeds, message = WRONG[name]
    network: Any = glow_nb.compile(model(text), backend=backend, threads=threads)
    for each in feeds:
        with pytest.raises(FeedError, match=message):
            network.run(each)

"""Graphs with open sizes as models: named dimensions, and shapes computed from those of inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.hlir.parse import parse_function

TEXT = """\
func @main<b in 1..64 like 8, n in 3..512 like 128>(%x : float32<b x n x 4>, %z : float32<b x n + 1>) -> (%y : float32<2*b x n/2 x 4>, %m : float32<b*n x 4>, %s : int64<2>, %w : float32<b x n + 1>) {
  %half = slice(%x) {starts = [0, 0, 0], stops = [b, n/2, 4], steps = [1, 1, 1]} : float32<b x n/2 x 4>
  %both = concat([%half, %half]) {axis = 0} : float32<2*b x n/2 x 4>
  %y_save = save(%both, %y)
  %flat = reshape(%x) {shape = [b*n, 4]} : float32<b*n x 4>
  %row = slice(%flat) {starts = [2, 0], stops = [3, 4], steps = [1, 1]} : float32<1 x 4>
  %rows = broadcast(%row) {shape = [b*n, 4]} : float32<b*n x 4>
  %sum = add(%rows, %flat) : float32<b*n x 4>
  %m_save = save(%sum, %m)
  %sizes = sizes() {numbers = [b, 3*n*n - 1]} : int64<2>
  %s_save = save(%sizes, %s)
  %w_save = save(%z, %w)
}
"""  # noqa: E501 - a line of a graph


def _dimensions(values: object) -> list[list[str | int]]:
    return [
        [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in values  # type: ignore[attr-defined]
    ]


def test_open_sizes_are_named_dimensions_and_computed() -> None:
    function = parse_function(TEXT)
    model = export_onnx(function)
    onnx.checker.check_model(model)
    assert _dimensions(model.graph.input) == [["b", "n", 4], ["b", "n + 1"]]
    assert _dimensions(model.graph.output)[:2] == [["2*b", "n/2", 4], ["b*n", 4]]
    for b, n in ((1, 3), (2, 6)):
        x = np.random.default_rng(0).standard_normal((b, n, 4), np.float32)
        feeds = {"x": x, "z": np.ones((b, n + 1), np.float32)}
        found = ReferenceEvaluator(model).run(None, feeds)
        for got, want in zip(found, glow_nb.evaluate(function, feeds).values(), strict=True):
            assert np.array_equal(got, want)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [("max_pool", ""), ("avg_pool", ", count_padding = false, uncounted = []")],
)
@pytest.mark.parametrize("dilation", [1, 2])
def test_pools_over_open_sizes(operator: str, attributes: str, dilation: int) -> None:
    """A window that reaches over the padding sees something, however long the axis is."""
    window = f"kernel = [3], stride = [2], pads = [1, 1], dilation = [{dilation}]"
    places = "(n + 1)/2" if dilation == 1 else "(n - 1)/2"
    text = f"""\
func @main<n in 3..64 like 8>(%x : float32<1 x n x 2>) -> (%y : float32<1 x {places} x 2>) {{
  %pool = {operator}(%x) {{{window}{attributes}}} : float32<1 x {places} x 2>
  %y_save = save(%pool, %y)
}}
"""
    function = parse_function(text)
    model = export_onnx(function)
    assert [node.op_type for node in model.graph.node if "Pool" in node.op_type]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for n in (3, 8, 11):
        x = np.random.default_rng(n).standard_normal((1, n, 2), np.float32) - 2
        (want,) = glow_nb.evaluate(function, {"x": x}).values()
        np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-6)


def test_a_model_reads_back_with_sums_of_sizes() -> None:
    again = glow_nb.load(export_onnx(parse_function(TEXT)), open_sizes=True)
    assert [str(value.type) for value in again.inputs] == [
        "float32<b x n x 4>",
        "float32<b x n + 1>",
    ]


def test_what_a_model_cannot_compute_is_refused_by_name() -> None:
    alone = "func @f<n>(%x : float32<2*n>) -> (%y : float32<n x 2>) {"
    alone += " %r = reshape(%x) {shape = [n, 2]} : float32<n x 2> %s = save(%r, %y) }"
    with pytest.raises(UnsupportedError, match="size 'n': no axis of an input has this very size"):
        export_onnx(parse_function(alone))
    taps = "func @f<n>(%x : float32<1 x n x 3>) -> (%y : float32<1 x 1 x 3>) {"
    taps += " %r = max_pool(%x) {kernel = [n], stride = [1], pads = [0, 0], dilation = [1]}"
    taps += " : float32<1 x 1 x 3> %s = save(%r, %y) }"
    with pytest.raises(OpenSizeError, match=r"size n: 'r', ONNX's MaxPool"):
        export_onnx(parse_function(taps))

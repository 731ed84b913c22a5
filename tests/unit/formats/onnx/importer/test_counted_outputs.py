"""Results whose size a run decides, against onnxruntime; and what cannot read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import glow_nb
from glow_nb.base.errors import FeedError, UnsupportedError, VerifyError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.network.compiling import compile as compile_network
from tests.unit.formats.onnx.importer.models import model, value, weight

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(op: str, operands: str, result: str, **attributes: Any) -> Any:
    return helper.make_node(op, operands.split(), [result], **attributes)


def check(proto: ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Compare graph and interpreter with onnxruntime; return the outputs."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected: list[Any] = session.run(None, feeds)
    function = import_onnx(proto)
    assert print_function(parse_function(print_function(function))) == print_function(function)
    network = compile_network(function, backend="interpreter")
    for outputs in (evaluate(function, feeds), network.run(feeds)):
        assert len(outputs) == len(expected)
        for got, wanted in zip(outputs.values(), expected, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
    assert list(network.outputs) == [output.name for output in proto.graph.output]
    return expected


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-1, 2, shape).astype(np.float32)


@pytest.mark.parametrize("fill", ["some", "none", "all"])
def test_coordinates_of_what_is_not_zero(fill: str) -> None:
    x = {"some": numbers(4, 5), "none": np.zeros((4, 5)), "all": np.ones((4, 5))}[fill]
    proto = model(
        [
            node("NonZero", "x", "places"),
            node("Transpose", "places", "rows", perm=[1, 0]),
            node("GatherND", "x rows", "chosen"),
            node("Cast", "rows", "narrow", to=TensorProto.INT32),
        ],
        [value("x", (4, 5))],
        ["places", "narrow", "chosen"],
    )
    check(proto, {"x": x.astype(np.float32)})


def test_a_mask_selects() -> None:
    proto = model(
        [
            node("Greater", "x zero", "mask"),
            node("Compress", "x mask", "y", axis=0),
            node("Mul", "y two", "z"),
            node("Unsqueeze", "z one", "column"),
        ],
        [value("x", (9,))],
        ["y", "column"],
        [weight("zero", np.float32(0)), weight("two", np.float32(2)), weight("one", np.array([1]))],
    )
    check(proto, {"x": numbers(9)})


def detector(count: int, classes: int, limit: int) -> ModelProto:
    """Return what exporters put after a detector: rows ``batch box class score``."""
    constants = {
        "limit": np.array([limit]),
        "overlap": np.array([0.5], np.float32),
        "threshold": np.array([0.3], np.float32),
        "columns": np.array([0, 2]),
        "begin": np.array([2]),
        "end": np.array([3]),
        "axis": np.array([1]),
        "minus": np.array([-1]),
        "four": np.array([-1, 4]),
    }
    return model(
        [
            node("NonMaxSuppression", "boxes scores limit overlap threshold", "chosen"),
            node("Slice", "chosen begin end axis", "box"),
            node("Squeeze", "box axis", "box_number"),
            node("Reshape", "boxes four", "flat"),
            node("Gather", "flat box_number", "corners", axis=0),
            node("GatherND", "scores chosen_class", "score"),
            node("Gather", "chosen columns", "batch_box", axis=1),
            node("Cast", "batch_box", "numbers", to=FLOAT),
            node("Unsqueeze", "score axis", "score_column"),
            node("Concat", "numbers corners score_column", "rows", axis=1),
            node("Identity", "chosen", "chosen_class"),
        ],
        [value("boxes", (1, count, 4)), value("scores", (1, classes, count))],
        ["chosen", "rows"],
        [weight(name, array) for name, array in constants.items()],
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_tail_of_a_detector(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corner, size = rng.random((1, 40, 2)), rng.random((1, 40, 2)) / 2
    boxes = np.concatenate([corner, corner + size], -1).astype(np.float32)
    scores = rng.random((1, 3, 40)).astype(np.float32)
    chosen, _ = check(detector(40, 3, 7), {"boxes": boxes, "scores": scores})
    assert 0 < len(chosen) <= 21


def test_types_of_outputs_tell_the_bound() -> None:
    network = glow_nb.compile(detector(40, 3, 7), backend="interpreter")
    shown = {name: str(type) for name, type in network.outputs.items()}
    assert shown == {"chosen": "int64<<=21 x 3>", "rows": "float32<<=21 x 7>"}
    assert "(chosen: int64<<=21 x 3>" in repr(network)
    assert "counted by %chosen_count along 0" in print_function(network.function)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [0, 2, 6])
@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceSum", "places axis", "y")],
        [node("Shape", "places", "y")],
        [node("Size", "places", "y")],
        [node("Concat", "places places", "y", axis=1)],
        [node("Concat", "places other", "y", axis=0)],
        [node("Gather", "places begin", "y", axis=0)],
        [node("Slice", "places axis end axis", "y")],
        [node("Reshape", "places flat", "y")],
    ],
)
def test_what_reads_all_of_it_reads_no_padding(nodes: list[Any], found: int) -> None:
    proto = model(
        [node("NonZero", "x", "places"), node("NonZero", "x", "other"), *nodes],
        [value("x", (2, 3))],
        weights=[
            weight("axis", np.array([1])),
            weight("begin", np.array([1, 0])),
            weight("end", np.array([3])),
            weight("flat", np.array([4, -1])),
        ],
        opset=18,
    )
    check(proto, {"x": (np.arange(6) < found).astype(np.float32).reshape(2, 3)})


def test_what_only_fits_some_counts_is_right_for_these() -> None:
    proto = model(
        [node("NonZero", "x", "places"), node("Add", "places wide", "y")],
        [value("x", (2, 3))],
        weights=[weight("wide", np.ones((2, 6), np.int64))],
    )
    check(proto, {"x": np.ones((2, 3), np.float32)})
    with pytest.raises(FeedError, match="sizes places = 0: .* only where places == 6"):
        evaluate(import_onnx(proto), {"x": np.zeros((2, 3), np.float32)})


def test_what_fits_no_example_is_refused() -> None:
    proto = model(
        [node("NonZero", "x", "places"), node("Reshape", "places flat", "y")],
        [value("x", (2, 3))],
        weights=[weight("flat", np.array([7, -1]))],
    )
    with pytest.raises(
        UnsupportedError, match=r"\(Reshape\).* for some of the data-dependent sizes"
    ):
        import_onnx(proto)


@pytest.mark.parametrize("shape", [[1, 1, -1], [-1, 1, 1], [1, -1, 1]])
def test_which_axis_is_counted_need_not_be_clear(shape: list[int]) -> None:
    nodes = [node("NonZero", "x", "places"), node("Reshape", "places shape", "y")]
    weights = [weight("shape", np.array(shape))]
    for size in (1, 4):
        proto = model(nodes, [value("x", (size,))], weights=weights)
        check(proto, {"x": np.zeros(size, np.float32)})


def test_branches_of_unknown_size_are_refused() -> None:
    def branch(name: str) -> Any:
        output = helper.make_tensor_value_info(name, INT64, None)
        return helper.make_graph([node("NonZero", "x", name)], name, [], [output])

    conditional = node("If", "c", "y", then_branch=branch("a"), else_branch=branch("b"))
    proto = model([conditional], [value("c", (), BOOL), value("x", (3,))])
    with pytest.raises(UnsupportedError, match="whose size only a run shows"):
        import_onnx(proto)


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        ("%n along 2", "has no axis 2"),
        ("%m along 0", "counted by %m, which is no int64<> output"),
        ("%y along 0", "counted by %y, which is no int64<> output"),
    ],
)
def test_wrong_counts_are_told(counted: str, reason: str) -> None:
    text = f"""
        func @main(%x : float32<3>) -> (%y : int64<1 x 3> counted by {counted}, %n : int64<>) {{
          %z = non_zero(%x) : int64<1 x 3>, int64<>
          %y_save = save(%z#0, %y)
          %n_save = save(%z#1, %n)
        }}"""
    with pytest.raises(VerifyError, match=reason):
        parse_function(text)

"""ONNX operators that a user adds: imported by their fields, and written back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import (
    GlowError,
    ModelError,
    UnsupportedError,
)
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.extend import ImportContext, OnnxNode, define_node, imports, onnx_operator
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import Convolution
from tests.unit.formats.onnx.own_operators import (
    DOMAIN,
    X,
    model,
    row_normalize,
    typed,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_an_operator_is_imported_by_its_fields() -> None:
    made = row_normalize()
    node: Any = glow_nb.load(model("RowNormalize", epsilon=0.5)).nodes[0]
    assert type(node) is made
    assert (node.scale, node.epsilon) == (None, 0.5)
    node = glow_nb.load(model("RowNormalize", ["x", "x"])).nodes[0]
    assert node.scale is node.input
    assert node.epsilon == 1e-5


def test_operands_at_the_end_may_be_left_out_by_empty_names() -> None:
    row_normalize()
    node: Any = glow_nb.load(model("RowNormalize", ["x", "", ""])).nodes[0]
    assert node.scale is None
    typed(int)
    node = glow_nb.load(model("Typed", ["x", ""], ["y", "z"], it=1)).nodes[0]
    assert len(node.inputs) == 1


def test_it_is_written_as_it_was_read() -> None:
    row_normalize()
    function = glow_nb.load(model("RowNormalize", epsilon=0.5))
    written = glow_nb.export_onnx(function)
    onnx.checker.check_model(written)
    (node,) = written.graph.node
    assert (node.domain, node.op_type, node.name) == (DOMAIN, "RowNormalize", "node")
    assert {(o.domain, o.version) for o in written.opset_import} == {("", 20), (DOMAIN, 1)}
    again = glow_nb.load(written)
    expected = X / np.sqrt((X**2).sum(1, keepdims=True) + 0.5)
    for each in (function, again):
        np.testing.assert_allclose(glow_nb.evaluate(each, X)["y"], expected, rtol=1e-6)


FIELDS: Mapping[str, tuple[type, object]] = {
    "whole": (int, 3),
    "yes": (bool, True),
    "real": (float, 0.25),
    "word": (str, "ä"),
    "kind": (ElementKind, ElementKind.INT8),
    "wholes": (tuple[int, ...], (3, -1)),
    "pair": (tuple[int, int], (3, -1)),
    "flags": (tuple[bool, ...], (True, False)),
    "reals": (tuple[float, ...], (0.25, np.inf)),
    "words": (tuple[str, ...], ("a", "b")),
    "kinds": (tuple[ElementKind, ...], (ElementKind.INT8, ElementKind.FLOAT64)),
    "nothing": (tuple[str, ...], ()),
}


@pytest.mark.parametrize("name", FIELDS)
def test_attributes_come_back_as_they_were(name: str) -> None:
    annotation, value = FIELDS[name]
    made = typed(annotation)
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<2 x 3>")
    results = builder.emit(made((x, x), it=value)).results
    builder.save(results[1], "y")
    written = glow_nb.export_onnx(builder.function())
    onnx.checker.check_model(written)
    found: Any = glow_nb.load(written).nodes[0]
    assert (len(found.inputs), found.it) == (2, value)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, 2**63, "does not fit .* type INT of ONNX"),
        (tuple[int, ...], (1, -(2**64)), "type INTS of ONNX"),
        (float, 1e300, r"type FLOAT of ONNX \(the float32 next to it is inf\)"),
        (tuple[float, ...], (0.0, -1e-300), r"type FLOATS of ONNX \(the float32 .* is -0.0\)"),
        (str, "\ud800", "type STRING of ONNX"),
    ],
)
def test_an_attribute_that_does_not_fit(annotation: Any, value: object, message: str) -> None:
    made = typed(annotation)
    builder = glow_nb.Builder()
    x = builder.input("x", "float32<2 x 3>")
    builder.save(builder.emit(made((x,), it=value), "far").results[0], "y")
    with pytest.raises(UnsupportedError, match=f"'far': it=.*{message}"):
        glow_nb.export_onnx(builder.function())


def test_a_name_that_means_something_else_in_the_version_of_the_file() -> None:
    def times(name: str, factor: int, since: int) -> type[Any]:
        members = {
            "__annotations__": {"input": Value},
            "infer_type": lambda self: self.input.type,
            "evaluate": lambda self, input: input * factor,
        }
        made = type(f"Times{factor}", (Node,), members)
        return onnx_operator(DOMAIN, name, since=since)(define_node(f"test_times_{factor}")(made))

    def exported(*classes: type[Any]) -> onnx.ModelProto:
        builder = glow_nb.Builder()
        value: Value = builder.input("x", "float32<2 x 3>")
        for made in classes:
            value = builder.emit(made(value), made.__name__)
        builder.save(value, "y")
        return glow_nb.export_onnx(builder.function())

    old, other = times("Times", 2, 1), times("Other", 3, 3)
    written = glow_nb.load(exported(old, other))
    np.testing.assert_array_equal(glow_nb.evaluate(written, X)["y"], 6 * X)
    new = times("Times", 5, 2)
    for classes, factor in (((old,), 2), ((new,), 5), ((new, other), 15)):
        again = glow_nb.load(exported(*classes))
        np.testing.assert_array_equal(glow_nb.evaluate(again, X)["y"], factor * X)
    with pytest.raises(UnsupportedError, match="else from version 2 on.*needs 3"):
        exported(old, other)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: model("RowNormalize", epsilon="a"),
            "attribute 'epsilon' must be FLOAT, it is STRING",
        ),
        (
            lambda: model("RowNormalize", epsilom=1.0),
            "RowNormalize has no attribute 'epsilom'; did you mean 'epsilon'",
        ),
        (
            lambda: model("RowNormalize", ["x"] * 3),
            r"it has 3 operands, RowNormalize takes 2 \(input, scale\)",
        ),
        (lambda: model("RowNormalize", []), "operand 0 is missing"),
    ],
)
def test_a_node_that_is_no_such_operator(
    build: Callable[[], onnx.ModelProto], message: str
) -> None:
    row_normalize()
    with pytest.raises(ModelError, match=rf"node 'node' \({DOMAIN}.RowNormalize\): {message}"):
        glow_nb.load(build())


def test_an_attribute_without_default_is_missing() -> None:
    typed(int)
    with pytest.raises(ModelError, match=r"node 'node' .*: attribute 'it' is missing"):
        glow_nb.load(model("Typed", outputs=["y", "z"]))


def test_a_rule_reads_lists_with_defaults() -> None:
    read: list[object] = []

    @imports(DOMAIN, "Listed")
    def listed(context: ImportContext, node: OnnxNode) -> Value:
        read.append((node.numbers("reals", (0.1,)), node.integers("wholes", (3,))))
        read.append((node.texts("words", ("a",)), node.optional(7)))
        return node.operand(0)

    glow_nb.load(model("Listed"))
    glow_nb.load(model("Listed", reals=[0.5], wholes=[1, 2], words=["b"]))
    assert read == [
        *(((0.1,), (3,)), (("a",), None)),
        *(((0.5,), (1, 2)), (("b",), None)),
    ]


def test_an_attribute_that_is_open_has_no_number() -> None:
    made = typed(int)
    size = Symbol("n", 4).size
    builder = glow_nb.Builder()
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (size, 3)))
    builder.save(builder.emit(made((x,), it=size), "open").results[0], "y")
    with pytest.raises(OpenSizeError, match="'open', Typed, has it in an attribute"):
        glow_nb.export_onnx(builder.function())


def test_an_operator_without_operands_is_transposed() -> None:
    """The channels of images come first in a file, those of a filter that it makes as well."""

    @onnx_operator(DOMAIN, "Filter")
    @define_node("test_filter", data_parallel=True)
    class Filter(Node):
        sizes: tuple[int, ...]

        @override
        def infer_type(self) -> TensorType:
            return TensorType(ElementKind.FLOAT32, self.sizes)

        @override
        def evaluate(self) -> Array:
            return np.arange(np.prod(self.sizes), dtype=np.float32).reshape(self.sizes)

    builder = glow_nb.Builder()
    image, bias = builder.input("x", "float32<1 x 5 x 4 x 2>"), np.zeros(3, np.float32)
    filter = builder.emit(Filter((3, 2, 2, 2)))
    windows: Any = {"kernel": (2, 2), "stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1)}
    node = Convolution(image, filter, builder.constant("bias", bias), **windows)
    builder.save(builder.emit(node), "y")
    function = builder.function()
    pixels = np.arange(40, dtype=np.float32).reshape(1, 5, 4, 2)
    again = glow_nb.load(glow_nb.export_onnx(function))
    expected, found = (glow_nb.evaluate(each, pixels)["y"] for each in (function, again))
    np.testing.assert_array_equal(found, expected)


def test_an_operator_that_cannot_be_written_leads_to_onnx_operator() -> None:
    @define_node("test_unwritten")
    class Unwritten(Node):
        input: Value

        @override
        def infer_type(self) -> TensorType:
            return self.input.type

    builder = glow_nb.Builder()
    builder.save(builder.emit(Unwritten(builder.input("x", "float32<2>"))), "y")
    with pytest.raises(GlowError, match="one of ONNX with glow_nb.extend.onnx_operator"):
        glow_nb.export_onnx(builder.function())

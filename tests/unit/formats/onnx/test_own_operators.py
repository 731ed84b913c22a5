"""ONNX operators that a user adds: imported by a rule or by their fields, and written back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import (
    DefinitionError,
    GlowError,
    GlowWarning,
    ModelError,
    PassError,
    UnsupportedError,
)
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.extend import ImportContext, OnnxNode, define_node, imports, onnx_operator
from glow_nb.formats.onnx.exporter.registry import EXPORTS
from glow_nb.formats.onnx.importer.registry import OWN, RULES
from glow_nb.hlir.graph import NODES, Node, Value
from glow_nb.hlir.ops import Convolution

DOMAIN = "test.own"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Leave no rule behind: other tests of this process look at all of them."""
    tables: Sequence[dict[Any, Any]] = (NODES, EXPORTS, RULES)
    known = [set(table) for table in tables]
    yield
    for table, before in zip(tables, known, strict=True):
        for key in set(table) - before:
            del table[key]
    OWN.clear()


def row_normalize() -> type[Any]:
    """Return a new operator that divides rows by their lengths, one of the domain."""

    @onnx_operator(DOMAIN, "RowNormalize")
    @define_node("test_row_normalize")
    class RowNormalize(Node):
        input: Value
        scale: Value | None = None
        epsilon: float = 1e-5

        @override
        def infer_type(self) -> TensorType:
            return self.input.type

        @override
        def evaluate(self, input: Array, scale: Array | None) -> Array:
            length = np.sqrt((input**2).sum(1, keepdims=True) + self.epsilon)
            return np.asarray(input / length * (1 if scale is None else scale))

    return RowNormalize


def model(
    op: str,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 1,
    functions: Sequence[onnx.FunctionProto] = (),
    rows: int | str = 2,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node of the domain, between floats ``[rows, 3]``."""
    node = helper.make_node(op, inputs, outputs, name="node", domain=DOMAIN, **attributes)
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3]) for name in ("x", "y")
    ]
    opsets = [helper.make_opsetid("", 20)]
    if opset:
        opsets.append(helper.make_opsetid(DOMAIN, opset))
    graph = helper.make_graph([node], "graph", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


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


def typed(annotation: Any, **defaults: object) -> type[Any]:
    """Return a new operator with one attribute of a type, and several operands and results."""
    members = {
        "__annotations__": {"inputs": tuple[Value, ...], "it": annotation},
        "infer_types": lambda self: (self.inputs[0].type, self.inputs[0].type),
        **defaults,
    }
    return onnx_operator(DOMAIN, "Typed")(
        define_node("test_typed")(type("Typed", (Node,), members))
    )


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


def scaled(context: ImportContext, node: OnnxNode) -> Value:
    """``scale * x``."""
    return (context.term(node.operand(0)) * node.number("scale", 2.0)).value


def test_a_rule_makes_an_operator_of_others() -> None:
    assert imports(DOMAIN, "Scaled", "Doubled")(scaled) is scaled
    found = glow_nb.evaluate(glow_nb.load(model("Scaled", scale=3.0)), X)["y"]
    np.testing.assert_array_equal(found, 3 * X)
    found = glow_nb.evaluate(glow_nb.load(model("Doubled")), X)["y"]
    np.testing.assert_array_equal(found, 2 * X)
    net = glow_nb.compile(model("Doubled", rows="n"), backend="interpreter")
    np.testing.assert_array_equal(net.run(X)["y"], 2 * X)


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


def test_a_rule_goes_before_the_body_that_a_model_brings() -> None:
    body = helper.make_node("Neg", ["a"], ["b"])
    opsets = [helper.make_opsetid("", 20)]
    function = helper.make_function(DOMAIN, "Scaled", ["a"], ["b"], [body], opsets)
    brought = model("Scaled", functions=[function])
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], -X)
    imports(DOMAIN, "Scaled", since=2)(scaled)
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], -X)
    imports(DOMAIN, "Scaled")(scaled)
    np.testing.assert_array_equal(glow_nb.evaluate(glow_nb.load(brought), X)["y"], 2 * X)


def returns_a_term(context: ImportContext, node: OnnxNode) -> Any:
    return context.term(node.operand(0)) * 2


def returns_nothing(context: ImportContext, node: OnnxNode) -> Any:
    return None


def fails(context: ImportContext, node: OnnxNode) -> Any:
    sizes: dict[str, float] = {}
    return sizes["scale"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (returns_a_term, "'returns_a_term': it returns a Term; return its .value"),
        (returns_nothing, "'returns_nothing': it returns None; return the value of the output"),
        (fails, r"'fails': KeyError: 'scale' \(line \d+ of test_own_operators.py: return sizes"),
    ],
)
def test_a_rule_that_is_wrong(rule: Any, message: str) -> None:
    imports(DOMAIN, "Wrong")(rule)
    with pytest.raises(PassError, match=rf"node 'node' .*: import rule {message}"):
        glow_nb.load(model("Wrong"))


@pytest.mark.parametrize(
    ("op", "opset", "message"),
    [
        ("Scaled", 0, "the model does not say which operator set of domain 'test.own' it uses"),
        ("Scaled", 2, "its rule holds from operator set 3 on"),
        ("Other", 3, r"Scaled are known \(glow_nb.extend.imports registers a rule\)"),
    ],
)
def test_an_operator_that_has_no_rule(op: str, opset: int, message: str) -> None:
    imports(DOMAIN, "Scaled", since=3)(scaled)
    with pytest.raises(UnsupportedError, match=message):
        glow_nb.load(model(op, opset=opset))


def test_an_unknown_domain_leads_to_the_rules() -> None:
    with pytest.raises(UnsupportedError, match=r"'test.own' is not known \(glow_nb.extend.imports"):
        glow_nb.load(model("Scaled"))


def test_a_name_is_registered_twice() -> None:
    row_normalize()
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        later = row_normalize()
    assert [str(w.message).partition(" is ")[0] for w in noticed if w.category is GlowWarning] == [
        "operator 'test_row_normalize'",
        "import rule of 'RowNormalize' since opset 1",
    ]
    assert isinstance(glow_nb.load(model("RowNormalize")).nodes[0], later)
    scaled_elsewhere: Any = lambda context, node: scaled(context, node)  # noqa: E731
    scaled_elsewhere.__module__ = "elsewhere"
    with pytest.raises(DefinitionError, match="registered by tests.*, elsewhere cannot replace it"):
        imports(DOMAIN, "Scaled", "RowNormalize")(scaled_elsewhere)
    assert (DOMAIN, "Scaled") not in RULES


NO_OPERATOR: Any = scaled
NO_RULE: Any = "text"
Nested = tuple[tuple[int, ...], ...]


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: imports("", "Relu", since=99)(scaled), "glow_nb has a rule for this operator"),
        (lambda: imports("ai.onnx", "Reluu")(scaled), "and has no Reluu in it"),
        (lambda: imports(DOMAIN), "named by a domain and a name"),
        (lambda: imports(scaled), "named by a domain and a name"),  # type: ignore[arg-type]
        (lambda: imports(DOMAIN, "A", since=0), "since=0: operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A", since=1 << 63), "operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A", since=True), "operator sets have numbers from 1 to 9"),
        (lambda: imports(DOMAIN, "A")(NO_RULE), "rule of 'A': 'text' is no function"),
        (lambda: onnx_operator("ai.onnx", "Relu")(Node), "ONNX defines domain 'ai.onnx'"),
        (lambda: onnx_operator(DOMAIN, "A")(NO_OPERATOR), "is no operator"),
        (
            lambda: onnx_operator(DOMAIN, "B")(row_normalize()),
            "written as an ONNX operator",
        ),
        (lambda: typed(Nested), "Typed.it: ONNX has no attribute of type tuple"),
        (lambda: typed(Value), "Typed.inputs: only the last operand can be a tuple"),
    ],
)
def test_a_registration_that_cannot_be(register: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        register()


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

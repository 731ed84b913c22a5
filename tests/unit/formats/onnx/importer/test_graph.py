"""What becomes of a graph: names, layout, constants, functions, branches and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.formats.onnx.importer import UnboundInput, import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import model, one, value, weight

INT = TensorProto.INT64


def opcodes(proto: onnx.ModelProto, **options: Any) -> list[str]:
    return [node.opcode for node in import_onnx(proto, **options)]


def run(proto: onnx.ModelProto, **feeds: Any) -> list[Any]:
    return list(evaluate(import_onnx(proto), feeds).values())


def test_values_keep_their_names() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["hidden/0"]),
        helper.make_node("TopK", ["hidden/0", "k"], ["best", "where"]),
    ]
    weights = [weight("k", np.array([1], np.int64))]
    function = import_onnx(model(nodes, outputs=["best", "where"], weights=weights))
    assert [i.name for i in function.inputs] == ["x"]
    assert [o.name for o in function.outputs] == ["best", "where"]
    assert function["hidden/0"].opcode == "relu"


def test_output_keeps_its_name_and_the_node_steps_back() -> None:
    function = import_onnx(one("Relu"))
    assert [node.name for node in function] == ["y_1", "y_save"]


def test_input_may_be_an_output() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], outputs=["y", "x"])
    fed = np.full((2, 3), -1, np.float32)
    result, same = run(proto, x=fed)
    assert not result.any()
    assert (same == fed).all()


def test_unused_input_stays_in_the_signature() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x"), value("unused")])
    assert [i.name for i in import_onnx(proto).inputs] == ["x", "unused"]


def test_weight_is_no_input_even_if_listed() -> None:
    weights = [weight("w", np.ones((2, 3), np.float32))]
    proto = one("Add", ("x", "w"), inputs=[value("x"), value("w")], weights=weights)
    assert [i.name for i in import_onnx(proto).inputs] == ["x"]


def test_convolution_stands_between_transposes() -> None:
    proto = one(
        "Conv",
        ("x", "w"),
        inputs=[value("x", (1, 3, 8, 8))],
        weights=[weight("w", np.ones((4, 3, 3, 3), np.float32))],
    )
    assert opcodes(proto) == ["transpose", "transpose", "convolution", "transpose", "save"]


def test_batch_normalization_keeps_the_layout() -> None:
    vectors = [weight(name, np.ones(3, np.float32)) for name in "sbmv"]
    proto = one(
        "BatchNormalization", ("x", *"sbmv"), inputs=[value("x", (1, 3, 8, 8))], weights=vectors
    )
    assert opcodes(proto) == ["batch_normalization", "save"]


def test_gemm_with_a_row_is_a_dense_layer() -> None:
    weights = [weight("w", np.ones((4, 3), np.float32)), weight("b", np.ones(4, np.float32))]
    assert opcodes(one("Gemm", ("x", "w", "b"), weights=weights, transB=1)) == [
        "transpose",
        "fully_connected",
        "save",
    ]


def test_weights_keep_name_and_layout() -> None:
    """What is trained is the tensor of the model; numbers of formulas fold and are none."""
    weights = [weight("w", np.ones((4, 3, 3, 3), np.float32))]
    proto = one("Conv", ("x", "w"), inputs=[value("x", (1, 3, 8, 8))], weights=weights)
    found = {c.name: (c.type.shape, c.is_weight) for c in import_onnx(proto).constants}
    assert found.pop("w") == ((4, 3, 3, 3), True)
    assert list(found.values()) == [((4,), False)]  # the bias that the model does not have


def test_numbers_of_rank_0_are_no_weights() -> None:
    half = weight("half", np.array(0.5, np.float32))
    (constant,) = import_onnx(one("Mul", ("x", "half"), weights=[half])).constants
    assert not constant.is_weight


def test_weights_are_not_copied() -> None:
    """A large weight has one array, which pointwise filters and reshapes look into."""
    numbers = np.arange(64 * 64, dtype=np.float32).reshape(64, 64, 1, 1)
    proto = one(
        "Conv", ("x", "w"), inputs=[value("x", (1, 64, 8, 8))], weights=[weight("w", numbers)]
    )
    filter = next(c for c in import_onnx(proto.SerializeToString()).constants if c.type.rank == 4)
    assert filter.type.shape == (64, 64, 1, 1)
    assert filter.array.base is not None
    assert not filter.array.flags.writeable
    assert (filter.array.reshape(64, 64) == numbers.reshape(64, 64)).all()


def test_computed_shape_resolves() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "first"], ["batch1"]),
        helper.make_node("Mul", ["two", "three"], ["six"]),
        helper.make_node("Concat", ["batch1", "six"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    values = {"zero": 0, "first": [0], "two": [2], "three": [3]}
    weights = [weight(name, np.array(number, np.int64)) for name, number in values.items()]
    function = import_onnx(
        model(nodes, [value("x", ("n", 2, 3))], weights=weights), shapes={"n": 5}
    )
    assert [node.opcode for node in function] == ["reshape", "save"]
    assert function.outputs[0].type.shape == (5, 6)


@pytest.mark.parametrize("op", ["ConstantOfShape", "Constant", "Range", "NonZero", "Where", "Cast"])
def test_constants_are_evaluated(op: str) -> None:
    made: dict[str, Any] = {
        "ConstantOfShape": (one(op, ("n",)), {"n": [2]}, [0, 0]),
        "Constant": (one(op, (), value_ints=[4, 5]), {}, [4, 5]),
        "Range": (one(op, ("n", "m", "k")), {"n": 9, "m": 2, "k": -3}, [9, 6, 3]),
        "NonZero": (one(op, ("n",)), {"n": [0, 7, 0, 8]}, [[1, 3]]),
        "Where": (one(op, ("c", "n", "m")), {"n": [1, 2], "m": [3, 4]}, [1, 4]),
        "Cast": (one(op, ("n",), to=TensorProto.INT32), {"n": [1, 2]}, [1, 2]),
    }
    proto, numbers, expected = made[op]
    for name, number in numbers.items():
        proto.graph.initializer.append(weight(name, np.array(number, np.int64)))
    if op == "Where":
        proto.graph.initializer.append(weight("c", np.array([True, False])))
    assert opcodes(proto) == ["save"]
    assert run(proto, x=np.zeros((2, 3), np.float32))[0].tolist() == expected


def test_large_result_of_small_constants_stays_a_node() -> None:
    weights = [weight("w", np.ones((1, 1), np.float32)), weight("s", np.array([2000, 2000]))]
    assert opcodes(one("Expand", ("w", "s"), weights=weights)) == ["broadcast", "save"]


def test_axes_from_an_input_need_that_input() -> None:
    proto = one("Unsqueeze", ("x", "s"), inputs=[value("x"), value("s", (1,), INT)])
    with pytest.raises(UnboundInput) as caught:
        import_onnx(proto)
    assert caught.value.names == ("s",)
    assert "node 'y' (Unsqueeze): 'axes' must be known when the model is compiled" in str(
        caught.value
    )


def test_shape_from_an_input_is_decided_by_runs() -> None:
    proto = one("Reshape", ("x", "s"), inputs=[value("x"), value("s", (2,), INT)])
    assert str(import_onnx(proto).outputs[0].type) == "float32<y x 6/y>"
    function = import_onnx(proto, constants={"s": np.array([3, 2])})
    assert [i.name for i in function.inputs] == ["x"]
    assert function.outputs[0].type.shape == (3, 2)


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("s", np.array([3, 2], np.int32), "is declared int64"),
        ("s", np.array([3]), "is declared int64"),
        ("shape", np.array([3, 2]), "it has no input 'shape'"),
    ],
)
def test_constant_must_fit_its_input(name: str, array: Any, expected: str) -> None:
    proto = one("Reshape", ("x", "s"), inputs=[value("x"), value("s", (2,), INT)])
    with pytest.raises(ModelError, match=expected):
        import_onnx(proto, constants={name: array})


def test_output_of_other_kind_than_declared() -> None:
    proto = one("Relu")
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ModelError, match="output 'y' is declared float64, but the graph computes"):
        import_onnx(proto)


def test_function_of_the_model_is_expanded() -> None:
    opsets = [helper.make_opsetid("local", 1), helper.make_opsetid("", 17)]
    scaled = helper.make_node("LeakyRelu", ["a"], ["h"])
    scaled.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    body = [scaled, helper.make_node("Neg", ["h"], ["b"])]
    function = helper.make_function("local", "Twist", ["a"], ["b"], body, opsets, ["slope"])
    nodes = [helper.make_node("Twist", ["x"], ["y"], domain="local", slope=0.5)]
    proto = model(nodes, functions=[function], opset_imports=opsets)
    assert opcodes(proto) == ["leaky_relu", "neg", "save"]
    assert run(proto, x=np.full((2, 3), -4, np.float32))[0][0, 0] == 2


def test_function_of_onnx_is_expanded() -> None:
    proto = one("HannWindow", ("n",), opset=21, weights=[weight("n", np.int64(5))])
    expected = np.sin(np.pi * np.arange(5) / 5) ** 2  # periodic
    found = run(proto, x=np.zeros((2, 3), np.float32))[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def branch(op: str, name: str) -> onnx.GraphProto:
    nodes = [helper.make_node(op, ["x"], [name])]
    return helper.make_graph(nodes, op, [], [value(name)])


def conditional(inputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu", "a"), else_branch=branch("Neg", "b")
    )
    return model([node], inputs)


@pytest.mark.parametrize(("condition", "taken"), [(True, "relu"), (False, "neg")])
def test_known_condition_takes_its_branch(condition: bool, taken: str) -> None:
    proto = conditional([value("x")])
    proto.graph.initializer.append(weight("c", np.array(condition)))
    assert opcodes(proto) == [taken, "save"]


def test_unknown_condition_selects() -> None:
    proto = conditional([value("x"), value("c", (), TensorProto.BOOL)])
    x = np.full((2, 3), -2, np.float32)
    assert run(proto, x=x, c=np.array(True))[0][0, 0] == 0
    assert run(proto, x=x, c=np.array(False))[0][0, 0] == 2


def counted_loop(steps: onnx.TensorProto | None) -> onnx.ModelProto:
    """Return a model that adds the step's number to ``x`` and collects the sums."""
    nodes = [
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["s", "f"], ["t"]),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Identity", ["t"], ["u"]),
    ]
    inputs = [value("i", (), INT), value("c", (), TensorProto.BOOL), value("s")]
    outputs = [value("d", (), TensorProto.BOOL), value("t"), value("u")]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    proto = model([helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)], outputs="yz")
    if steps is None:
        proto.graph.input.append(value("n", (), INT))
    else:
        proto.graph.initializer.append(steps)
    return proto


def test_counted_loop_is_unrolled() -> None:
    proto = counted_loop(weight("n", np.array(4)))
    last, collected = run(proto, x=np.zeros((2, 3), np.float32))
    assert last[0, 0] == 6
    assert collected[:, 0, 0].tolist() == [0, 1, 3, 6]


def test_endless_loop_is_unsupported() -> None:
    expected = f"{1 << 40} steps; loops of at most 1024 are unrolled"
    with pytest.raises(UnsupportedError, match=expected):
        import_onnx(counted_loop(weight("n", np.array(1 << 40))))


def nested_loops(*steps: int | str) -> onnx.ModelProto:
    """Return a model that doubles ``x`` in loops of *steps*, each inside of the one before.

    ``"i0"`` makes as many steps as the outermost loop has made.
    """
    nodes = [helper.make_node("Add", [f"s{len(steps) - 1}"] * 2, [f"t{len(steps) - 1}"])]
    for depth in reversed(range(len(steps))):
        nodes.append(helper.make_node("Identity", [f"c{depth}"], [f"d{depth}"]))
        inputs = [
            value(f"i{depth}", (), INT),
            value(f"c{depth}", (), TensorProto.BOOL),
            value(f"s{depth}", None),
        ]
        outputs = [value(f"d{depth}", (), TensorProto.BOOL), value(f"t{depth}", None)]
        body = helper.make_graph(nodes, f"body{depth}", inputs, outputs)
        limit = "i0" if steps[depth] == "i0" else f"n{depth}"
        source, result = (f"s{depth - 1}", f"t{depth - 1}") if depth else ("x", "y")
        nodes = [helper.make_node("Loop", [limit, "", source], [result], body=body)]
    limits = [(f"n{i}", n) for i, n in enumerate(steps) if isinstance(n, int)]
    return model(nodes, weights=[weight(name, np.array(count)) for name, count in limits])


def test_loops_inside_of_loops_are_unrolled() -> None:
    x = np.ones((2, 3), np.float32)
    assert run(nested_loops(2, 3), x=x)[0][0, 0] == 2**6
    assert run(nested_loops(5, "i0"), x=x)[0][0, 0] == 2 ** (0 + 1 + 2 + 3 + 4)
    assert len(import_onnx(nested_loops(40, "i0")).nodes) == 40 * 39 // 2 + 1  # 820 steps in all


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((1000, 1000), "1000 x 1000 steps of loops inside of each other, 1000000 in all"),
        ((2, 1023), "2 x 1023 steps of loops inside of each other, 2046 in all"),
        ((50, 50, 50), "50 x 50 x 50 steps of loops inside of each other, 125000 in all"),
    ],
)
def test_steps_of_nested_loops_multiply(steps: tuple[int, ...], expected: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{expected}; loops of at most 1024 are unrolled"):
        import_onnx(nested_loops(*steps))


def test_recurrent_layer_in_a_loop_is_one_node_a_step() -> None:
    proto = nested_loops(30)
    shapes = {"w": (1, 2, 2), "r": (1, 2, 2)}
    sequence = [
        helper.make_node("Expand", ["s0", "long"], ["seq"]),
        helper.make_node("RNN", ["seq", "w", "r"], ["", "last"], hidden_size=2),
        helper.make_node("Reshape", ["last", "shape"], ["t0"]),
    ]
    proto.graph.input[0].CopyFrom(value("x", (1, 1, 2)))
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    weights |= {"long": np.array([50, 1, 2]), "shape": np.array([1, 1, 2])}
    proto.graph.initializer.extend(weight(name, array) for name, array in weights.items())
    body = proto.graph.node[0].attribute[0].g
    body.node[0].CopyFrom(sequence[0])
    body.node.extend(sequence[1:])
    assert opcodes(proto).count("recurrent_layer") == 30


def test_loops_one_after_the_other_count_each_for_itself() -> None:
    first, second = nested_loops(800), nested_loops(800)
    (node,) = second.graph.node
    node.input[2], node.output[0] = "y", "z"
    first.graph.node.append(node)
    first.graph.output[0].name = "z"
    assert len(import_onnx(first).nodes) == 1601


def test_loop_of_unknown_length_needs_its_input() -> None:
    with pytest.raises(UnboundInput, match="the number of steps must be known"):
        import_onnx(counted_loop(None))


def test_large_constant_is_computed_where_its_numbers_are_needed() -> None:
    """A result that was too large to fold is no input: what a shape needs of it is computed."""
    nodes = [
        helper.make_node("Expand", ["w", "s"], ["big"]),
        helper.make_node("ReduceMax", ["big"], ["most"], keepdims=0),
        helper.make_node("Unsqueeze", ["most", "zero"], ["shape"]),
        helper.make_node("Expand", ["x", "shape"], ["y"]),
    ]
    weights = {"w": [[3]], "s": [2000, 2000], "zero": [0]}
    tensors = [weight(name, np.array(number, np.int64)) for name, number in weights.items()]
    function = import_onnx(model(nodes, [value("x", (2, 1))], weights=tensors))
    assert function.outputs[0].type.shape == (2, 3)

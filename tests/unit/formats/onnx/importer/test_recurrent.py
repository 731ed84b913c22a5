"""RNN, GRU and LSTM: attributes, activations with their numbers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import glow_nb
from glow_nb.base.errors import GlowError, ModelError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.ops import RecurrentLayer
from tests.unit.formats.onnx.importer.models import one, value, weight

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, ROWS, FEATURES, SIZE = 3, 2, 3, 2


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


X = numbers(STEPS, ROWS, FEATURES)


def layer(op: str = "RNN", lengths: list[int] | None = None, **options: Any) -> onnx.ModelProto:
    """Return a model of one layer without biases."""
    directions = 1 + (options.get("direction") == "bidirectional")
    weights = [
        weight("w", numbers(directions, GATES[op] * SIZE, FEATURES, seed=1)),
        weight("r", numbers(directions, GATES[op] * SIZE, SIZE, seed=2)),
    ]
    operands = ["x", "w", "r"]
    if lengths is not None:
        weights.append(weight("n", np.array(lengths, np.int32)))
        operands += ["", "n"]
    shape = (ROWS, STEPS, FEATURES) if options.get("layout") else X.shape
    ends: dict[str, Any] = {
        "inputs": [value("x", shape)],
        "weights": weights,
        "outputs": ["y", "last"],
    }
    made: onnx.ModelProto = one(op, operands, **ends, **options)
    return made


def run(proto: onnx.ModelProto, x: Array = X) -> list[Array]:
    return list(evaluate(import_onnx(proto), {"x": x}).values())


def by_hand(function: Any, direction: int = 0, directions: int = 1) -> Array:
    """Return the hidden states of one direction of an RNN, in the order of time."""
    w = numbers(directions, SIZE, FEATURES, seed=1)[direction].astype(np.float64)
    r = numbers(directions, SIZE, SIZE, seed=2)[direction].astype(np.float64)
    h, found = np.zeros((ROWS, SIZE)), []
    for x in X[::-1] if direction else X:
        h = function(x @ w.T + h @ r.T)
        found.append(h)
    return np.array(found[::-1] if direction else found)


def node_of(proto: onnx.ModelProto) -> RecurrentLayer:
    (found,) = (node for node in import_onnx(proto) if isinstance(node, RecurrentLayer))
    return found


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Affine", lambda x: 0.5 * x + 0.25),
        ("Elu", lambda x: np.where(x >= 0, x, 0.5 * np.expm1(x))),
        ("HardSigmoid", lambda x: np.clip(0.5 * x + 0.25, 0, 1)),
        ("LeakyRelu", lambda x: np.where(x >= 0, x, 0.5 * x)),
        ("Relu", lambda x: np.maximum(x, 0)),
        ("ScaledTanh", lambda x: 0.5 * np.tanh(0.25 * x)),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("Softplus", lambda x: np.log1p(np.exp(x))),
        ("Softsign", lambda x: x / (1 + np.abs(x))),
        ("Tanh", np.tanh),
        ("ThresholdedRelu", lambda x: np.where(x >= 0.5, x, 0)),
    ],
)
def test_activation_takes_its_numbers(name: str, function: Any) -> None:
    with_alpha = name in ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh")
    options: dict[str, Any] = {}
    if with_alpha or name == "ThresholdedRelu":
        options["activation_alpha"] = [0.5]
    if name in ("Affine", "HardSigmoid", "ScaledTanh"):
        options["activation_beta"] = [0.25]
    states, _ = run(layer(activations=[name], **options))
    np.testing.assert_allclose(states[:, 0], by_hand(function), rtol=1e-5, atol=1e-6)


def test_threshold_is_kept() -> None:
    proto = layer(activations=["ThresholdedRelu"], activation_alpha=[0.5])
    proto.graph.initializer[0].CopyFrom(weight("w", np.eye(SIZE, FEATURES)[None].astype("f4")))
    proto.graph.initializer[1].CopyFrom(weight("r", np.zeros((1, SIZE, SIZE), np.float32)))
    states, _ = run(proto, np.full_like(X, 0.5))
    np.testing.assert_array_equal(states, np.full_like(states, 0.5))


def test_numbers_go_to_the_functions_that_take_one() -> None:
    names = ["Sigmoid", "LeakyRelu", "Tanh", "Elu", "HardSigmoid", "Relu"]
    options: dict[str, Any] = {"direction": "bidirectional", "activations": names}
    proto = layer("LSTM", **options, activation_alpha=[0.1, 0.2], activation_beta=[0.75])
    first, second = (n for n in import_onnx(proto) if isinstance(n, RecurrentLayer))
    assert first.activations == ("sigmoid", "leaky_relu", "tanh")
    assert first.alpha == pytest.approx((0, 0.1, 0))
    assert first.beta == (0, 0, 0)
    assert second.alpha == pytest.approx((0.2, 0.2, 0))  # the last one by default
    assert second.beta == pytest.approx((0, 0.75, 0))


def test_as_many_numbers_as_functions_go_to_each() -> None:
    proto = layer("GRU", activations=["Tanh", "LeakyRelu"], activation_alpha=[0.7, 0.1])
    assert node_of(proto).alpha == pytest.approx((0, 0.1))


def test_directions_may_have_different_functions() -> None:
    options: dict[str, Any] = {
        "direction": "bidirectional",
        "activations": ["Tanh", "Softsign"],
    }
    states, last = run(layer(**options))
    wanted = [by_hand(np.tanh, 0, 2), by_hand(lambda x: x / (1 + np.abs(x)), 1, 2)]
    np.testing.assert_allclose(states, np.stack(wanted, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, [wanted[0][-1], wanted[1][0]], rtol=1e-5, atol=1e-6)


def test_zero_clips_nothing() -> None:
    for op in GATES:
        clipped, plain = run(layer(op, clip=0.0)), run(layer(op))
        np.testing.assert_array_equal(clipped[0], plain[0])
    states, _ = run(layer(clip=0.25))
    assert np.abs(states).max() == pytest.approx(np.tanh(0.25))


def test_batch_may_come_first() -> None:
    states, last = run(layer("GRU"))
    transposed, transposed_last = run(layer("GRU", layout=1), X.swapaxes(0, 1))
    np.testing.assert_array_equal(transposed, states.transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(transposed_last, last.swapaxes(0, 1))


def test_known_lengths_that_end_nothing_are_dropped() -> None:
    assert node_of(layer(lengths=[STEPS, STEPS])).lengths is None
    assert node_of(layer(lengths=[STEPS, STEPS - 1])).lengths is not None


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("wrong", [-1, STEPS + 1])
def test_known_lengths_outside_of_the_steps_are_refused(op: str, wrong: int) -> None:
    with pytest.raises(ModelError, match=rf"the length {wrong}, and the sequences have {STEPS} st"):
        import_onnx(layer(op, lengths=[STEPS, wrong]))


@pytest.mark.parametrize("backend", ["evaluate", "interpreter"])
@pytest.mark.parametrize("op", GATES)
def test_fed_lengths_outside_of_the_steps_count_as_the_nearest(op: str, backend: str) -> None:
    proto = layer(op, lengths=[STEPS, STEPS])
    del proto.graph.initializer[-1]
    proto.graph.input.append(value("n", (ROWS,), TensorProto.INT32))
    function = import_onnx(proto)

    def states(lengths: list[int]) -> list[Array]:
        feeds = {"x": X, "n": np.array(lengths, np.int32)}
        if backend == "evaluate":
            return list(evaluate(function, feeds).values())
        return list(glow_nb.compile(function, backend="interpreter").run(feeds).values())

    for found, wanted in zip(states([-5, STEPS + 9]), states([0, STEPS]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_any_number_of_steps_is_one_node() -> None:
    proto = layer("LSTM")
    proto.graph.input[0].CopyFrom(value("x", (100_000, ROWS, FEATURES)))
    assert [node.opcode for node in import_onnx(proto) if node.opcode != "save"] == [
        "recurrent_layer"
    ]


def test_no_steps_give_the_first_states() -> None:
    proto = layer("LSTM")
    proto.graph.input[0].CopyFrom(value("x", (0, ROWS, FEATURES)))
    states, last = run(proto, X[:0])
    assert states.shape == (0, 1, ROWS, SIZE)
    np.testing.assert_array_equal(last, np.zeros((1, ROWS, SIZE)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": -1.0}, "clip is -1.0; give a positive number"),
        ({"clip": float("nan")}, "clip is nan; give a positive number"),
        ({"activation_beta": [1, 2.0]}, "activation_beta has 2 numbers, but its functions take 0"),
        ({"activations": ["Affine"], "activation_alpha": [np.inf]}, "but must be finite"),
        ({"activations": ["Tanh", "Tanh"]}, "must be 1 for each direction"),
        ({"hidden_size": 5}, "hidden_size is 5, but weights"),
        ({"direction": "up"}, "direction is 'up'"),
    ],
)
def test_wrong_attributes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_onnx(layer(**options))


def test_unknown_activation_is_named_with_those_that_exist() -> None:
    with pytest.raises(UnsupportedError, match=r"activation 'Swish'; there are affine, elu"):
        import_onnx(layer(activations=["Swish"]))


def test_weights_of_other_sizes_are_refused() -> None:
    proto = layer("GRU")
    proto.graph.initializer[0].CopyFrom(weight("w", numbers(1, 3, FEATURES)))
    with pytest.raises(GlowError, match=r"'weights' is float32<1 x 3 x 3>, but 'input'"):
        import_onnx(proto)

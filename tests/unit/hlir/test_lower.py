"""The lowering driver: fixed point, veto, names, and rules that go round in circles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.base.errors import PassError
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.lower import lower
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import LOWERINGS


def dense_network() -> Function:
    b = Builder()
    x = b.input("x", "float32<2 x 3>")
    weights = b.constant("weights", np.ones((3, 4), np.float32))
    bias = b.constant("bias", np.ones(4, np.float32))
    dense = b.emit(ops.FullyConnected(x, weights, bias), "dense")
    gate = b.emit(ops.HardSwish(dense), "gate")
    b.save(b.emit(ops.Exp(gate), "power"), "y")
    return b.function()


def opcodes(function: Function) -> list[str]:
    return [node.opcode for node in function]


def normalized_network() -> Function:
    """Return a layer normalization: its rule emits means, and they have a rule, too."""
    b = Builder("main")
    x = b.input("x", "float32<2 x 3>")
    scale = b.constant("scale", np.array([1, 2, 3], np.float32))
    b.save(b.emit(ops.LayerNormalization(x, scale, None, axis=1, epsilon=1e-5)), "y")
    return b.function()


@pytest.mark.parametrize("network", [dense_network, normalized_network])
def test_what_rules_emit_is_lowered_too(network: Callable[[], Function]) -> None:
    function = network()
    lowered = lower(function)
    rich = {"fully_connected", "hard_swish", "layer_normalization", "reduce_mean"}
    assert not rich & set(opcodes(lowered))
    feeds = {"x": np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)}
    expected, found = evaluate(function, feeds)["y"], evaluate(lowered, feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_the_last_node_keeps_the_name() -> None:
    lowered = lower(dense_network())
    assert lowered["dense"].opcode == "add"
    assert lowered["gate"].opcode == "mul"
    assert lowered["dense_mat_mul"].type.shape == (2, 4)


def test_a_veto_keeps_a_node_and_what_rules_emit() -> None:
    lowered = lower(normalized_network(), lambda node: not isinstance(node, ops.ReduceMean))
    assert "reduce_mean" in opcodes(lowered)
    assert "layer_normalization" not in opcodes(lowered)


def test_a_function_without_anything_to_lower_comes_back() -> None:
    function = lower(dense_network())
    assert lower(function) is function
    kept = dense_network()
    assert lower(kept, lambda _: False) is kept


def test_rules_that_go_round_in_circles_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(node: Node, rewriter: Rewriter) -> Node:
        assert isinstance(node, ops.Exp)
        return rewriter.emit(ops.Exp(node.input))

    monkeypatch.setitem(LOWERINGS, ops.Exp, again)
    with pytest.raises(PassError, match=r"16 rounds.*exp"):
        lower(dense_network())


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_16_bit_floats_are_lowered_in_float32(kind: str) -> None:
    b = Builder()
    x = b.input("x", f"{kind}<2 x 3>")
    b.save(b.emit(ops.Softplus(x), "soft"), "y")
    lowered = lower(b.function())
    assert lowered["soft"].opcode == "convert_to"
    assert lowered["soft"].type.kind.value == kind
    assert lowered["soft_float32"].type.kind is ElementKind.FLOAT32


def test_what_moves_16_bit_floats_is_lowered_as_it_is() -> None:
    b = Builder()
    x = b.input("x", "float16<2 x 3>")
    b.save(b.emit(ops.Relu(b.emit(ops.Tile(x, (2, 1))))), "y")
    assert "convert_to" not in opcodes(lower(b.function()))

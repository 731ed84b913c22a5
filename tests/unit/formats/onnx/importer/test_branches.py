"""Of an If whose condition is known, only the branch that is taken is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
import glow_nb.onnx_backend
from glow_nb.base.errors import UnboundInput
from glow_nb.formats.onnx.importer import import_onnx
from tests.unit.formats.onnx.importer.models import model, value, weight

RATE = value("sr", (), TensorProto.INT64)
IS_16K = helper.make_node("Equal", ["sr", "wanted"], ["c"])
WANTED = weight("wanted", np.array(16_000, np.int64))


def branches(
    then: Sequence[onnx.NodeProto], otherwise: Sequence[onnx.NodeProto], **weights: Any
) -> onnx.NodeProto:
    """Return an If on ``c`` whose branches compute ``r``."""
    graphs = [
        helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info("r")])
        for name, nodes in (("then", then), ("else", otherwise))
    ]
    return helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])


def times(matrix: str) -> list[onnx.NodeProto]:
    return [helper.make_node("MatMul", ["x", matrix], ["r"])]


def voice_detector(samples: Any = 4) -> onnx.ModelProto:
    """Return a model with weights of 4 samples for 16 kHz, and of 2 for 8 kHz."""
    weights = [weight("w4", np.ones((4, 3), np.float32)), weight("w2", np.ones((2, 3), np.float32))]
    nodes = [IS_16K, branches(times("w4"), times("w2"))]
    return model(nodes, [value("x", (1, samples)), RATE], weights=[WANTED, *weights])


def at(rate: int) -> dict[str, Any]:
    return {"sr": np.array(rate, np.int64)}


@pytest.mark.parametrize(("samples", "rate"), [(4, 16_000), (2, 8_000)])
def test_branch_that_cannot_have_these_sizes_is_left_out(samples: int, rate: int) -> None:
    function = import_onnx(voice_detector(samples), constants=at(rate))
    (result,) = glow_nb.evaluate(function, {"x": np.ones((1, samples), np.float32)}).values()
    assert result.tolist() == [[float(samples)] * 3]


def test_error_in_a_branch_names_the_condition_and_the_remedy() -> None:
    with pytest.raises(UnboundInput) as caught:
        import_onnx(voice_detector())
    assert caught.value.names == ("sr",)
    message = str(caught.value)
    assert "the branch that it takes if its condition is False cannot be imported" in message
    assert "computed from inputs ['sr']; give those by constants={name: array}" in message
    assert "node 'r' (MatMul)" in message


def test_error_in_the_branch_that_is_taken_is_told_as_it_is() -> None:
    with pytest.raises(glow_nb.ModelError, match=r"node 'r' \(MatMul\)") as caught:
        import_onnx(voice_detector(), constants=at(8_000))
    assert "condition" not in str(caught.value)


def test_operator_that_is_missing_in_one_branch() -> None:
    unknown = [helper.make_node("Nonesuch", ["x"], ["r"])]
    proto = model(
        [IS_16K, branches(times("x"), unknown)], [value("x", (2, 2)), RATE], weights=[WANTED]
    )
    with pytest.raises(UnboundInput, match=r"give those by constants=(.|\n)*Nonesuch"):
        import_onnx(proto)
    assert import_onnx(proto, constants=at(16_000)).outputs
    with pytest.raises(glow_nb.UnsupportedError, match="ai.onnx Nonesuch"):
        import_onnx(proto, constants=at(8_000))


def test_error_in_a_branch_in_a_branch_is_told_with_the_outer_condition() -> None:
    inner = branches(times("w2"), times("w2"))
    inner.output[0] = "r"
    weights = [WANTED, weight("w2", np.ones((2, 3), np.float32)), weight("c2", np.array(True))]
    inner.input[0] = "c2"
    proto = model([IS_16K, branches([inner], [inner])], [value("x", (1, 4)), RATE], weights=weights)
    with pytest.raises(UnboundInput) as caught:
        import_onnx(proto)
    assert caught.value.names == ("sr",)


def test_condition_of_sizes_is_known_with_them() -> None:
    shape = [
        helper.make_node("Shape", ["x"], ["s"], start=1),
        helper.make_node("Equal", ["s", "four"], ["c"]),
    ]
    weights = [weight(f"w{n}", np.ones((n, 3), np.float32)) for n in (2, 4)]
    weights.append(weight("four", np.array([4], np.int64)))
    proto = model(
        [*shape, branches(times("w4"), times("w2"))], [value("x", (1, "n"))], weights=weights
    )
    network = glow_nb.compile(proto, backend="interpreter")
    for size in (4, 2):
        assert network.run(np.ones((1, size), np.float32))["y"].tolist() == [[float(size)] * 3]


def test_condition_of_weights_is_known() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["limit"], ["m"]),
        helper.make_node("Less", ["m", "one"], ["c"]),
    ]
    weights = [
        weight("limit", np.array([0.5, 0.25], np.float32)),
        weight("one", np.array([[1.0]], np.float32)),
    ]
    weights.append(weight("w", np.ones((4, 3), np.float32)))
    proto = model([*nodes, branches(times("w"), times("x"))], [value("x", (1, 4))], weights=weights)
    assert import_onnx(proto).outputs[0].type.shape == (1, 3)


def test_open_sizes_that_the_probes_do_not_fit_are_told_of_when_they_come() -> None:
    network = glow_nb.compile(voice_detector("n"), backend="interpreter", constants=at(16_000))
    assert network.run(np.ones((1, 4), np.float32))["y"].tolist() == [[4.0] * 3]
    both = glow_nb.compile(voice_detector("n"), backend="interpreter")
    with pytest.raises(UnboundInput, match="'sr'"):
        both.run({"x": np.ones((1, 4), np.float32), **at(16_000)})


def test_standard_backend_binds_the_condition_by_itself() -> None:
    rep = glow_nb.onnx_backend.prepare(voice_detector("n"), engine="evaluate")
    for samples, rate in ((4, 16_000), (2, 8_000)):
        (result,) = rep.run([np.ones((1, samples), np.float32), np.array(rate, np.int64)])
        assert result.tolist() == [[float(samples)] * 3]

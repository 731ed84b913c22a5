"""The standard ONNX backend interface."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import glow_nb.onnx_backend as backend
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.tools import conformance
from glow_nb.tools.conformance import CaseOutcome, Report, operators_of, run_test, write_markdown
from tests.unit.formats.onnx.importer.models import model, one, value, weight

INT = TensorProto.INT64
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@pytest.mark.parametrize("engine", ["interpreter", "evaluate"])
@pytest.mark.parametrize("inputs", [[X], {"x": X}, X], ids=["list", "dict", "bare"])
def test_inputs_may_be_a_list_a_dict_or_an_array(engine: str, inputs: Any) -> None:
    (result,) = backend.run_model(one("Relu"), inputs, engine=engine)
    assert (result == np.maximum(X, 0)).all()


def test_outputs_have_names_and_the_order_of_the_model() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["b"]), helper.make_node("Abs", ["x"], ["a"])]
    outputs = backend.prepare(model(nodes, outputs=["b", "a"]), engine="evaluate").run([X])
    assert [array[0, 0] for array in outputs] == [-1, 1]


def test_shape_operand_is_bound_by_each_run() -> None:
    proto = one("Reshape", ("x", "s"), inputs=[value("x"), value("s", (2,), INT)])
    network = backend.prepare(proto, engine="evaluate")
    for shape in ([3, 2], [1, 6], [3, 2]):
        assert list(network.run([X, np.array(shape)])[0].shape) == shape


def test_symbolic_dimension_is_bound_by_each_run() -> None:
    network = backend.prepare(one("Relu", inputs=[value("x", ("n", 3))]), engine="evaluate")
    for size in (1, 4):
        assert network.run([np.ones((size, 3), np.float32)])[0].shape == (size, 3)


def test_what_is_compiled_is_bounded() -> None:
    proto = one("Relu", inputs=[value("x", ("n",))])
    prepared = backend.prepare(proto, engine="interpreter", max_variants=2)
    for size in (1, 2, 3, 1):
        (y,) = prepared.run([np.full(size, -1, np.float32)])
        np.testing.assert_array_equal(y, np.zeros(size))
    assert [key[0][1] for key in prepared._variants.ready()] == [(3,), (1,)]
    with pytest.raises(OptionError, match="max_variants=0"):
        backend.prepare(proto, max_variants=0)


def test_threads_that_learn_of_an_input_that_must_be_fixed_all_get_an_answer() -> None:
    proto = one("Reshape", ("x", "s"), inputs=[value("x"), value("s", (1,), INT)])
    prepared = backend.prepare(proto, engine="interpreter")
    prepared._fixed.clear()  # as if a first run had to find out
    feeds = [np.ones((2, 3), np.float32), np.array([6])]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: prepared.run(feeds)[0].shape, range(8)))
    assert results == [(6,)] * 8


def test_numbers_that_a_run_computes_are_sizes() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["sizes"], axes=[1], keepdims=0),
        helper.make_node("Cast", ["sizes"], ["shape"], to=INT),
        helper.make_node("ConstantOfShape", ["shape"], ["y"]),
    ]
    network = backend.prepare(model(nodes), engine="evaluate")
    (y,) = network.run([X])
    assert y.shape == tuple(X.max(1).astype(int))


def test_one_node_runs() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (result,) = backend.run_node(node, [X, X], engine="evaluate")
    assert (result == 2 * X).all()


@pytest.mark.parametrize("inputs", [[X], {"x": X}, X], ids=["list", "dict", "bare"])
def test_operands_of_one_node_may_be_a_list_a_dict_or_an_array(inputs: Any) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    (result,) = backend.run_node(node, inputs, engine="evaluate")
    np.testing.assert_array_equal(result, np.maximum(X, 0))


@pytest.mark.parametrize("inputs", [[X, np.float32(2)], [X, None, np.float32(2)]])
def test_operands_of_one_node_may_be_left_out(inputs: list[Any]) -> None:
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    (result,) = backend.run_node(node, inputs, engine="evaluate")
    np.testing.assert_array_equal(result, np.minimum(X, 2))


@pytest.mark.parametrize("inputs", [[X, X], [], {"x": X, "more": X}, {}])
def test_operands_that_one_node_does_not_have_are_refused(inputs: Any) -> None:
    with pytest.raises(FeedError):
        backend.run_node(helper.make_node("Relu", ["x"], ["y"]), inputs, engine="evaluate")


@pytest.mark.parametrize("inputs", [[X], [X, X.copy()], {"x": X}])
def test_an_operand_that_one_node_reads_twice_is_one_array(inputs: Any) -> None:
    (result,) = backend.run_node(
        helper.make_node("Add", ["x", "x"], ["y"]), inputs, engine="evaluate"
    )
    np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.parametrize("other", [X + 1, X[:1], X.astype(np.float64)])
def test_two_arrays_for_one_operand_are_refused(other: Any) -> None:
    with pytest.raises(FeedError, match="input 'x': the node reads it twice"):
        backend.run_node(helper.make_node("Add", ["x", "x"], ["y"]), [X, other])


def test_an_array_for_an_operand_that_is_left_out_is_refused() -> None:
    with pytest.raises(FeedError, match="input 1: the node leaves it out"):
        backend.run_node(helper.make_node("Clip", ["x", "", "most"], ["y"]), [X, X, np.float32(2)])


@pytest.mark.parametrize("inputs", [[X, X], []])
def test_wrong_number_of_inputs(inputs: list[Any]) -> None:
    with pytest.raises(FeedError, match="the model takes"):
        backend.run_model(one("Relu"), inputs, engine="evaluate")


def test_devices_and_engines() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    with pytest.raises(OptionError, match="device 'CUDA:1' is not supported"):
        backend.prepare(one("Relu"), "CUDA:1")
    with pytest.raises(OptionError, match="unknown engine 'gpu'"):
        backend.prepare(one("Relu"), engine="gpu")


def test_compatible_is_what_can_be_imported() -> None:
    assert backend.is_compatible(one("Relu"))
    assert backend.is_compatible(one("Relu", inputs=[value("x", ("n", 3))]))
    assert backend.is_compatible(
        one("Reshape", ("x", "s"), inputs=[value("x"), value("s", (2,), INT)])
    )
    assert not backend.is_compatible(one("ImageDecoder", opset=20))


class Case:
    """A test as ONNX's suite has it."""

    rtol, atol = 1e-3, 1e-7

    def __init__(self, name: str, proto: Any, expected: Any) -> None:
        self.name, self.model, self.data_sets = name, proto, [([X], [expected])]


def test_outcomes_are_told_apart(tmp_path: Any) -> None:
    weights = [weight("w", np.ones((5, 5), np.float32))]
    cases = [
        Case("test_relu", one("Relu"), np.maximum(X, 0)),
        Case("test_relu_expanded", one("Neg"), X),
        Case("test_image_decoder", one("ImageDecoder", opset=20), X),
        Case("test_matmul", one("MatMul", ("x", "w"), weights=weights), X),
    ]
    operators = operators_of(cases)
    assert operators["test_relu_expanded"] == "Relu"
    report = Report(
        [
            CaseOutcome(c.name, operators[c.name], "evaluate", *run_test(c, "evaluate"))
            for c in cases
        ]
    )
    assert [o.outcome for o in report.outcomes] == ["passed", "failed", "unsupported", "failed"]
    with (tmp_path / "table.md").open("w") as out:
        write_markdown(report, out)
    text = (tmp_path / "table.md").read_text()
    assert "| evaluate | 1 | 2 | 1 | 4 |" in text
    assert "| Relu | 1 / 1 / 0 |" in text
    assert "- `test_relu_expanded` (evaluate): wrong result" in text
    assert "- `test_matmul` (evaluate): ModelError" in text


@pytest.mark.parametrize(("units", "outcome"), [(2, "passed"), (3, "failed")])
def test_what_is_rounded_on_both_sides_may_be_two_units_off(
    units: int, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setitem(conformance.ROUNDED, "test_relu", 2)
    case = Case("test_relu", one("Relu"), np.maximum(X, 0) + units * np.spacing(np.maximum(X, 0)))
    case.rtol = case.atol = 0.0
    found, reason = run_test(case, "evaluate")
    assert found == outcome
    with (tmp_path / "table.md").open("w") as out:
        write_markdown(Report([CaseOutcome("test_relu", "Relu", "evaluate", found, reason)]), out)
    text = (tmp_path / "table.md").read_text()
    assert ("within 2 units in the last place of float32" in text) == (outcome == "passed")

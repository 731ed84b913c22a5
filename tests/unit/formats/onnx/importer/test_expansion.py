"""Bodies of functions, branches and loops make a bounded number of nodes, counted together."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.formats.onnx.importer import expansion, import_onnx
from glow_nb.formats.onnx.importer.expansion import TooManyNodesError
from glow_nb.formats.onnx.importer.graph import GraphImporter
from glow_nb.formats.onnx.importer.scope import Scope
from tests.unit.formats.onnx.importer.bombs import (
    OPSETS,
    chain_of_branches,
    chain_of_functions,
    loop_of_calls,
)
from tests.unit.formats.onnx.importer.complaints import complaint
from tests.unit.formats.onnx.importer.models import model, value


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (chain_of_functions(30, 2), 2**31 - 2),
        (chain_of_functions(7, 12), sum(12**n for n in range(1, 8))),
        (chain_of_branches(28), 3 * 2**28 - 3),
        (loop_of_calls("Scan", 40_000, chain_of_functions(1, 3)), 160_000),
        (loop_of_calls("Loop", 1_000, chain_of_functions(1, 60)), 61_000),
    ],
)
def test_too_many_nodes_are_counted_before_they_are_imported(
    model: onnx.ModelProto, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported: list[object] = []
    import_nodes = GraphImporter.import_nodes

    def counted(self: GraphImporter, graph: onnx.GraphProto, scope: Scope) -> None:
        imported.append(graph)
        import_nodes(self, graph, scope)

    monkeypatch.setattr(GraphImporter, "import_nodes", counted)
    message = complaint(model, TooManyNodesError)
    assert f"make {count} nodes of the model, at most {expansion.MAX_NODES} are imported" in message
    assert len(imported) <= 2  # the model's own graph, and a body whose condition had to be seen


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_constant", [True, False])
def test_of_a_known_condition_only_the_branch_that_is_taken_counts(
    is_constant: bool, nested: bool
) -> None:
    """The other one calls functions 2^31 times."""
    bomb = chain_of_functions(30, 2)
    info = helper.make_empty_tensor_value_info
    small = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "small", [], [info("r")])
    large = helper.make_graph(
        [helper.make_node("F0", ["x"], ["r"], domain="local")], "large", [], [info("r")]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=small, else_branch=large)
    if nested:
        both = helper.make_graph([node], "both", [], [info("y")])
        node = helper.make_node("If", ["c"], ["z"], then_branch=both, else_branch=large)
    condition = helper.make_tensor("c", TensorProto.BOOL, (), [True])
    made = model(
        [node],
        [value("x")] if is_constant else [value("x"), value("c", (), TensorProto.BOOL)],
        weights=[condition] if is_constant else [],
        outputs=node.output,
        opset_imports=OPSETS,
        functions=bomb.functions,
    )
    constants = {} if is_constant else {"c": np.array(True)}
    assert [n.opcode for n in import_onnx(made, constants=constants)] == ["relu", "save"]
    if not is_constant:
        assert "at most" in complaint(made, TooManyNodesError)


def test_steps_of_a_loop_count_where_only_they_show_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expansion, "MAX_NODES", 100)
    model = loop_of_calls("While", 50, chain_of_functions(1, 3))
    assert "make 105 nodes of the model, at most 100 are imported" in complaint(
        model, TooManyNodesError
    )
    assert import_onnx(loop_of_calls("While", 20, chain_of_functions(1, 3))).outputs


def test_nodes_of_the_graph_itself_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_NODES", 3)
    assert import_onnx(chain_of_functions(2, 1)).outputs

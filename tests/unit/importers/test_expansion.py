"""Bodies of functions, branches and loops make a bounded number of nodes, counted together."""

from __future__ import annotations

import onnx
import pytest

from glow_nb.importers import import_onnx
from glow_nb.importers.onnx import expansion
from glow_nb.importers.onnx.expansion import TooManyNodesError
from glow_nb.importers.onnx.graph import GraphImporter
from glow_nb.importers.onnx.scope import Scope
from tests.unit.importers.bombs import chain_of_branches, chain_of_functions, loop_of_calls
from tests.unit.importers.complaints import complaint


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
def test_too_many_nodes_are_counted_and_none_is_imported(
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
    assert len(imported) == 1  # the model's own graph


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

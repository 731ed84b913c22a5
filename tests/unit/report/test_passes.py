"""What the steps of the compiler did, as it is noted while they run."""

from __future__ import annotations

import glow_nb
from glow_nb.base.passes import PassRun
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Clip, Relu
from glow_nb.report.passes import PassRecorder
from glow_nb.report.room import Room

GRAPH = """\
func @main(%x : float32<4>) -> (%y : float32<4>) {
  %first = relu(%x) : float32<4>
  %second = relu(%first) : float32<4>
  %y_save = save(%second, %y)
}
"""


def graph() -> Function:
    made = glow_nb.load(GRAPH)
    assert isinstance(made, Function)
    return made


def clipped(function: Function) -> Function:
    return glow_nb.rewrite(function, lambda node, rewriter: rewriter.emit(Clip(node.input)), Relu)


def test_a_pass_is_noted_with_its_lines() -> None:
    before = graph()
    recorder = PassRecorder(Room(), {"clipped": "Clip everything."}, planner="clipped")
    recorder(PassRun("clipped", before, clipped(before), 0.25))
    (row,) = recorder.rows
    assert (row.name, row.level, row.seconds, row.changed) == ("clipped", "graph", 0.25, True)
    assert (row.removed, row.added, row.items) == (2, 2, 3)
    assert row.does == "Clip everything."
    assert row.lines[0].startswith("-%first = relu(%x)")
    assert recorder.before_plans is before


def test_a_pass_that_changes_nothing_has_no_lines() -> None:
    before, recorder = graph(), PassRecorder(Room())
    recorder(PassRun("fold_constants", before, before, 0.5))
    (row,) = recorder.rows
    assert not row.changed
    assert row.lines == ()
    assert row.does.startswith("Replace every node that reads only constants")


def test_the_graph_before_lowering_is_kept() -> None:
    before, recorder = graph(), PassRecorder(Room())
    recorder(PassRun("lower", before, clipped(before), 0.5))
    assert recorder.optimized is before

"""Functions whose own values decide sizes: how they are cut, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.base.errors import FeedError, UnsupportedError, VerifyError
from glow_nb.base.size import Symbol
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.stages import stages_of
from glow_nb.hlir.verify import verify
from glow_nb.hlir.with_sizes import with_sizes

TEXT = """
func @chosen<found in 0..4 like 3, above in 0..4 like 2, batch in 1..9 like 5>
    (%x : float32<4>, %z : float32<batch x 2>)
    -> (%y : float32<above>, %total : float32<1>, %relu : float32<batch x 2>) {
  %places = non_zero(%x) : int64<1 x 4>, int64<>
  %d = decide_size(%places#1) {size = found} : bool<found x 0>
  %first = slice(%places#0) {starts = [0, 0], stops = [1, found], steps = [1, 1]} : int64<1 x found>
  %row = reshape(%first) {shape = [found]} : int64<found>
  %taken = gather(%x, %row) {axis = 0} : float32<found>
  %sum = reduce_sum(%taken) {axes = [0], keep_dims = true} : float32<1>
  %is_above = greater(%taken, %sum) : bool<found>
  %more = non_zero(%is_above) : int64<1 x found>, int64<>
  %e = decide_size(%more#1) {size = above} : bool<above x 0>
  %head = slice(%more#0) {starts = [0, 0], stops = [1, above], steps = [1, 1]} : int64<1 x above>
  %flat = reshape(%head) {shape = [above]} : int64<above>
  %values = gather(%taken, %flat) {axis = 0} : float32<above>
  %positive = relu(%z) : float32<batch x 2>
  %y_save = save(%values, %y)
  %total_save = save(%sum, %total)
  %relu_save = save(%positive, %relu)
}
"""


def feeds_of(*numbers: float) -> dict[str, np.ndarray]:
    return {"x": np.array(numbers, np.float32), "z": np.full((3, 2), -1, np.float32)}


def test_nodes_are_in_the_first_stage_that_has_their_sizes() -> None:
    stages = [stage.function for stage in stages_of(parse_function(TEXT))]
    for stage in stages:
        verify(stage)
        assert print_function(parse_function(print_function(stage))) == print_function(stage)
    assert [[output.name for output in stage.outputs][:1] for stage in stages] == [
        ["relu"],
        ["total"],
        ["y"],
    ]
    assert [{symbol.name for symbol in stage.sizes} for stage in stages] == [
        {"batch"},
        {"found"},
        {"above", "found"},
    ]


def test_what_nothing_depends_on_decides_no_stage() -> None:
    builder = Builder("unused")
    x = builder.input("x", "float32<4>")
    _, count = builder.emit(ops.NonZero(x)).results
    builder.emit(ops.DecideSize(count, Symbol("n", 2, 0, 4).size))
    builder.save(builder.emit(ops.Relu(x)), "y")
    (stage,) = stages_of(builder.function())
    assert [node.opcode for node in stage.function.nodes] == ["relu", "save"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((3, 0, -4, 0), [3]),
        ((0, 0, 0, 0), []),
        ((-3, -4, -1, -2), [-3, -4, -1, -2]),
        ((1, 0, 0, 0), []),
    ],
)
def test_functions_are_evaluated_stage_by_stage(
    numbers: tuple[float, ...], expected: list[float]
) -> None:
    outputs = evaluate(parse_function(TEXT), feeds_of(*numbers))
    assert list(outputs) == ["y", "total", "relu"]
    assert outputs["y"].tolist() == expected
    assert outputs["total"].tolist() == [sum(numbers)]
    assert outputs["relu"].tolist() == [[0, 0]] * 3


def test_given_sizes_make_a_static_function_that_checks_them() -> None:
    function = with_sizes(parse_function(TEXT), {"batch": 3, "found": 2, "above": 1})
    assert not function.sizes
    assert evaluate(lower(function, lambda _: True), feeds_of(3, 0, -4, 0))["y"].tolist() == [3]
    with pytest.raises(FeedError, match="the size is 4, and the graph was made for 2"):
        evaluate(function, feeds_of(1, 2, 3, 4))


def test_decided_sizes_may_stay_open_where_fed_ones_are_given() -> None:
    function = with_sizes(parse_function(TEXT), {"batch": 3})
    assert {symbol.name for symbol in function.sizes} == {"found", "above"}
    assert evaluate(function, feeds_of(3, 0, -4, 0))["y"].tolist() == [3]


def test_passes_keep_what_decides_sizes() -> None:
    function = parse_function(TEXT)
    optimized = GRAPH_PASSES.run(function, ("eliminate_dead_nodes", "eliminate_common_nodes"))
    assert evaluate(optimized, feeds_of(3, 0, -4, 0))["y"].tolist() == [3]


def test_sizes_outside_of_their_range_end_the_run() -> None:
    function = parse_function(TEXT.replace("found in 0..4", "found in 0..3"))
    with pytest.raises(FeedError, match=r"'found': the run computes 4 .* range 0\.\.3"):
        evaluate(function, feeds_of(1, 2, 3, 4))


def test_sizes_are_decided_once_and_before_they_are_used() -> None:
    decision = "  %d = decide_size(%places#1) {size = found} : bool<found x 0>\n"
    late = TEXT.replace(decision, "").replace("  %y_save", decision + "  %y_save")
    with pytest.raises(VerifyError, match="size found is used before it is decided"):
        verify(parse_function(late))
    twice = TEXT.replace("  %y_save", decision.replace("%d", "%again") + "  %y_save")
    with pytest.raises(VerifyError, match="size found is known already"):
        verify(parse_function(twice))


def _with_state() -> Function:
    builder = Builder("counting")
    x, total = builder.input("x", "float32<4>"), builder.state("total", np.zeros(1, np.float32))
    _, count = builder.emit(ops.NonZero(x)).results
    size = Symbol("n", 2, 0, 4).size
    builder.emit(ops.DecideSize(count, size))
    first = builder.emit(ops.Slice(x, starts=(0,), stops=(size,), steps=(1,)))
    builder.update(total, builder.emit(ops.ReduceSum(first, axes=(0,))))
    builder.save(first, "y")
    return builder.function()


def test_functions_with_state_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"state .*total.* decide sizes \(n\)"):
        stages_of(_with_state())


def test_only_what_is_cut_is_lowered() -> None:
    with pytest.raises(UnsupportedError, match="the size found is data-dependent"):
        lower(parse_function(TEXT), lambda node: node.opcode == "decide_size")

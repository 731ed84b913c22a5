"""Plans as data: settings, text, and what keeps and counts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from glow_nb.base.errors import OptionError, ParseError, UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.hlir.parse import parse_module
from glow_nb.llir.form import form_of
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_all_text
from glow_nb.network.ir_text import ir_text

FUNCTION = """func @f(%x : float32<2 x 3>) -> (%out : float32<2 x 3>) {
  %y = relu(%x) plan direct {rows = 6, tile = [2, 4], dot = "fma"} : float32<2 x 3>
  %y_save = save(%y, %out)
}
"""
PROGRAM = """declare @p {
  %x = input float32<2 x 3>
  %y = output float32<2 x 3>
}
program {
  relu @out %y, @in %x plan direct {rows = 6} from %relu
}
"""
PLAN = Plan.of("direct", rows=6, dot="fma", tile=(2, 4), fetch=True, gone=None)


def test_settings_are_asked_for_by_name_and_kind() -> None:
    assert PLAN.number("rows") == 6
    assert PLAN.word("dot") == "fma"
    assert PLAN.sizes("tile") == (2, 4)
    assert PLAN.is_set("fetch")
    assert not PLAN.is_set("gone")
    assert not PLAN.has("gone")
    assert PLAN.number("units", 1) == 1
    assert str(PLAN.updated(dot=None, tile=None)) == "direct {rows = 6, fetch = true}"


def test_a_list_of_sizes_is_a_tuple() -> None:
    assert hash(Plan.of("direct", tile=[2, 4])) == hash(Plan.of("direct", tile=(2, 4)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Plan(3), r"Plan\(3, \(\)\): give the name of an algorithm"),  # type: ignore[arg-type]
        (lambda: Plan("direct", {"rows": 3}), r"Plan\('direct', {'rows': 3}\): give"),  # type: ignore[arg-type]
        (lambda: Plan.of("direct", rows=1.5), "'rows' of plan 'direct' is 1.5; give whole numbers"),  # type: ignore[arg-type]
        (lambda: PLAN.updated(tile=[[2]]), r"'tile' of plan 'direct' is \(\[2\],\); give whole"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_plan_is_refused(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wrong()


@pytest.mark.parametrize("name", ["dot", "fetch", "other"])
def test_a_missing_number_is_named_with_its_plan(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"plan direct .*: '{name}' must be a whole number"):
        PLAN.number(name)


def test_a_plan_is_printed_and_parsed_with_its_node() -> None:
    (function,) = parse_module(FUNCTION).functions
    assert function.nodes[0].plan == Plan.of("direct", rows=6, tile=(2, 4), dot="fma")
    assert 'relu(%x) plan direct {rows = 6, tile = [2, 4], dot = "fma"} :' in ir_text(function)


def test_a_plan_is_printed_and_parsed_with_its_instruction() -> None:
    program = parse_all_text(PROGRAM)
    assert isinstance(program, Program)
    assert program.work[0].plan == Plan.of("direct", rows=6)
    assert "@in %x plan direct {rows = 6} from %relu" in ir_text(program)


def test_what_is_no_setting_has_a_place() -> None:
    with pytest.raises(ParseError, match=r"2:22: 'rows' of a plan must be whole numbers or words"):
        parse_module(FUNCTION.replace("rows = 6", "rows = 6.5"))


def test_instructions_of_other_plans_have_other_kernels() -> None:
    program = parse_all_text(PROGRAM)
    assert isinstance(program, Program)
    (one,) = program.work
    other = replace(one, plan=Plan.of("direct", rows=5))
    assert form_of(one) == form_of(replace(one, plan=Plan.of("direct", rows=6)))
    assert form_of(one) != form_of(other)

"""What instructions cost, and the source of their kernels."""

from __future__ import annotations

import dataclasses
import math

import pytest

from glow_nb.base.kernel_report import KernelReport
from glow_nb.llir.print import print_instruction
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_text
from glow_nb.report.calls import call_rows, kernel_sources, reports_in_order

PROGRAM = """\
declare @main {
  %x = input float32<4>
  %none = output float32<0>
  %empty = input float32<0>
  %y = output float32<4>
}
program {
  relu @out %none, @in %empty
  relu @out %y, @in %x
}
"""


def program() -> Program:
    made = parse_text(PROGRAM)
    assert isinstance(made, Program)
    return made


def reports(source: Program, *numbers: int) -> list[KernelReport]:
    work = source.work
    return [KernelReport(print_instruction(work[n]), "relu", "elementwise") for n in numbers]


def test_each_report_is_that_of_its_instruction() -> None:
    made = program()
    found = reports(made, 0, 1)
    assert reports_in_order(made, found) == list(enumerate(found))


def test_instructions_that_write_nothing_have_no_report() -> None:
    made = program()
    (only,) = reports(made, 1)
    assert reports_in_order(made, [only]) == [(1, only)]


def test_a_source_of_several_calls_is_that_of_the_first_and_says_so() -> None:
    numbered = [
        (n, KernelReport("relu", "relu", "elementwise", source=f"# k\n# call {n}: %r{n}\ndef k"))
        for n in range(3)
    ]
    assert kernel_sources(numbered, [0, 1, 0]) == [
        "# k\n# the first of 2 calls, 0: %r0\ndef k",
        "# k\n# call 1: %r1\ndef k",
    ]


@pytest.mark.parametrize(("estimate", "shown"), [(2.34, 2.3), (math.inf, 0.0), (math.nan, 0.0)])
def test_an_estimate_that_is_no_number_is_none(estimate: float, shown: float) -> None:
    made = program()
    (only,) = reports(made, 1)
    numbered = [(1, dataclasses.replace(only, estimated_ns=estimate))]
    (row,) = call_rows(made, numbered, [0], {}, {})
    assert row.estimated_ns == shown

"""The golden directives themselves: each says yes and no where it should."""

import pytest

from glow_nb.base.steps import step_names
from tests.golden.filecheck import CaseError, MismatchError, read_case, verify_checks

OUTPUT = """\
func @main {
  %a = add(%x, %y) : float32<2 x 3>
  %b = relu(%a) : float32<2 x 3>
  return %b
}
func @other {
  return %x
}
"""


def check(case: str, output: str = OUTPUT) -> None:
    verify_checks(output, read_case(case).checks)


@pytest.mark.parametrize(
    "case",
    [
        "// CHECK: %a = add(%x, %y)",
        "// CHECK: %a   =  add(%x,  %y)",
        "// CHECK: relu({{%[a-z]}}) : float32<{{.*}}>",
        "// CHECK: add\n// CHECK-NEXT: relu\n// CHECK-NEXT: return",
        "// CHECK: add\n// CHECK-NOT: mul\n// CHECK: return",
        "// CHECK-NOT: mul",
        "// CHECK: return %x\n// CHECK-NOT: return",
        "// CHECK-LABEL: @main\n// CHECK-NOT: return %x\n// CHECK-LABEL: @other\n// CHECK: return",
        "// CHECK-LABEL: @other\n// CHECK-NEXT: return %x",
        "",
    ],
)
def test_satisfied_checks_pass(case: str) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [
        "// CHECK: mul",
        "// CHECK: relu\n// CHECK: add",
        "// CHECK: add\n// CHECK-NEXT: return",
        "// CHECK-NOT: relu",
        "// CHECK: add\n// CHECK-NOT: relu\n// CHECK: return",
        "// CHECK: add\n// CHECK-NOT: relu",
        "// CHECK-LABEL: @main\n// CHECK: return %x\n// CHECK-LABEL: @other",
        "// CHECK-LABEL: @other\n// CHECK-LABEL: @main",
        "// CHECK-LABEL: @other\n// CHECK: return\n// CHECK-NEXT: }\n// CHECK-NEXT: }",
    ],
)
def test_unsatisfied_checks_fail(case: str) -> None:
    with pytest.raises(MismatchError):
        check(case)


def test_a_mismatch_names_the_line_of_the_case_and_marks_the_output() -> None:
    with pytest.raises(MismatchError) as caught:
        check("\n// CHECK-NOT: relu")
    message = str(caught.value)
    assert message.startswith("line 2: CHECK-NOT: relu")
    assert ">   %b = relu(%a)" in message


@pytest.mark.parametrize(
    "case",
    [
        "// CHECKS: add",
        "// CHECK-NEXT: add",
        "// CHECK-NOT: add\n// CHECK-NEXT: relu",
        "// CHECK:",
        "// ERROR: one\n// ERROR: two",
        "// ERROR: one\n// CHECK: two",
    ],
)
def test_a_badly_written_case_is_refused(case: str) -> None:
    with pytest.raises(CaseError):
        read_case(case)


def test_passes_are_read_in_order() -> None:
    case = read_case("// PASSES: lower, eliminate_dead_nodes\n// PASSES: lower\nfunc @main {}")
    assert step_names(case.passes) == ["lower", "eliminate_dead_nodes", "lower"]


def test_comments_that_are_no_directive_are_left_alone() -> None:
    case = read_case("// The product: of two matrices\nfunc @main {} // CHECK: not at the start")
    assert case.checks == ()

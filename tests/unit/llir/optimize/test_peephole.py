"""Every condition of the peephole patterns: leave it out, and a result is wrong or missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from glow_nb.backends import backend_named
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Program, View
from glow_nb.llir.stack import members_of
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.unit.llir.sampling import check_program, functions

HEADER = """declare @main {
  %x = input float32<1 x 4 x 4 x 2>
  %y = output float32<1 x 4 x 4 x 2>
  %z = output float32<1 x 4 x 4 x 4>
}
program {
  %a = alloc float32<1 x 4 x 4 x 2>
  %left = tensor_view %z {start = 0, steps = [64, 16, 4, 1]} : float32<1 x 4 x 4 x 2>
  %right = tensor_view %z {start = 2, steps = [64, 16, 4, 1]} : float32<1 x 4 x 4 x 2>
  %even = tensor_view %z {start = 0, steps = [64, 16, 4, 2]} : float32<1 x 4 x 4 x 2>
  %odd = tensor_view %z {start = 1, steps = [64, 16, 4, 2]} : float32<1 x 4 x 4 x 2>
  relu @out %a, @in %x
"""
FOOTER = """
  dealloc %a
}
"""
WINDOW = "{kernel = [3, 3], stride = [1, 1], pads = [1, 1, 1, 1], dilation = [1, 1]}"
POOL = f"max_pool @out %r, @in %a {WINDOW}"
REGISTER = "stack {\n %r = register float32<1 x 4 x 4 x 2>\n "
LEFT = "\n neg @out %left, @in %a"
Y = "\n tanh @out %y, @in %a"


def run(program: Program) -> list[Array]:
    made = compiler.compile_program(allocate(program), backend_named("interpreter"), threads=1)
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal(b.type.shape).astype(np.float32) for b in program.inputs]
    return made.executable.run(feeds)


def simplified(body: str) -> tuple[Program, Program]:
    """Return *body* as a program, and after the pass; its results must stay the same."""
    program = parse_program(HEADER + body + FOOTER)
    after = run_passes(program, ("peephole",))
    for got, want in zip(run(after), run(program), strict=True):
        np.testing.assert_array_equal(got, want)
    return program, after


def copies_of(program: Program) -> int:
    members = [member for instruction in program.work for member in members_of(instruction)]
    return sum(member.opcode == "copy" for member in members)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(REGISTER + POOL + "\n copy @out %right, @in %r\n }" + LEFT + Y, id="a head"),
        pytest.param(
            REGISTER + "neg @out %r, @in %a\n copy @out %odd, @in %r\n }"
            "\n exp @out %even, @in %a" + Y,
            id="a loop, into any window",
        ),
        pytest.param(
            REGISTER
            + "neg @out %r, @in %a\n exp @out %y, @in %a\n copy @out %right, @in %r\n }"
            + LEFT,
            id="others stay in the stack",
        ),
    ],
)
def test_a_value_is_made_where_it_is_copied(body: str) -> None:
    _, after = simplified(body)
    assert copies_of(after) == 0


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            REGISTER
            + "neg @out %r, @in %a\n copy @out %right, @in %r\n exp @out %y, @in %r\n }"
            + LEFT,
            id="another reads the register",
        ),
        pytest.param(
            "exp @out %right, @in %x\n"
            + REGISTER
            + "neg @out %r, @in %a\n exp @out %y, @in %right\n copy @out %right, @in %r\n }"
            + LEFT,
            id="another reads what was there",
        ),
        pytest.param(
            "exp @out %y, @in %x\n"
            + REGISTER.replace("float32", "bool")
            + "is_nan @out %r, @in %y\n %s = register float32<1 x 4 x 4 x 2>\n"
            " convert_to @out %s, @in %r {kind = float32}\n copy @out %y, @in %s\n }"
            "\n neg @out %right, @in %a" + LEFT,
            id="its maker's maker reads what was there",
        ),
        pytest.param(
            "exp @out %y, @in %x\n"
            + REGISTER
            + "maximum @out %r, @in %y, @in %a\n copy @out %y, @in %r\n }"
            "\n neg @out %right, @in %a" + LEFT,
            id="its maker reads what was there",
        ),
        pytest.param(
            REGISTER + POOL + "\n copy @out %odd, @in %r\n }\n exp @out %even, @in %a" + Y,
            id="a head that stores whole pixels",
        ),
        pytest.param(
            REGISTER + POOL + "\n copy @out %right, @in %r\n exp @out %y, @in %a\n }" + LEFT,
            id="a head that others ride on",
        ),
        pytest.param(
            REGISTER + "neg @out %r, @in %a\n %s = register float32<1 x 4 x 4 x 2>\n"
            " copy @out %s, @in %r\n }\n exp @out %y, @in %a\n neg @out %right, @in %a" + LEFT,
            id="a copy to another register, which nothing reads",
        ),
    ],
)
def test_a_register_that_is_needed_stays(body: str) -> None:
    program, after = simplified(body)
    assert copies_of(after) == copies_of(program)


ARGMAX = "max_pool_with_argmax @out %y, @out %i, @in %a " + WINDOW[:-1] + ", column_major = false}"


def opcodes_with_indices(reader: str) -> list[str]:
    body = f"%i = alloc int64<1 x 4 x 4 x 2>\n {ARGMAX}\n {reader}\n dealloc %i\n"
    _, after = simplified(body + " neg @out %right, @in %a" + LEFT)
    return [instruction.opcode for instruction in after.work]


def test_indices_that_nothing_reads_are_not_made() -> None:
    assert "max_pool" in opcodes_with_indices("")


def test_indices_that_are_read_are_made() -> None:
    reader = "%f = alloc float32<1 x 4 x 4 x 2>\n convert_to @out %f, @in %i {kind = float32}\n"
    opcodes = opcodes_with_indices(reader + " add @out %y, @in %f, @in %a\n dealloc %f")
    assert "max_pool_with_argmax" in opcodes


def test_indices_that_are_an_output_are_made() -> None:
    program = parse_program(f"""declare @main {{
  %a = input float32<1 x 4 x 4 x 2>
  %y = output float32<1 x 4 x 4 x 2>
  %i = output int64<1 x 4 x 4 x 2>
}}
program {{
  {ARGMAX}
}}
""")
    assert run_passes(program, ("peephole",)) is program


def test_a_pool_keeps_its_condition_and_its_names() -> None:
    program = parse_program(f"""declare @main {{
  %a = input float32<1 x 4 x 4 x 2>
  %mask = input bool<1>
  %y = output float32<1 x 4 x 4 x 2>
}}
program {{
  %i = alloc int64<1 x 4 x 4 x 2>
  {ARGMAX} if %mask from %pool of %n1, %n2
  dealloc %i
}}
""")
    (pool,) = run_passes(program, ("peephole",)).work
    assert (pool.opcode, pool.predicate) == ("max_pool", program.inputs[1])
    assert (pool.name, pool.imported_names) == ("pool", ("n1", "n2"))


def test_views_look_at_the_root() -> None:
    body = """%rows = tensor_view %a {start = 8, steps = [32, 8, 2, 1]} : float32<1 x 2 x 4 x 2>
 %columns = tensor_view %rows {start = 2, steps = [32, 8, 4, 1]} : float32<1 x 2 x 2 x 2>
 %four = tensor_view %y {start = 0, steps = [32, 8, 2, 1]} : float32<1 x 2 x 2 x 2>
 exp @out %four, @in %columns
 neg @out %right, @in %a"""
    _, after = simplified(body + LEFT)
    views = [b for i in after.work for b in operands_of(i) if isinstance(b, View)]
    assert all(view.base is view.root for view in views)
    (columns,) = (view for view in views if view.name == "columns")
    assert (columns.offset, columns.strides) == (10, (32, 8, 4, 1))


@given(functions())
def test_results_stay(function: Function) -> None:
    for earlier in ((), ("stack_instructions",), ("stack_instructions", "eliminate_slices")):
        before = run_passes(generate(function), earlier)
        after = run_passes(before, ("peephole",))
        check_program(function, after)
        assert run_passes(after, ("peephole",)) is after

"""Every condition of eliminate_slices: leave it out, and a reader sees other numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from glow_nb.backends import backend_named
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.unit.llir.sampling import check_program, functions

HEADER = """declare @main {
  %w = weight float32<2 x 8>, splat 2.0
  %x = input float32<2 x 8>
  %mask = input bool<2>
  %y = output float32<2 x 4>
  %z = output float32<2 x 4>
}
program {
  %big = alloc float32<2 x 8>
  %a = alloc float32<2 x 4>
  %left = tensor_view %big {start = 0, steps = [8, 1]} : float32<2 x 4>
  %right = tensor_view %big {start = 4, steps = [8, 1]} : float32<2 x 4>
  %row = tensor_view %big {start = 4, steps = [8, 1]} : float32<1 x 4>
  %even = tensor_view %big {start = 0, steps = [8, 2]} : float32<2 x 4>
  %front = tensor_view %big {start = 0, steps = [4, 1]} : float32<2 x 4>
  %given = tensor_view %x {start = 4, steps = [8, 1]} : float32<2 x 4>
  %known = tensor_view %w {start = 4, steps = [8, 1]} : float32<2 x 4>
  %a_column = tensor_view %a {start = 0, steps = [4, 1]} : float32<2 x 1>
  %flat = tensor_view %a {start = 0, steps = [1]} : float32<8>
  %pairs = tensor_view %a {start = 0, steps = [4, 2, 1]} : float32<2 x 2 x 2>
  %y_flat = tensor_view %y {start = 0, steps = [1]} : float32<8>
  %y_pairs = tensor_view %y {start = 0, steps = [4, 2, 1]} : float32<2 x 2 x 2>
  exp @out %big, @in %x
"""
FOOTER = """
  dealloc %a
  dealloc %big
}
"""
SUM = "cum_sum @out %z, @in %a {axis = 1, exclusive = false, reverse = false}"


def run(program: Program) -> list[Array]:
    made = compiler.compile_program(allocate(program), backend_named("interpreter"), threads=1)
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    return made.executable.run([x, np.ones(2, np.bool_)])


def has_copy(body: str, footer: str = FOOTER) -> bool:
    """Return whether %a is still there after the pass; the results must stay the same."""
    program = run_passes(parse_program(HEADER + body + footer), ("shrink_lifetimes",))
    after = run_passes(program, ("eliminate_slices",))
    for got, want in zip(run(after), run(program), strict=True):
        np.testing.assert_array_equal(got, want)
    return "a" in [activation.name for activation in after.activations]


READERS = "\n  softmax @out %y, @in %a {axis = 1}\n  neg @out %z, @in %a"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("copy @out %a, @in %right" + READERS, id="an activation"),
        pytest.param("copy @out %a, @in %given" + READERS, id="an input"),
        pytest.param("copy @out %a, @in %known" + READERS, id="a weight"),
        pytest.param(
            f"copy @out %a, @in %front\n  neg @out %y, @in %a\n  {SUM}", id="rows without gaps"
        ),
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y_pairs, @in %pairs\n  neg @out %z, @in %a",
            id="a view that cuts rows",
        ),
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y, @in %a\n  exp @out %left, @in %given\n"
            "  neg @out %z, @in %a",
            id="another part is written",
        ),
        pytest.param(
            "stack {\n  copy @out %a, @in %right\n  neg @out %z, @in %a\n  }\n"
            "  exp @out %y_pairs, @in %pairs",
            id="a member of a stack that reads it, others by a view",
        ),
        pytest.param(
            "stack {\n  copy @out %a, @in %right\n  neg @out %y, @in %a\n  }\n"
            "  exp @out %z, @in %a",
            id="a member of a stack",
        ),
    ],
)
def test_readers_look_at_the_source(body: str) -> None:
    assert not has_copy(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y, @in %a\n  exp @out %right, @in %given\n"
            "  neg @out %z, @in %a",
            id="the source is written before the last reader",
        ),
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y, @in %a\n"
            "  add @out %big, @in %x, @in %a_column\n  neg @out %z, @in %left",
            id="the last reader writes to the source",
        ),
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y, @in %a\n  exp @out %a, @in %given\n"
            "  neg @out %z, @in %a",
            id="the value is written again",
        ),
        pytest.param(
            "exp @out %a, @in %given\n  neg @out %y, @in %a\n  copy @out %a, @in %right\n"
            "  neg @out %z, @in %a",
            id="the value was another before",
        ),
        pytest.param(
            "stack {\n  %r = register float32<2 x 4>\n  exp @out %r, @in %right\n"
            "  copy @out %a, @in %r\n  }" + READERS,
            id="the source is in a register",
        ),
        pytest.param(
            "copy @out %a, @in %row\n  neg @out %y, @in %a\n  neg @out %z, @in %a", id="a broadcast"
        ),
        pytest.param(
            "copy @out %a, @in %right if %mask\n  neg @out %y, @in %a\n  neg @out %z, @in %a",
            id="a copy under a condition",
        ),
        pytest.param("copy @out %a, @in %right\n  neg @out %y, @in %a\n  " + SUM, id="no windows"),
        pytest.param(
            "copy @out %a, @in %right\n  neg @out %y_flat, @in %flat\n  neg @out %z, @in %a",
            id="a view that joins rows",
        ),
        pytest.param(
            "copy @out %a, @in %even\n  neg @out %y, @in %a\n  exp @out %z, @in %a",
            id="elements with gaps between them",
        ),
        pytest.param(
            "copy @out %a, @in %right\n  %c = alloc float32<2 x 8>\n  %d = alloc float32<2 x 8>\n"
            "  exp @out %c, @in %x\n  exp @out %d, @in %c\n"
            "  %dl = tensor_view %d {start = 0, steps = [8, 1]} : float32<2 x 4>\n"
            "  neg @out %y, @in %dl\n  neg @out %z, @in %a\n  dealloc %c\n  dealloc %d",
            id="more memory would be needed",
        ),
    ],
)
def test_the_copy_stays(body: str) -> None:
    assert has_copy(body)


def test_the_copy_stays_where_its_readers_could_not_be_told_from_what_they_write() -> None:
    """Of rows 6 apart, a reader takes those 12 apart and writes to rows 18 apart."""
    program = parse_program("""declare @main {
  %x = input float32<4 x 6>
  %y = output float32<4 x 6>
}
program {
  %both = alloc float32<4 x 6>
  %a = alloc float32<4 x 3>
  %left = tensor_view %both {start = 0, steps = [6, 1]} : float32<4 x 3>
  %some = tensor_view %a {start = 0, steps = [6, 1]} : float32<2 x 3>
  %others = tensor_view %both {start = 3, steps = [18, 1]} : float32<2 x 3>
  neg @out %both, @in %x
  copy @out %a, @in %left
  exp @out %others, @in %some
  neg @out %y, @in %both
  dealloc %a
  dealloc %both
}
""")
    assert run_passes(program, ("eliminate_slices",)) is program


def test_an_output_is_copied() -> None:
    body = "copy @out %y, @in %right\n  copy @out %z, @in %y\n  exp @out %a, @in %given"
    program = parse_program(HEADER + body + FOOTER)
    after = run_passes(program, ("eliminate_slices",))
    assert [i.opcode for i in after.work].count("copy") == 2


def test_a_stack_that_then_writes_nothing_goes() -> None:
    body = "stack {\n  %r = register float32<2 x 4>\n  copy @out %a, @in %right\n"
    body += "  exp @out %r, @in %right\n  }\n  neg @out %y, @in %a\n  neg @out %z, @in %a"
    program = parse_program(HEADER + body + FOOTER)
    after = run_passes(program, ("eliminate_slices",))
    assert [i.opcode for i in after.work] == ["exp", "neg", "neg"]


@given(functions())
def test_results_stay(function: Function) -> None:
    for passes in (("eliminate_slices",), ("stack_instructions", "eliminate_slices")):
        before = run_passes(generate(function), passes[:-1])
        after = run_passes(before, passes[-1:])
        check_program(function, after)
        assert peak_of(after) <= peak_of(before)


def peak_of(program: Program) -> int:
    arena = allocate(program, alignment=1).arena
    assert arena is not None
    return arena.lower_bound_bytes

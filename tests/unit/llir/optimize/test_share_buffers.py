"""Every condition of share_buffers: leave it out, and a result lies where it must not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from glow_nb.backends import backend_named
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.llir.allocate import allocate
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Program, mutated
from glow_nb.llir.traits import KernelTraits, Traits
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.unit.llir.sampling import check_program, functions

HEADER = """declare @main {
  %w = weight float32<1 x 4 x 8>, splat 0.5
  %bias = weight float32<8>, splat 0.25
  %x = input float32<4 x 4>
  %mask = input bool<4>
  %y = output float32<4 x 4>
  %z = output float32<4 x 4>
}
program {
  %a = alloc float32<4 x 4>
  %b = alloc float32<4 x 4>
  %big = alloc float32<5 x 4>
  %reversed = tensor_view %a {start = 12, steps = [-4, 1]} : float32<4 x 4>
  %flat = tensor_view %a {start = 0, steps = [1]} : float32<16>
  %x_rows = tensor_view %x {start = 0, steps = [4, 1]} : float32<2 x 4>
  %top = tensor_view %b {start = 0, steps = [4, 1]} : float32<2 x 4>
  %below = tensor_view %b {start = 8, steps = [4, 1]} : float32<2 x 4>
  %part = tensor_view %big {start = 0, steps = [4, 1]} : float32<4 x 4>
  %rest = tensor_view %big {start = 16, steps = [4, 1]} : float32<1 x 4>
  exp @out %a, @in %x
"""
FOOTER = """
  copy @out %y, @in %b
  dealloc %a
  dealloc %b
  dealloc %big
}
"""
PRODUCT = "packed_mat_mul @out %r, @in %{lhs}, @in %w, @in %bias {{depth = 4, block = 8}}"


def program_of(body: str) -> Program:
    program = parse_program(HEADER + body + FOOTER)
    return run_passes(program, ("shrink_lifetimes",))


def shared(body: str, traits: Traits = CPU_KERNELS.traits) -> Program:
    """Return *body* after the pass; its results must stay the same."""
    before = program_of(body)
    after = run_passes(before, ("share_buffers",), traits)
    rng = np.random.default_rng(0)
    feeds = [rng.standard_normal((4, 4)).astype(np.float32), rng.random(4) < 0.5]
    for got, want in zip(run(after, feeds), run(before, feeds), strict=True):
        np.testing.assert_array_equal(got, want)
    return after


def run(program: Program, feeds: list[Array]) -> list[Array]:
    made = compiler.compile_program(allocate(program), backend_named("interpreter"), threads=1)
    return made.executable.run(feeds)


ENDS = "\n  neg @out %z, @in %b"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("relu @out %b, @in %a" + ENDS, id="one operand"),
        pytest.param("add @out %b, @in %x, @in %a" + ENDS, id="the other operand stays"),
        pytest.param("mul @out %b, @in %a, @in %a" + ENDS, id="one operand read twice"),
        pytest.param(
            "%deep = tensor_view %b {start = 0, steps = [1]} : float32<16>\n"
            "  relu @out %deep, @in %flat" + ENDS,
            id="whole regions in another shape",
        ),
        pytest.param(
            "stack {\n  %r = register float32<4 x 4>\n"
            "  relu @out %r, @in %a\n  add @out %b, @in %r, @in %a\n  }" + ENDS,
            id="a stack that reads it more than once",
        ),
        pytest.param(
            "stack {\n  %r = register float32<4 x 4>\n  "
            + PRODUCT.format(lhs="x")
            + "\n  add @out %b, @in %r, @in %a\n  }"
            + ENDS,
            id="a stack on the tiles of a product",
        ),
    ],
)
def test_the_result_lies_on_the_operand(body: str) -> None:
    after = shared(body)
    assert [activation.name for activation in after.activations] == ["a"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("relu @out %b, @in %a\n  neg @out %z, @in %a", id="the operand is read later"),
        pytest.param(
            "relu @out %b, @in %a\n  exp @out %a, @in %x\n  neg @out %z, @in %a",
            id="the operand is written later",
        ),
        pytest.param(
            "relu @out %b, @in %a\n  neg @out %z, @in %reversed",
            id="a view of the operand is read later",
        ),
        pytest.param(
            "tanh @out %b, @in %x\n  add @out %z, @in %b, @in %x\n  relu @out %b, @in %a",
            id="the result was in use before",
        ),
        pytest.param(
            "%half = alloc float32<2 x 4>\n  tanh @out %half, @in %x_rows\n"
            "  relu @out %top, @in %half\n  neg @out %below, @in %x_rows\n  dealloc %half" + ENDS,
            id="the result is a part of its region",
        ),
        pytest.param(
            "tanh @out %part, @in %x\n  relu @out %b, @in %part" + ENDS,
            id="the operand is a part of its region",
        ),
        pytest.param(
            "maximum @out %b, @in %a, @in %reversed" + ENDS, id="read the other way round"
        ),
        pytest.param("relu @out %b, @in %reversed" + ENDS, id="written the other way round"),
        pytest.param(
            "transpose @out %b, @in %a {permutation = [1, 0]}" + ENDS, id="not declared in place"
        ),
        pytest.param("relu @out %b, @in %x" + ENDS, id="an input"),
        pytest.param("relu @out %z, @in %a\n  neg @out %b, @in %x", id="an output"),
        pytest.param(
            "stack {\n  %r = register float32<4 x 4>\n  "
            + PRODUCT.format(lhs="a")
            + "\n  add @out %b, @in %r, @in %a\n  }"
            + ENDS,
            id="the product reads it, too",
        ),
        pytest.param(
            "stack {\n  %r = register float32<4 x 4>\n  "
            + PRODUCT.format(lhs="reversed")
            + "\n  add @out %b, @in %r, @in %a\n  }"
            + ENDS,
            id="the product reads it by another view",
        ),
    ],
)
def test_the_result_has_memory_of_its_own(body: str) -> None:
    before, after = program_of(body), shared(body)
    assert [a.name for a in after.activations] == [a.name for a in before.activations]


def test_a_kernel_that_does_not_say_so_is_not_in_place() -> None:
    traits: Traits = {PackedMatMulInst: KernelTraits(fuses_epilogue=True)}
    body = f"""stack {{
  %r = register float32<4 x 4>
  {PRODUCT.format(lhs="x")}
  add @out %b, @in %r, @in %a
  }}
  neg @out %z, @in %b"""
    assert len(shared(body, traits).activations) == 2


def test_other_kinds_have_other_places() -> None:
    program = parse_program("""declare @main {
  %x = input float32<4>
  %y = output int32<4>
}
program {
  %a = alloc float32<4>
  exp @out %a, @in %x
  %b = alloc int32<4>
  stack {
    %r = register float32<4>
    relu @out %r, @in %a
    convert_to @out %b, @in %r {kind = int32}
  }
  dealloc %a
  copy @out %y, @in %b
  dealloc %b
}
""")
    assert run_passes(program, ("share_buffers",)) is program


def test_a_condition_is_not_written_over() -> None:
    program = parse_program("""declare @main {
  %p = input bool<4>
  %y = output bool<4>
}
program {
  %mask = alloc bool<4>
  copy @out %mask, @in %p
  %b = alloc bool<4>
  not @out %b, @in %mask if %mask
  dealloc %mask
  copy @out %y, @in %b
  dealloc %b
}
""")
    assert run_passes(program, ("share_buffers",)) is program


def test_one_operand_serves_one_result() -> None:
    after = shared("""%c = alloc float32<4 x 4>
  stack {
    relu @out %b, @in %a
    neg @out %c, @in %b
  }
  copy @out %z, @in %c
  dealloc %c""")
    assert len(after.activations) == 2


def test_results_follow_each_other_in_one_place() -> None:
    after = shared("""%c = alloc float32<4 x 4>
  tanh @out %c, @in %a
  %d = alloc float32<4 x 4>
  neg @out %d, @in %c
  copy @out %z, @in %d
  relu @out %b, @in %d
  dealloc %c
  dealloc %d""")
    assert [activation.name for activation in after.activations] == ["a"]
    assert {buffer.root.name for i in after.work for buffer in mutated(i)} == {"a", "y", "z"}


@given(functions())
def test_results_stay(function: Function) -> None:
    program = generate(function)
    for passes in (("share_buffers",), ("stack_instructions", "eliminate_copies", "share_buffers")):
        after = run_passes(program, passes)
        check_program(function, after)
        before = run_passes(program, passes[:-1])
        assert bound_of(after) <= bound_of(before)
        assert run_passes(after, ("share_buffers",)) is after


def bound_of(program: Program) -> int:
    arena = allocate(program).arena
    assert arena is not None
    return arena.lower_bound_bytes

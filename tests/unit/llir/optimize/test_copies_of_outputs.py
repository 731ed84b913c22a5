"""Copies to and from outputs: a value is made in the place where it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.backends import backend_named
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.allocate import allocate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.stack import members_of
from glow_nb.network import compilation as compiler
from tests.passes_for_cpu import run_passes
from tests.unit.llir.optimize.copies import FOOTER, HEADER, run
from tests.unit.llir.sampling import check_program

REST = """
  neg @out %left, @in %x
  neg @out %right, @in %x"""
FLAT = "%flat = tensor_view %a {start = 0, steps = [1]} : float32<6>"
FLAT_Z = "%flat_z = tensor_view %z {start = 0, steps = [1]} : float32<6>"


def all_copies_left(body: str) -> int:
    """Return how many copies but that to %y are left, in stacks or not; results stay the same."""
    rest = "" if "%right, @in" in body else REST
    program = parse_program(HEADER + body + rest + FOOTER)
    after = run_passes(program, ("eliminate_copies",))
    for got, want in zip(run(after), run(program), strict=True):
        np.testing.assert_array_equal(got, want)
    members = [member for instruction in after.work for member in members_of(instruction)]
    return sum(i.opcode == "copy" and i.dest.name != "y" for i in members)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            f"{FLAT}\n {FLAT_Z}\n relu @out %a, @in %x\n copy @out %flat_z, @in %flat\n"
            " exp @out %left, @in %a",
            id="the whole in another shape",
        ),
        pytest.param(
            "stack {\n relu @out %a, @in %x\n copy @out %z, @in %a\n }\n exp @out %left, @in %a",
            id="a member of the stack that makes it",
        ),
        pytest.param(
            "relu @out %a, @in %x\n %b = alloc float32<2 x 3>\n"
            " stack {\n copy @out %z, @in %a\n neg @out %b, @in %a\n }\n"
            " exp @out %left, @in %b\n dealloc %b",
            id="a member of another stack",
        ),
    ],
)
def test_an_output_that_is_read_is_made_in_its_place(body: str) -> None:
    assert all_copies_left(body) == 0


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "%part = tensor_view %both {start = 1, steps = [6, 1]} : float32<2 x 3>\n"
            " neg @out %left, @in %x\n neg @out %right, @in %x\n copy @out %z, @in %part",
            id="a part of a region",
        ),
        pytest.param(
            "%six = alloc float32<6>\n %wide = tensor_view %six {start = 0, steps = [3, 1]}"
            " : float32<2 x 3>\n %x_flat = tensor_view %x {start = 0, steps = [1]} : float32<6>\n"
            " exp @out %six, @in %x_flat\n copy @out %right, @in %wide\n"
            " neg @out %z, @in %wide\n dealloc %six",
            id="in another shape into a window",
        ),
        pytest.param(
            "relu @out %a, @in %x\n stack {\n copy @out %z, @in %a\n neg @out %a, @in %x\n }\n"
            " exp @out %left, @in %a",
            id="the stack writes it anew",
        ),
        pytest.param(
            "relu @out %a, @in %x\n %b = alloc float32<2 x 3>\n exp @out %z, @in %x\n"
            " stack {\n neg @out %b, @in %z\n copy @out %z, @in %a\n }\n"
            " exp @out %left, @in %b\n dealloc %b",
            id="the stack reads what was there",
        ),
    ],
)
def test_the_copy_stays_where_the_whole_cannot_be_there(body: str) -> None:
    assert all_copies_left(body) == 1


PARTS = """declare @main {
  %x = input float32<2 x 6>
  %y = output float32<2 x 9>
  %z = output float32<2 x 3>
}
program {
  %a = alloc float32<2 x 6>
  %low = tensor_view %a {start = 0, steps = [6, 1]} : float32<2 x 3>
  %high = tensor_view %a {start = 3, steps = [6, 1]} : float32<2 x 3>
  %pairs = tensor_view %a {start = 0, steps = [6, 3, 1]} : float32<2 x 2 x 3>
  %all = alloc float32<2 x 9>
  %first = tensor_view %all {start = 0, steps = [9, 1]} : float32<2 x 3>
  %second = tensor_view %all {start = 3, steps = [9, 1]} : float32<2 x 3>
  %third = tensor_view %all {start = 6, steps = [9, 1]} : float32<2 x 3>
  %x_low = tensor_view %x {start = 0, steps = [6, 1]} : float32<2 x 3>
  exp @out %a, @in %x
"""
REST_OF_PARTS = """
  copy @out %y, @in %all
  dealloc %a
  dealloc %all
}
"""


def copies_of_parts_left(body: str) -> int:
    """Return how many copies but that to %y are left of *body*; the results must stay the same."""
    program = parse_program(PARTS + body + REST_OF_PARTS)
    after = run_passes(program, ("eliminate_copies",))
    x = np.random.default_rng(0).standard_normal((2, 6), np.float32)
    results = []
    for each in (program, after):
        made = compiler.compile_program(allocate(each), backend_named("interpreter"), threads=1)
        results.append(made.executable.run([x]))
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)
    return sum(i.opcode == "copy" and i.dest.name != "y" for i in after.work)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "copy @out %first, @in %low\n copy @out %second, @in %high\n"
            " tanh @out %third, @in %high\n neg @out %z, @in %low",
            id="neighbours of a split are neighbours in the concat",
        ),
        pytest.param(
            "tanh @out %z, @in %high\n copy @out %first, @in %low\n"
            " neg @out %second, @in %x_low\n neg @out %third, @in %x_low",
            id="what is written over the other part comes after its last reader",
        ),
        pytest.param(
            "neg @out %z, @in %low\n copy @out %third, @in %high\n"
            " neg @out %second, @in %x_low\n neg @out %first, @in %x_low",
            id="the last part",
        ),
        pytest.param(
            "%six = tensor_view %all {start = 0, steps = [9, 3, 1]} : float32<2 x 2 x 3>\n"
            " %front = tensor_view %pairs {start = 0, steps = [6, 3, 1]} : float32<2 x 1 x 3>\n"
            " %there = tensor_view %all {start = 3, steps = [9, 3, 1]} : float32<2 x 1 x 3>\n"
            " copy @out %there, @in %front\n neg @out %z, @in %high\n"
            " neg @out %first, @in %x_low\n neg @out %third, @in %x_low",
            id="a box of the region in another shape",
        ),
    ],
)
def test_a_part_brings_the_rest_along(body: str) -> None:
    assert copies_of_parts_left(body) == 0


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "copy @out %first, @in %low\n neg @out %second, @in %x_low\n"
            " tanh @out %z, @in %high\n neg @out %third, @in %x_low",
            id="the other part is read after its place is written",
        ),
        pytest.param(
            "copy @out %third, @in %low\n neg @out %second, @in %x_low\n"
            " tanh @out %z, @in %high\n neg @out %first, @in %x_low",
            id="the other part reaches beyond the region",
        ),
        pytest.param(
            "neg @out %second, @in %x_low\n tanh @out %a, @in %x\n copy @out %first, @in %low\n"
            " tanh @out %z, @in %high\n neg @out %third, @in %x_low",
            id="the place of the other part is in use",
        ),
        pytest.param(
            "copy @out %first, @in %low\n exp @out %second, @in %high\n"
            " neg @out %third, @in %x_low\n neg @out %z, @in %x_low",
            id="one instruction reads a part and writes over it",
        ),
        pytest.param(
            "copy @out %first, @in %low\n neg @out %low, @in %x_low\n tanh @out %z, @in %low\n"
            " neg @out %second, @in %x_low\n neg @out %third, @in %x_low",
            id="the part is written again",
        ),
        pytest.param(
            "%odd = tensor_view %a {start = 0, steps = [6, 2]} : float32<2 x 3>\n"
            " copy @out %first, @in %odd\n tanh @out %z, @in %high\n"
            " neg @out %second, @in %x_low\n neg @out %third, @in %x_low",
            id="elements that are no box",
        ),
    ],
)
def test_a_part_stays_where_the_rest_has_no_place(body: str) -> None:
    assert copies_of_parts_left(body) == 1


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_outputs_that_show_one_value_are_copies_of_the_first(outputs: int) -> None:
    """A value that is read on and saved is made in its output; only more outputs need copies."""
    b = Builder("main")
    mean = b.emit(ops.ReduceMean(b.input("x", "float32<2 x 4 x 8>"), (1,), keep_dims=False))
    b.save(b.emit(ops.Softmax(mean, 1)), "softmax")
    for index in range(outputs):
        b.save(b.emit(ops.Reshape(mean, (2, *(1,) * index, 8))), f"mean_{index}")
    function = b.function()
    cpu = backend_named("cpu")
    program = compiler.build_program(compiler.lower_for(function, cpu), cpu)
    check_program(function, program)
    members = [member for instruction in program.work for member in members_of(instruction)]
    assert [member.opcode for member in members].count("copy") == outputs - 1
    assert not program.activations

"""Every condition of eliminate_copies: leave it out, and the copy goes although it must stay."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.llir.generate import generate
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Buffer
from glow_nb.llir.verify import may_overlap, verify
from tests.passes_for_cpu import run_passes
from tests.unit.llir.optimize.copies import FOOTER, HEADER, run


def copies_left(body: str) -> int:
    """Return how many copies into %both are left of *body*; the results must stay the same."""
    program = parse_program(HEADER + body + FOOTER)
    after = run_passes(program, ("eliminate_copies",))
    verify(after)
    for got, want in zip(run(after), run(program), strict=True):
        np.testing.assert_array_equal(got, want)
    return sum(i.opcode == "copy" and i.dest.name in ("left", "right") for i in after.work)  # type: ignore[attr-defined]


def test_the_plain_case_goes() -> None:
    assert (
        copies_left("""
  relu @out %a, @in %x
  copy @out %left, @in %a
  neg @out %right, @in %x
  exp @out %z, @in %a""")
        == 0
    )


def test_a_value_that_is_read_backwards_into_the_other_window_goes() -> None:
    assert (
        copies_left("""
  relu @out %a, @in %x
  %back = tensor_view %a {start = 2, steps = [3, -1]} : float32<2 x 3>
  copy @out %left, @in %a
  neg @out %right, @in %back
  exp @out %z, @in %a""")
        == 0
    )


def test_the_copy_stays_where_its_readers_could_not_be_told_from_what_they_write() -> None:
    """Of rows 6 apart, a reader takes those 12 apart and writes to rows 18 apart."""
    program = parse_program("""declare @main {
  %x = input float32<4 x 3>
  %y = output float32<4 x 6>
}
program {
  %both = alloc float32<4 x 6>
  %a = alloc float32<4 x 3>
  %left = tensor_view %both {start = 0, steps = [6, 1]} : float32<4 x 3>
  %right = tensor_view %both {start = 3, steps = [6, 1]} : float32<4 x 3>
  %some = tensor_view %a {start = 0, steps = [6, 1]} : float32<2 x 3>
  %others = tensor_view %both {start = 3, steps = [18, 1]} : float32<2 x 3>
  relu @out %a, @in %x
  neg @out %right, @in %x
  copy @out %left, @in %a
  exp @out %others, @in %some
  neg @out %y, @in %both
  dealloc %a
  dealloc %both
}
""")
    assert run_passes(program, ("eliminate_copies",)) is program


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """
  relu @out %a, @in %x
  copy @out %left, @in %a
  neg @out %a, @in %x
  neg @out %right, @in %x
  exp @out %z, @in %a""",
            id="the value is written again after the copy",
        ),
        pytest.param(
            """
  relu @out %a, @in %x
  copy @out %left, @in %a
  neg @out %left, @in %x
  neg @out %right, @in %x
  exp @out %z, @in %a""",
            id="the window is written again",
        ),
        pytest.param(
            """
  neg @out %left, @in %x
  relu @out %a, @in %x
  exp @out %z, @in %left
  copy @out %left, @in %a
  neg @out %right, @in %x""",
            id="the window is read before the copy",
        ),
        pytest.param(
            """
  copy @out %left, @in %x
  neg @out %right, @in %x
  neg @out %z, @in %x""",
            id="an input stays where the caller has it",
        ),
        pytest.param(
            """
  copy @out %left, @in %w
  neg @out %right, @in %x
  neg @out %z, @in %x""",
            id="a weight stays where it is",
        ),
        pytest.param(
            """
  relu @out %a, @in %x
  copy @out %left, @in %a
  neg @out %right, @in %x
  cum_sum @out %z, @in %a {axis = 1, exclusive = false, reverse = false}""",
            id="a reader that takes no windows",
        ),
        pytest.param(
            """
  relu @out %a, @in %x
  %flat = tensor_view %a {start = 0, steps = [1]} : float32<6>
  %flat_z = tensor_view %z {start = 0, steps = [1]} : float32<6>
  copy @out %left, @in %a
  neg @out %right, @in %x
  neg @out %flat_z, @in %flat""",
            id="a view that is no box",
        ),
    ],
)
def test_the_copy_stays(body: str) -> None:
    assert copies_left(body) == 1


def test_a_value_in_two_places_is_made_in_one_of_them() -> None:
    assert (
        copies_left("""
  relu @out %a, @in %x
  copy @out %left, @in %a
  copy @out %right, @in %a
  exp @out %z, @in %a""")
        == 1
    )


@pytest.mark.parametrize("count", [10, 40])
def test_a_value_that_is_put_in_many_places_meets_only_what_lies_there(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Buffer] = []

    def counted(left: Buffer, right: Buffer) -> bool:
        asked.append(left)
        return may_overlap(left, right)

    for module in ("overlaps", "optimize.eliminate_copies"):
        monkeypatch.setattr(f"glow_nb.llir.{module}.may_overlap", counted)
    builder = Builder("places")
    x = builder.input("x", "float32<4 x 8>")
    one, other = builder.emit(ops.Softmax(x, axis=1)), builder.emit(ops.Softmax(x, axis=0))
    builder.save(builder.emit(ops.Concat((one, other) * count, axis=0)), "y")
    run_passes(generate(builder.function()), ("eliminate_copies",))
    assert len(asked) < 12 * count

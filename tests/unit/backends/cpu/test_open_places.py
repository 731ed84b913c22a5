"""Where threads wait for each other in programs whose places are known only when they run."""

from __future__ import annotations

from glow_nb.backends.cpu.planned_calls import Kernels, places_of, plan_calls
from glow_nb.codegen.entry import plan_hazards
from glow_nb.kernels.target import Target
from glow_nb.llir.allocate import allocate
from glow_nb.llir.parse import parse_program

TEXT = """\
declare @main<n in 1..8 like 4> {
  %x = input float32<n x 4>
  %z = input float32<2*n x 4>
  %y = output float32<3*n x 8>
}
program {
  %left = tensor_view %y {start = START, steps = [8, 1]} : float32<n x 4>
  copy @out %left, @in %x
  %right = tensor_view %y {start = 4, steps = [8, 1]} : float32<2*n x 4>
  copy @out %right, @in %z
}
"""


def _waits(start: str) -> bool:
    """Return whether the second copy waits for the first one."""
    program = allocate(parse_program(TEXT.replace("START", start)))
    places = places_of(program, {}, 0)
    calls = plan_calls(program, places, Kernels(Target.host()), 1).calls
    return plan_hazards(calls, [False] * len(calls))[1] is not None


def test_columns_that_begin_at_an_open_place_may_be_any() -> None:
    assert _waits("8*n + 4")


def test_columns_beside_others_need_no_wait() -> None:
    assert not _waits("0")

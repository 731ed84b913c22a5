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


IN_TURN = """\
declare @main<n in 1..8 like 4> {
  %x = input float32<n x 4>
  %y = output float32<n x 4>
  %z = output float32<n x 4>
}
program {
  %a = alloc float32<n x 4>
  relu @out %a, @in %x
  %b = alloc float32<n x 4>
  neg @out %b, @in %x
  %c = alloc float32<n x 4>
  add @out %c, @in %a, @in %b
  dealloc %a
  dealloc %b
  %d = alloc float32<n x 4>
  abs @out %d, @in %x
  mul @out %y, @in %c, @in %x
  mul @out %z, @in %c, @in %d
  dealloc %c
  dealloc %d
}
"""


def _waits(text: str) -> list[bool]:
    """Return for each instruction whether it waits for those before it."""
    program = allocate(parse_program(text))
    places = places_of(program, {}, 0)
    calls = plan_calls(program, places, Kernels(Target.host()), 1).calls
    return [hazard is not None for hazard in plan_hazards(calls, [False] * len(calls))]


def test_columns_that_begin_at_an_open_place_may_be_any() -> None:
    assert _waits(TEXT.replace("START", "8*n + 4"))[1]


def test_columns_beside_others_need_no_wait() -> None:
    assert not _waits(TEXT.replace("START", "0"))[1]


def test_only_what_may_lie_in_freed_memory_waits_for_its_users() -> None:
    assert _waits(IN_TURN) == [False, False, True, True, False, True]

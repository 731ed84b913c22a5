"""From which instruction to which activations live, and where."""

from __future__ import annotations

from glow_nb.llir.allocate import allocate
from glow_nb.llir.lives import lives_of
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_text

PROGRAM = """\
declare @main {
  %x = input float32<4096>
  %y = output float32<4096>
}
program {
  %"a $b$ \\u4e2d" = alloc float32<4096>
  exp @out %"a $b$ \\u4e2d", @in %x
  %c = alloc float32<4096>
  exp @out %c, @in %"a $b$ \\u4e2d"
  dealloc %"a $b$ \\u4e2d"
  %d = alloc float32<4096>
  relu @out %d, @in %c
  dealloc %c
  relu @out %y, @in %d
  dealloc %d
}
"""


def parse(text: str) -> Program:
    program = parse_text(text)
    assert isinstance(program, Program)
    return program


def test_lives_count_instructions_that_compute() -> None:
    program = allocate(parse(PROGRAM))
    lives = lives_of(program)
    assert [(life.begin, life.end, life.kind) for life in lives] == [
        (0, 2, "exp"),
        (1, 3, "exp"),
        (2, 4, "relu"),
    ]
    assert [life.size_bytes for life in lives] == [16384] * 3
    assert lives[0].offset == lives[2].offset != lives[1].offset
    assert lives[1].shape == "4096"
    assert [life.writers for life in lives] == [(0,), (1,), (2,)]


def test_all_instructions_that_write_a_life_are_known() -> None:
    in_place = PROGRAM.replace(
        "relu @out %d, @in %c\n", "relu @out %d, @in %c\n  exp @out %d, @in %d\n"
    )
    lives = lives_of(allocate(parse(in_place)))
    assert lives[2].writers == (2, 3)
    assert lives[2].kind == "relu"

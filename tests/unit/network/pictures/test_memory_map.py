"""The picture of the arena."""

from __future__ import annotations

from pathlib import Path

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.llir.allocate import allocate
from glow_nb.llir.program import Program
from glow_nb.network.files import parse_text

memory_map = pytest.importorskip("glow_nb.network.pictures.memory_map", exc_type=ImportError)

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


def test_draws_a_png(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    memory_map.draw_memory_map(allocate(parse(PROGRAM)), path, "any $title")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert width >= 1600
    assert height >= 900
    assert [entry.name for entry in tmp_path.iterdir()] == ["map.png"]


def test_needs_a_placement(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="not allocated"):
        memory_map.draw_memory_map(parse(PROGRAM), tmp_path / "map.png")


def test_needs_activations(tmp_path: Path) -> None:
    text = (
        "declare @main {\n  %x = input float32<2>\n  %y = output float32<2>\n}\n"
        "program {\n  exp @out %y, @in %x\n}\n"
    )
    with pytest.raises(OptionError, match="nothing to draw"):
        memory_map.draw_memory_map(allocate(parse(text)), tmp_path / "map.png")

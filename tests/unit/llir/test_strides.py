"""Where pixels lie in windows."""

import pytest

from glow_nb.base.size import Symbol
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.parse import parse_program
from glow_nb.llir.strides import divided
from glow_nb.llir.windows import pixel_stride


@pytest.mark.parametrize(
    ("shape", "steps", "expected"),
    [
        ("2 x 3 x 4", (12, 4, 1), 4),
        ("2 x 3 x 4", (30, 10, 1), 10),
        ("2 x 3 x 4", (40, 10, 1), None),
        ("2 x 3 x 4", (24, 8, 2), None),
        ("1 x 1 x 4", (999, 77, 1), 4),
        ("2 x 3 x 1", (15, 5, 9), 5),
        ("4", (1,), 4),
    ],
)
def test_pixel_stride(shape: str, steps: tuple[int, ...], expected: int | None) -> None:
    program = parse_program(f"""declare @main {{
  %x = input float32<2000>
  %y = output float32<{shape}>
}}
program {{
  %window = tensor_view %x {{start = 0, steps = {list(steps)}}} : float32<{shape}>
  copy @out %y, @in %window
}}
""")
    (copy,) = program.work
    assert isinstance(copy, CopyInst)
    assert pixel_stride(copy.src) == expected


def test_open_sizes_are_divided_as_far_as_it_shows() -> None:
    height, width = (Symbol(name, 32).size for name in ("height", "width"))
    rows = (height + 1) // 2
    assert divided(64 * height + 32, 64) == (height, 32)
    assert divided(512 * rows * width, 512 * rows) == (width, 0)
    assert divided(5, height * width + 5) == (0, 5)
    assert divided(height, width) == (0, height)  # nothing shows which one is greater

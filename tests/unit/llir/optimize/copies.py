"""Programs with copies, and how many of them are left."""

from __future__ import annotations

import numpy as np

from glow_nb.backends import backend_named
from glow_nb.base.types import Array
from glow_nb.llir.allocate import allocate
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler

HEADER = """declare @main {
  %w = weight float32<2 x 3>, splat 2.0
  %x = input float32<2 x 3>
  %y = output float32<2 x 6>
  %z = output float32<2 x 3>
}
program {
  %both = alloc float32<2 x 6>
  %a = alloc float32<2 x 3>
  %left = tensor_view %both {start = 0, steps = [6, 1]} : float32<2 x 3>
  %right = tensor_view %both {start = 3, steps = [6, 1]} : float32<2 x 3>
"""
FOOTER = """
  copy @out %y, @in %both
  dealloc %a
  dealloc %both
}
"""


def run(program: Program) -> list[Array]:
    made = compiler.compile_program(allocate(program), backend_named("interpreter"), threads=1)
    return made.executable.run([np.arange(-3, 3, dtype=np.float32).reshape(2, 3)])

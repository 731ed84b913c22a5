"""What the caller registers is noted by its module; what the package registers is not."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import glow_nb
from glow_nb.base.extensions import EXTENDING_MODULES
import glow_nb.backends, glow_nb.formats.onnx.importer, glow_nb.kernels.cpu_kernels
glow_nb.load
assert not EXTENDING_MODULES, EXTENDING_MODULES
{extension}
assert list(EXTENDING_MODULES) == ["__main__"], EXTENDING_MODULES
"""

PASS = """
@glow_nb.register_pass
def a_pass_of_mine(function):
    return function
"""

ROW = """
from dataclasses import replace
from glow_nb.backends.cpu.algorithms.algorithm import ALGORITHMS
ALGORITHMS.add("mine", next(iter(ALGORITHMS.values())))
"""


def test_modules_that_extend_the_compiler_are_noted() -> None:
    for extension in (PASS, ROW):
        script = SCRIPT.format(extension=extension)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

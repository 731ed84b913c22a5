"""What the caller registers is noted by its module; what the package registers is not."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import glow_nb
from glow_nb.base.extensions import EXTENDING_MODULES
import glow_nb.backends, glow_nb.kernels.cpu_kernels
glow_nb.load
assert not EXTENDING_MODULES, EXTENDING_MODULES
{extensions}
"""

NOTED = """
assert list(EXTENDING_MODULES) == ["__main__"], EXTENDING_MODULES
EXTENDING_MODULES.clear()
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

RULE_FROM_ELSEWHERE = """
from glow_nb.extend import imports
imports("mine", "Op")(glow_nb.load)
"""
"""It loads the importer, with all rules of the package."""


def test_modules_that_extend_the_compiler_are_noted() -> None:
    extensions = "".join(extension + NOTED for extension in (PASS, ROW, RULE_FROM_ELSEWHERE))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(extensions=extensions)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

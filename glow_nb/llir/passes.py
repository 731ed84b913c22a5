"""The registry of instruction passes: ``Program -> Program``, registered under their own names."""

from __future__ import annotations

from glow_nb.llir.program import Program
from glow_nb.llir.verify import verify
from glow_nb.passes import PassRegistry

PROGRAM_PASSES: PassRegistry[Program] = PassRegistry("instruction", verify)
register_pass = PROGRAM_PASSES.register

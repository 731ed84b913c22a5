"""Debug information of generated code for debuggers and profilers: DWARF, sources, symbol maps.

It imports what `codegen` imports, and is imported by the modules of `codegen` that emit and link
code, and by backends.
"""

PERF_VARIABLE = "GLOW_NB_PERF"
"""The environment variable that says what is written for Linux' perf: ``map`` or ``jitdump``."""

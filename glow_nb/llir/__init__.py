"""The low-level IR: instructions over buffers that are named by address (paper 3.5).

It imports `hlir` and what stands below that.
"""

import glow_nb.llir.print  # noqa: F401  registers the text of programs

"""The high-level IR: a graph of typed nodes (paper 3.1 to 3.4).

It imports `base`, `system`, `numerics` and `scheduling`.
"""

import glow_nb.hlir.print  # noqa: F401  registers the texts of functions and modules

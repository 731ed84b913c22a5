"""Which generated code uses registers for whole matrices: the right to do so is asked for it."""

from __future__ import annotations

import re

_MATRIX_DOTS = re.compile(r"\btile_dot_tdp[a-z0-9]+\(")
"""The dot instructions whose sums lie in such registers, as a kernel calls them."""


def uses_matrix_registers(text: str) -> bool:
    """Return whether the kernel of this source multiplies in registers for whole matrices.

    Where the processor has none, the same source becomes code that does without.
    """
    return _MATRIX_DOTS.search(text) is not None

"""How constants are written in text."""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.print import MAX_INLINE_BYTES, print_initializer


def test_a_splat_that_the_parser_would_refuse_is_external() -> None:
    count = MAX_INLINE_BYTES // 4
    one = np.float32(1)
    assert print_initializer(np.broadcast_to(one, (count + 1,))) == "external"
    assert print_initializer(np.broadcast_to(one, (100,))) == "splat 1.0"

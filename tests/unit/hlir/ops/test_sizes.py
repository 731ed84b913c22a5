"""Sizes as numbers."""

from __future__ import annotations

import numpy as np

import glow_nb
from glow_nb.hlir.lower import lower
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function

TEXT = """\
func @main<batch in 1..64 like 8, length in 1..512 like 128>(%x : float32<batch x length>) -> \
(%y : int64<2>, %m : float32<batch>) {
  %sizes = sizes() {numbers = [batch, 2*length - 1]} : int64<2>
  %y_save = save(%sizes, %y)
  %mean = reduce_mean(%x) {axes = [1], keep_dims = false} : float32<batch>
  %m_save = save(%mean, %m)
}
"""


def test_open_sizes_are_numbers_of_the_run() -> None:
    function = parse_function(TEXT)
    assert print_function(function) == TEXT
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for form in (function, lower(glow_nb.optimize(function))):
        found = glow_nb.evaluate(form, {"x": x})
        assert found["y"].tolist() == [2, 5]
        assert found["m"].tolist() == [1, 4]
    assert any(node.opcode == "sizes" for node in lower(function).nodes[1:])

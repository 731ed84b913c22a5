"""A stack whose prologue would read what its epilogue makes, as random graphs found it."""

from __future__ import annotations

import numpy as np

import glow_nb
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function

# A layer normalization of %clip, which is computed from what another result needs as well: when
# %clip's kernel joins that of the normalization last, it must not come after what reads it.
TEXT = """
constant %two : float32<1 x 1 x 1> = dense [2.0]
constant %half : float32<1 x 1 x 1> = dense [0.5]
constant %scale : float32<1 x 1 x 2> = dense [1.5, 0.5]
constant %bias : float32<1 x 1 x 2> = dense [1.5, 0.5]
constant %c : float32<1 x 1 x 1> = dense [1.5]
func @main(%x : float32<1 x 1 x 2>) -> (%y0 : float32<1 x 1 x 2>, %y1 : float32<1 x 1 x 2>) {
  %reduce_max = reduce_max(%x) {axes = [2], keep_dims = true} : float32<1 x 1 x 1>
  %tile = tile(%reduce_max) {repeats = [1, 1, 2]} : float32<1 x 1 x 2>
  %abs = abs(%tile) : float32<1 x 1 x 2>
  %neg = neg(%abs) : float32<1 x 1 x 2>
  %clip = clip(%neg) {minimum = -4.0, maximum = 4.0} : float32<1 x 1 x 2>
  %mean = reduce_mean(%clip) {axes = [0, 1, 2], keep_dims = true} : float32<1 x 1 x 1>
  %sub = sub(%clip, %mean) : float32<1 x 1 x 2>
  %pow = pow(%sub, %two) : float32<1 x 1 x 2>
  %variance = reduce_mean(%pow) {axes = [0, 1, 2], keep_dims = true} : float32<1 x 1 x 1>
  %add = add(%variance, %half) : float32<1 x 1 x 1>
  %sqrt = sqrt(%add) : float32<1 x 1 x 1>
  %div = div(%sub, %sqrt) : float32<1 x 1 x 2>
  %mul = mul(%div, %scale) : float32<1 x 1 x 2>
  %normal = add(%bias, %mul) : float32<1 x 1 x 2>
  %other = add(%c, %neg) : float32<1 x 1 x 2>
  %tanh = tanh(%normal) : float32<1 x 1 x 2>
  %y0_save = save(%other, %y0)
  %y1_save = save(%tanh, %y1)
}
"""


def test_producers_read_nothing_that_riders_make() -> None:
    function = parse_function(TEXT)
    feeds = {"x": np.array([[[0.25, -3.0]]], np.float32)}
    wanted = evaluate(function, feeds)
    results = glow_nb.compile(function, backend="interpreter").run(feeds)
    for name, array in results.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-6)

"""How much does a network change if its activations are clipped at 6, as in mobile networks?

A researcher's own pass, complete::

    python -m experiments.custom_pass squeezenet
"""

from __future__ import annotations

import sys

import numpy as np

import glow_nb
from experiments.twins import make_twin
from glow_nb.distance import distance
from glow_nb.duel.feeds import random_feeds
from glow_nb.hlir.ops import Clip, Relu


def clip_activations(function: glow_nb.Function) -> glow_nb.Function:
    """``relu(x)`` -> ``clip(x) {minimum = 0.0, maximum = 6.0}``."""

    def rule(node: glow_nb.Node, rewriter: glow_nb.Rewriter) -> glow_nb.Value | None:
        match node:
            case Relu(input=value):
                return rewriter.emit(Clip(value, minimum=0.0, maximum=6.0))
        return None

    return glow_nb.rewrite(function, rule)


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if len(sys.argv) > 1 else "squeezenet")
    results = []
    for pipeline in (glow_nb.INFERENCE, (*glow_nb.INFERENCE, clip_activations)):
        net = glow_nb.compile(model, threads=1, pipeline=pipeline)
        results.append(np.concatenate([a.ravel() for a in net.run(random_feeds(model)).values()]))
    change = distance(*results)
    print(f"largest change: {change:.3f} of the largest output")

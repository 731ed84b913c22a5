"""How much does a network change if its activations are clipped at 6, as in mobile networks?

A pass over the graph, by a rule for one operator, run after those of the compiler::

    python -m experiments.passes.graph_pass squeezenet
"""

import sys

import numpy as np

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.base.distance import distance
from glow_nb.hlir.ops import Clip, Relu
from glow_nb.tools.duel.feeds import random_feeds


def clip_activations(function: glow_nb.Function) -> glow_nb.Function:
    """``relu(x)`` -> ``clip(x) {minimum = 0.0, maximum = 6.0}``."""

    def rule(node: Relu, rewriter: glow_nb.Rewriter) -> glow_nb.Value:
        return rewriter.emit(Clip(node.input, minimum=0.0, maximum=6.0))

    return glow_nb.rewrite(function, rule, Relu)


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet")
    results = []
    for pipeline in (glow_nb.INFERENCE, (*glow_nb.INFERENCE, clip_activations)):
        net = glow_nb.compile(model, threads=1, pipeline=pipeline)
        results.append(np.concatenate([a.ravel() for a in net.run(random_feeds(model)).values()]))
    print(f"largest change: {distance(*results):.3f} of the largest output")

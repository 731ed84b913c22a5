"""How many elements fewer are rectified if maximum pools come before ReLUs?

A pass as a pattern and its replacement: the maximum of rectified numbers is their maximum,
rectified, and there are fewer of these::

    python -m experiments.passes.pattern_rule squeezenet
"""

import dataclasses
import sys

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import any_of, rule, used_here, wildcards
from glow_nb.hlir.ops import MaxPool, Relu

(x,) = wildcards("x")


@rule(any_of(MaxPool, input=used_here(Relu(x))))
def pools_first(node: MaxPool, x: glow_nb.Value) -> glow_nb.Node:
    """``max_pool(relu(x))`` -> ``relu(max_pool(x))``."""
    return Relu(dataclasses.replace(node, input=x, name=""))


def rectified(function: glow_nb.Function) -> int:
    """Return how many elements the ReLUs of *function* compute."""
    return sum(node.type.size for node in function if isinstance(node, Relu))


if __name__ == "__main__":
    graph = glow_nb.load(make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet"))
    assert isinstance(graph, glow_nb.Function)
    for passes in (glow_nb.INFERENCE, (*glow_nb.INFERENCE, pools_first)):
        optimized = glow_nb.optimize(graph, pipeline=passes)
        print(f"{rectified(optimized)} elements are rectified")

"""What would a network be without Winograd's and Strassen's algorithms? A cost model of one's own.

It chooses how each convolution and matrix product is computed, instead of the estimate of the
compiler: here, what computes the sums directly seems to take no time beside all else::

    python -m experiments.passes.cost_model squeezenet
"""

import sys
from collections import Counter

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import Plan


def direct_sums(plan: Plan, problem: object, target: object, cycles: float) -> float:
    """Return the cycles that *plan* is taken to need; the compiler estimates *cycles*."""
    return cycles if plan.algorithm == "direct" else 1e6 * cycles


def operators(graph: glow_nb.Function, options: glow_nb.Cpu) -> Counter[str]:
    """Return how often each operator of the lowered graph occurs; nothing is compiled."""
    return Counter(node.opcode for node in glow_nb.lower_for(graph, options.make(threads=1)).nodes)


if __name__ == "__main__":
    graph = glow_nb.load(make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet"))
    for options in (glow_nb.Cpu(), glow_nb.Cpu(cost_model=direct_sums)):
        print(dict(operators(graph, options)))

"""What is each pass good for? Leave it out, and look at what a network then needs.

Each pass that the backend can do without is left out, one after the other::

    python -m experiments.passes.ablation squeezenet
"""

import sys

import glow_nb
from experiments.networks.twins import make_twin


def ablations(graph: glow_nb.Function, backend: str) -> dict[str, tuple[int, int]]:
    """Return the number of kernels and the bytes of the arena without each pass, if they differ."""
    whole = glow_nb.compile(graph, backend=backend)
    needs = {"": (len(whole.kernels), whole.memory.arena_bytes)}
    for name in whole.pipeline.optional:
        net = glow_nb.compile(graph, backend=backend, without=(name,))
        if (found := (len(net.kernels), net.memory.arena_bytes)) != needs[""]:
            needs[name] = found
    return needs


if __name__ == "__main__":
    graph = glow_nb.load(make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet"))
    for name, (kernels, arena) in ablations(graph, "interpreter").items():
        print(f"{name or 'with all passes':28} {kernels:5} kernels, arena of {arena} bytes")

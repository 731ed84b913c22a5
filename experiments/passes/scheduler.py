"""How much memory does the order of instructions save? A scheduler of a script's own.

This one takes, of the steps that may come next, the one that leaves the fewest bytes live::

    python -m experiments.passes.scheduler squeezenet
"""

import sys

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import Steps


def greedy(steps: Steps) -> list[int]:
    """Return the order in which each step leaves as few bytes live as any that may come next."""
    order: list[int] = []
    done = live = 0
    while len(order) < len(steps.before):
        left = [step for step in range(len(steps.before)) if not done >> step & 1]
        ready = [step for step in left if not steps.needed[step] & ~done]
        step = min(ready, key=lambda step: steps.run(step, done, live)[1])
        live = steps.run(step, done, live)[1]
        done |= 1 << step
        order.append(step)
    return order


def as_given(steps: Steps) -> range:
    """Return the order of the model."""
    return range(len(steps.before))


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet")
    for scheduler in (None, greedy, as_given):
        net = glow_nb.compile(model, backend="interpreter", scheduler=scheduler)
        name = scheduler.__name__ if scheduler else "the compiler's own"
        print(f"{name}: arena of {net.memory.arena_bytes} bytes")

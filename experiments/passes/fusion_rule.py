"""What does it cost to run each elementwise operator by itself? A rule that forbids fusion.

``stack_instructions`` fuses an operator with a kernel if the kernel's traits allow it. A backend
that inherits from another one and takes the traits away fuses elementwise operators alone::

    python -m experiments.passes.fusion_rule squeezenet
"""

import sys

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import KernelTraits


class NoEpilogues(glow_nb.Interpreter):
    """The interpreter, whose kernels take no elementwise operators as prologue or epilogue."""

    traits = dict.fromkeys(glow_nb.Interpreter.traits, KernelTraits())


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet")
    for backend in (glow_nb.Interpreter(), NoEpilogues()):
        net = glow_nb.compile(model, backend=backend)
        print(f"{type(backend).__name__}: {len(net.kernels)} kernels")

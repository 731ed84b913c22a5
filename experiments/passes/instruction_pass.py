"""What do instructions over memory have that the graph has not? They may write over an operand.

A pass over instructions: each ReLU whose operand nobody reads any more computes in place. (The
compiler's ``share_buffers`` does this for all operators, and much more)::

    python -m experiments.passes.instruction_pass squeezenet
"""

import sys

import glow_nb
from experiments.networks.twins import make_twin
from glow_nb.extend import Activation, Program, mark_lifetimes, operands_of, substitute


def relu_in_place(program: Program) -> Program:
    """``relu @out %b, @in %a`` -> ``relu @out %a, @in %a``, and so for all that reads %b."""
    work = program.work
    for place, instruction in enumerate(work):
        if instruction.opcode != "relu":
            continue
        dest, source = operands_of(instruction)
        later = {buffer.root for each in work[place + 1 :] for buffer in operands_of(each)}
        if all(type(b) is Activation for b in (dest, source)) and source.root not in later:
            work = substitute(work, {dest: source})
    return program.with_instructions(mark_lifetimes(work)) if work != program.work else program


if __name__ == "__main__":
    model = make_twin(sys.argv[1] if sys.argv[1:] else "squeezenet")
    for passes in ((), (relu_in_place,)):
        net = glow_nb.compile(model, backend="interpreter", program_pipeline=passes)
        print(f"arena of {net.memory.arena_bytes} bytes with {len(passes)} passes")

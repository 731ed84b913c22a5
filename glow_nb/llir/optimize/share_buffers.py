"""Let results be written over operands that nothing reads any more."""

from __future__ import annotations

from glow_nb.base.schema import operands_of
from glow_nb.llir.in_place import candidates
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, View
from glow_nb.llir.substitute import substitute
from glow_nb.llir.traits import NO_TRAITS, Traits


def share_buffers(program: Program, *, traits: Traits = NO_TRAITS) -> Program:
    """Let a result reuse the memory of an operand whose last reader is the same instruction.

    ::

        %b = alloc float32<8>                  %b = tensor_view %a {...}
        relu @out %b, @in %a            ->     relu @out %b, @in %a
        dealloc %a                             ...
        ...                                    dealloc %a

    The instruction and the *traits* of its kernel must allow it (see :mod:`glow_nb.llir.in_place`),
    both must be whole activations
    of one kind and shape, and no other instruction may touch the operand later or the result
    earlier, itself or by a view. Inputs, outputs and weights keep their memory. At no step is more
    memory live than before; where both were live, it is less by the size of one.

    Only whole buffers share memory, so this pass runs after the passes that move results into
    others.
    """
    work = program.work
    hosts = _hosts(work, traits)
    if not hosts:
        return program
    tenants = {new: View(new.name, new.type, host) for new, host in hosts.items()}
    return program.with_instructions(mark_lifetimes(substitute(work, tenants)))


def _hosts(work: tuple[Instruction, ...], traits: Traits) -> dict[Buffer, Buffer]:
    """Return the activations that move, with the one in whose memory each will lie."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for number, instruction in enumerate(work):
        for buffer in operands_of(instruction):
            first.setdefault(buffer.root, number)
            last[buffer.root] = number
    hosts: dict[Buffer, Buffer] = {}
    taken: set[Buffer] = set()
    for number, instruction in enumerate(work):
        for result, source in candidates(instruction, traits):
            new, old = result.root, source.root
            if not (isinstance(new, Activation) and isinstance(old, Activation)):
                continue
            if first[new] != number or last[old] != number or new in hosts or old in taken:
                continue
            hosts[new] = hosts.get(old, old)
            taken.add(old)
    return hosts

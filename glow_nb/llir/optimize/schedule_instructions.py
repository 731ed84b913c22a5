"""Order instructions so that little memory is live at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.schema import operands_of
from glow_nb.base.size import hinted
from glow_nb.llir.dependences import dependences
from glow_nb.llir.in_place import candidates
from glow_nb.llir.lifetimes import mark_lifetimes
from glow_nb.llir.program import Activation, Buffer, Instruction, Program, mutated, read
from glow_nb.llir.traits import NO_TRAITS, Traits
from glow_nb.scheduling.ordering import Scheduler, best_order, order_by
from glow_nb.scheduling.steps import Steps


def schedule_instructions(
    program: Program, *, traits: Traits = NO_TRAITS, scheduler: Scheduler = best_order
) -> Program:
    """Put instructions in an order in which fewer bytes are live at a time.

    ::

        max_pool @out %a, @in %x                     max_pool @out %a, @in %x
        max_pool @out %b, @in %x                     packed_convolution @out %left, @in %a, ...
        packed_convolution @out %left, @in %a, ... -> max_pool @out %b, @in %x
        packed_convolution @out %right, @in %b, ...  packed_convolution @out %right, @in %b, ...

    The graph was scheduled before (:mod:`glow_nb.hlir.schedule`), but now it is known which values
    are in registers, and which are computed in a window of a larger tensor, which is live from its
    first part on. A result that can lie on an operand (see ``share_buffers``, which has the same
    option *traits*) takes no memory.

    :mod:`glow_nb.scheduling.ordering` describes how orders are found. The peak never grows, and the
    order stays if no better one is found. Another *scheduler* may find other orders.

    Raises:
        OptionError: *scheduler* returns no order that is allowed.
    """
    work = program.work
    order = order_by(scheduler, steps_of(work, traits), [f"%{i.name}" for i in work])
    if order == list(range(len(work))):
        return program
    return program.with_instructions(mark_lifetimes([work[number] for number in order]))


def steps_of(work: Sequence[Instruction], traits: Traits) -> Steps:
    """Return *work*, which holds no markers, as steps; the activations are their regions."""
    roots = (buffer.root for instruction in work for buffer in operands_of(instruction))
    activations = (root for root in roots if isinstance(root, Activation))
    number = {root: index for index, root in enumerate(dict.fromkeys(activations))}

    def bytes_of(buffers: Iterable[Buffer]) -> dict[int, int]:
        amounts: dict[int, int] = {}
        for buffer in dict.fromkeys(buffers):
            if buffer.root in number:
                region = number[buffer.root]
                amounts[region] = amounts.get(region, 0) + hinted(buffer.type.size_bytes)
        return amounts

    return Steps(
        before=dependences(work),
        reads=[bytes_of(read(instruction)) for instruction in work],
        writes=[bytes_of(mutated(instruction)) for instruction in work],
        size=[aligned_bytes(hinted(root.type.size_bytes)) for root in number],
        shared=[
            [
                (number[new.root], number[old.root])
                for new, old in candidates(instruction, traits)
                if new.root in number and old.root in number
            ]
            for instruction in work
        ],
    )

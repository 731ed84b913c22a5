"""The loops of recurrent layers over their steps, forwards and backwards."""

from __future__ import annotations

from glow_nb.hlir.ops import recurrence as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("recurrence", node=nodes.Recurrence)
class RecurrenceInst(NodeInstruction):
    """The states of all steps, ``[S, steps, D, B, H]``, of what the gates get from the inputs."""

    dest: Out
    inputs: In
    recurrent: In
    bias: OptionalIn
    initial: OptionalIn
    peepholes: OptionalIn
    lengths: OptionalIn
    cell: str
    direction: str
    activations: tuple[str, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    clip: float
    flag: bool
    panel: int


@define_instruction("recurrence_gradient", node=nodes.RecurrenceGradient)
class RecurrenceGradientInst(NodeInstruction):
    """The gradients of ``inputs`` and of the first states, from the last step to the first."""

    dest: Out
    first: Out
    upstream: In
    inputs: In
    products: In
    previous: In
    recurrent: In
    bias: OptionalIn
    peepholes: OptionalIn
    lengths: OptionalIn
    cell: str
    direction: str
    activations: tuple[str, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    clip: float
    flag: bool
    panel: int

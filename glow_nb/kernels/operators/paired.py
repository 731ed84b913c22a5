"""The convolution of unsigned bytes with pairs of signed ones that do not saturate."""

from __future__ import annotations

from math import prod

from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.payload import array_or_none
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.convolution import convolve, require_pad_value
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.ops.windows import Windowed
from glow_nb.kernels.operators.pairings import (
    STEP_INPUTS,
    WINDOW,
    PairedWeights,
    fault_of,
    order_size,
    unpaired,
)
from glow_nb.kernels.operators.panels import check_block, joins_taps, panels_of, runs_of
from glow_nb.llir.instructions.derived import derive_instruction
from glow_nb.llir.program import Activation, Bound, StateBuffer, Weight

INT8, UINT8, INT32 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT32


def runs_of_bytes(
    kernel: tuple[int, ...], dilation: tuple[int, ...], channels: int
) -> tuple[int, int]:
    """Return the number of runs of a sum over taps and *channels*, and the inputs of each.

    A run is one tap, or all taps of a line, where these are neighbours.
    """
    if not kernel:
        return 1, channels
    taps, run = runs_of(kernel, channels, joined=joins_taps(STEP_INPUTS, 1, dilation))
    return prod(taps), run


@define_node("paired_convolution")
class PairedConvolution(Windowed):
    """Convolve bytes like :class:`Convolution`, with weights in steps of two pairs.

    ``input`` is ``[N, *spatial, C]`` of uint8, or a matrix ``[N, C]``, which has no window.
    ``filter``, of int8, and ``order``, of int32, are those of
    :class:`~glow_nb.kernels.operators.pairings.PairedWeights`: ``[steps, block * 4]`` and
    ``[order_size(panels * runs, steps)]`` with ``panels = ceil(depth / block)`` and the runs of
    :func:`runs_of_bytes`. ``bias`` is ``[panels * block]``, padded with zeros; the result is
    ``[N, *out, depth]`` of int32.

    The weights of a pair must be such that two products fit into 16 bits.

    Attributes:
        depth: Output channels.
        block: Output channels in a panel.
        pad_value: The number that cells outside the input count as.
    """

    input: Value
    filter: Value
    bias: Value
    order: Value
    depth: int
    block: int
    pad_value: int = 0

    @override
    def infer_type(self) -> TensorType:
        input, filter, order = self.input.type, self.filter.type, self.order.type
        require_kind(self, "input", input, frozenset({UINT8}))
        out = self._window(input)
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        check_block(self, self.block)
        panels, (runs, _) = panels_of(self.depth, self.block), self.runs
        steps = filter.shape[0] if filter.rank else 0
        wanted = TensorType(INT8, (steps, self.block * STEP_INPUTS))
        self.require(
            filter == wanted, f"'filter' is {filter}, but block = {self.block} needs {wanted}"
        )
        wanted = TensorType(INT32, (order_size(panels * runs, steps),))
        self.require(order == wanted, f"'order' is {order}, but filter {filter} needs {wanted}")
        found, wanted = self.bias.type, TensorType(INT32, (panels * self.block,))
        self.require(found == wanted, f"'bias' is {found}, but depth = {self.depth} needs {wanted}")
        require_pad_value(self, input, self.pad_value)
        return TensorType(INT32, (input.shape[0], *out, self.depth))

    def _window(self, input: TensorType) -> tuple[int, ...]:
        """Return the spatial sizes of the result."""
        window = self.window
        if input.rank == len(("N", "C")):
            sizes = tuple(window.attributes.values())
            self.require(not any(sizes), f"input {input} is a matrix and has no window {sizes}")
            return ()
        return window.checked(self, input)

    @property
    def runs(self) -> tuple[int, int]:
        """The number of runs, and the weights of each."""
        return runs_of_bytes(self.kernel, self.dilation, self.input.type.shape[-1])

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array, order: Array) -> Array:
        plain = unpaired(PairedWeights(filter, order), self.depth, *self.runs)
        if self.kernel:
            plain = plain.reshape(self.depth, *self.kernel, input.shape[-1])
            sums = convolve(self, widest(input), plain, 1, pad_value=self.pad_value)
        else:
            sums = widest(input) @ plain[:, 0].T
        return fitted(sums + widest(bias)[: self.depth], self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size * prod(self.runs), self.type.size)


def _verify_order(instruction: PairedConvolutionInst) -> None:
    """Raise VerifyError unless the order of *instruction* is a weight that describes its pairs."""
    order = instruction.order
    instruction.require(
        not isinstance(order, Activation | Bound | StateBuffer),
        f"{order!r} must be a weight: kernels read where it tells",
    )
    numbers = array_or_none(order.payload) if isinstance(order, Weight) else None
    if numbers is None:
        return
    node = instruction.as_node()
    assert isinstance(node, PairedConvolution)
    runs, run = node.runs
    panels, steps = panels_of(node.depth, node.block), node.filter.type.shape[0]
    fault = fault_of(numbers, panels * runs, steps, -(-run // WINDOW))
    instruction.require(not fault, f"the order {order!r} is wrong: {fault}")


PairedConvolutionInst = derive_instruction(PairedConvolution, verify=_verify_order)

"""The options of the cpu backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from glow_nb.backends.options import CheckedOptions, option
from glow_nb.base.plan import Plan

Winograd = Literal["auto", "guarded", "off"]
Switch = Literal["auto", "off"]


Choice = Mapping[str, str | Plan | None] | Callable[..., object] | None
"""What is said about the plans of single layers; see :mod:`.algorithms.choice`."""


@dataclass(frozen=True)
class CpuOptions(CheckedOptions):
    """The options of :class:`glow_nb.Cpu`.

    Attributes:
        winograd: "auto" lets convolutions with stride 1 or 2 and constant filters be done by
            Winograd's algorithm where that is faster: 2 to 3 times as fast with stride 1, up to 1.5
            times with stride 2. Of bytes its results are exact; it is not used where the weights do
            not prove that. In ``float32`` its root mean square error, for 64 channels, is about
            3e-7 of the outputs' for tiles of 2 x 2, 8e-7 for 4 x 4, and 3e-6 for 6 x 6, or for 4 x
            4 with 5 x 5 taps; that of the direct sum is 3e-7.
            Over a whole network (largest difference from the result in ``float64`` over the largest
            output) the policy is at most 1e-4, held by the networks of the test suite
            (``docs/accuracy.md``). These errors are relative to the largest input of a tile's
            window, 8 x 8 pixels for 6 x 6 outputs of 3 x 3 taps: where one pixel is a million times
            as large as its neighbours, outputs beside it may lose all digits. NaN and infinity
            spread over the outputs of a tile, and inputs near overflow may give them where the
            direct sum is finite. "guarded" has NaN, infinities and overflows where the direct sum
            has them, for any number of threads: what is not finite is summed up directly, and so
            are all convolutions with filters that are no constants. It costs up to 3 % of a
            network's time. "off" sums up everything directly.
        strassen: "auto" lets products with constant matrices, and pointwise convolutions
            with 256 channels or more, be done by Strassen's algorithm where that is faster: seven
            products of blocks instead of eight, up to 1.12 times as fast. Their root mean square
            error is about 6e-7 of the outputs' (direct sums: 3e-7); it is relative to the row and
            the column of a result, as with direct sums, and results of rows and columns of numbers
            below 1.2e-38 are zero. Where NaN, infinity or an overflow comes in, results are summed
            up directly, two rows at a time, which takes several times as long. Weights take 7/4 of
            their memory. "off" sums up everything directly.
        constant_growth: Winograd's and Strassen's algorithms multiply sums of weights, which take
            more memory than the weights: 7/4 times as much by Strassen's, 16/9 times by Winograd's
            for tiles of 2 x 2 of 3 x 3 taps, 4 times for 4 x 4, 64/9 times for 6 x 6. All constants
            together take at most this number of times the bytes of the network's weights, for each
            set of sizes that a network is compiled for; the room goes to the layers where it saves
            the most time a byte. With 1, only algorithms are used that keep the size of weights,
            but for layers that *plan* forces; infinity sets no limit. Padding of weights to whole
            vectors does not count.
        plan: Which algorithm computes single layers: a dict by the layer's name, ``{"conv1":
            "direct", "fc6": "not strassen"}``, or a function that takes the name and the
            candidates, the best first, and returns one of them, or None for the compiler's own
            choice. A plan may stand in the place of an algorithm, as an object or as the text that
            is printed of it: ``{"conv1": "direct {block = 16}"}``. :func:`glow_nb.plans` lists
            layers with their candidates.
        cost_model: A function of a plan, its problem, the target and our estimate that returns the
            cycles to choose by.
        tune: Measure on this machine which of the plans for each convolution and matrix
            product is the fastest, instead of estimating it. This takes a while, the longer the
            more different ones there are; measurements are kept in the cache folder, and the next
            compilation makes the same choices from them at once.
        debug: Write what debuggers read (``docs/howto/debugging.md``): lines of the machine code,
            the sources that they are of, and commands of gdb. Results are the same; the network is
            not kept in the cache of networks.
    """

    name: ClassVar[str] = "cpu"

    winograd: Winograd = option(
        "auto",
        choices=get_args(Winograd),
        help="Whether convolutions may be done by Winograd's algorithm, which is faster and rounds "
        "a little more; guarded keeps NaN and infinity where the direct sum has them.",
    )
    strassen: Switch = option(
        "auto",
        choices=get_args(Switch),
        help="Whether products with constant matrices may be done by Strassen's algorithm, which "
        "is faster, rounds a little more, and takes 7/4 of the memory for their weights.",
    )
    constant_growth: float = option(
        2.0,
        least=1.0,
        help="How many times the bytes of the network's weights all constants may take: algorithms "
        "that transform weights are used where they save the most time a byte. 1 for none of them.",
    )
    tune: bool = option(
        False,
        help="Measure how each product is computed fastest, instead of estimating it; takes a "
        "while the first time.",
    )
    debug: bool = option(
        False,
        help="Write debug information and the sources that it belongs to, for gdb and perf.",
    )
    plan: Choice = None
    cost_model: Callable[..., float] | None = None

"""What a program whose sizes are open needs to run: where its memory lies for the sizes that come.

The entry reads the addresses of such memory as it reads those of inputs, from the array of
bindings: one for each activation, and one for each view that begins at a place which depends on
sizes. So neither sizes nor places are in its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from glow_nb.base.errors import CompileError, OptionError
from glow_nb.base.placement_order import PlacementOrder
from glow_nb.base.size import Guard, Symbol, at

WindowSpace = Literal["constants", "activation", "binding"]
SPACES: tuple[WindowSpace, ...] = get_args(WindowSpace)


@dataclass(frozen=True)
class Window:
    """Memory whose address is a binding of its own.

    Attributes:
        space: The constants, an activation, or one of the bindings.
        number: Which activation or binding.
        offset_bytes: From its beginning, a size.
    """

    space: WindowSpace
    number: int
    offset_bytes: int


@dataclass(frozen=True)
class OpenSizes:
    """The open sizes of a program, and what depends on them.

    Attributes:
        symbols: The sizes that inputs tell.
        guards: The comparisons for which the program is right.
        words: The array that kernels read sizes from: for each kind of kernel its own, in order.
        scratch_bytes: Working memory that kernels need for each thread, sizes.
        placement: The placement of activations.
        windows: The memory that is bound after the array of sizes, in order.
    """

    symbols: tuple[Symbol, ...]
    guards: tuple[Guard, ...]
    words: tuple[Symbol, ...]
    scratch_bytes: tuple[int, ...]
    placement: PlacementOrder
    windows: tuple[Window, ...]

    def check_numbers(self, bindings: int) -> None:
        """Raise CompileError unless windows and orders refer to existing ones: *bindings*
        bindings.
        """
        count = len(self.placement.sizes)
        ends = {"activation": count, "binding": bindings, "constants": 1}
        for window in self.windows:
            if not 0 <= window.number < ends[window.space]:
                raise CompileError(f"{window}: there is no such memory")
        place = {number: index for index, number in enumerate(self.placement.order)}
        is_order = sorted(self.placement.order) == list(range(count))
        if not is_order or len(self.placement.before) != count:
            raise CompileError(f"an order of {len(place)} activations, of which there are {count}")
        for index, others in enumerate(self.placement.before):
            if any(place.get(other, count) >= index for other in others):
                raise CompileError(f"activation {index} is placed by others that come after it")

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise OptionError unless the program is right for *sizes* by name."""
        for symbol in self.symbols:
            symbol.check(sizes[symbol.name])
        for guard in self.guards:
            if not guard.holds(sizes):
                given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
                raise OptionError(
                    f"sizes {given}: the program was compiled for sizes where {guard}; compile it "
                    "for these, too"
                )

    def scratch_at(self, sizes: Mapping[str, int]) -> int:
        """Return the working memory of one thread for *sizes*."""
        return max((at(size, sizes) for size in self.scratch_bytes), default=0)

"""The feeds of a network with open sizes: arrays that fit for some of the sizes that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glow_nb.base.arguments import as_array
from glow_nb.base.feeds import FeedCheck, Feeds, check_open_feeds, name_feeds
from glow_nb.base.guards import Guard
from glow_nb.base.override import override
from glow_nb.base.size import symbols_of
from glow_nb.base.sizes_of_shapes import require_guards, sizes_of_shapes
from glow_nb.base.types import Array, TensorType, symbolic

MOST_SHAPES = 256
"""Sets of shapes whose checks are kept; a new one takes some tens of microseconds."""


class OpenFeedCheck(FeedCheck):
    """The inputs that a network takes for the sizes that their shapes determine."""

    def __init__(
        self, inputs: Iterable[tuple[str, TensorType]], guards: Sequence[Guard] = ()
    ) -> None:
        """Check what is fed to *inputs*, for sizes where *guards* hold."""
        super().__init__(inputs)
        self._open = {name: symbolic(type) for name, type in self.types.items()}
        self._symbols = symbols_of(*(size for type in self.types.values() for size in type.shape))
        self._guards = guards
        self._known: dict[tuple[tuple[int, ...], ...], FeedCheck] = {}

    @override
    def arrays(self, feeds: Feeds) -> list[Array]:
        """Return one contiguous array for each input, or raise FeedError."""
        named = name_feeds(self.types.keys(), feeds)
        arrays = {name: as_array(name, named[name]) for name in self.types}
        shapes = tuple(array.shape for array in arrays.values())
        check = self._known.get(shapes)
        if check is None:
            check = self._check_of(arrays)
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            self._known[shapes] = check
        return check.arrays(arrays)

    def _check_of(self, arrays: dict[str, Array]) -> FeedCheck:
        """Return the check for the sizes that the shapes of *arrays* determine."""
        check_open_feeds(self._open, arrays)
        shapes = {name: array.shape for name, array in arrays.items()}
        sizes = sizes_of_shapes(self.types, self._symbols, shapes)
        require_guards(self._guards, sizes)
        return FeedCheck((name, type.at(sizes)) for name, type in self.types.items())


def feed_check(inputs: Iterable[tuple[str, TensorType]], guards: Sequence[Guard] = ()) -> FeedCheck:
    """Return the check of what is fed to *inputs*, of which some may have open sizes."""
    types = list(inputs)
    is_open = any(type.is_open for _, type in types)
    return OpenFeedCheck(types, guards) if is_open else FeedCheck(types)

"""A model imported with its open sizes as symbols, those alone made numbers that have to be."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.base.size import RESERVED, OpenSizeError, Symbol
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import Array, Dimensions
from glow_nb.formats.onnx.importer.dimensions import Shapes, partly_bound
from glow_nb.formats.onnx.importer.importer import Importer
from glow_nb.formats.onnx.importer.model import Model
from glow_nb.hlir.graph import Function

LONGEST_WORD = 64
"""The most characters that the name of a size keeps of that of a dimension."""


@dataclass(frozen=True)
class Specialized:
    """A size that was made a number.

    Attributes:
        name: The dimension.
        size: The number: that of the example.
        reason: What needs a number.
    """

    name: str
    size: int
    reason: str


def import_open(
    model: Model,
    shapes: Shapes,
    constants: Mapping[str, Array],
    ranges: SizeRanges | None = None,
) -> tuple[Function, list[Specialized]]:
    """Return *model* with the sizes that *shapes* leaves open as symbols; and those that are none.

    The symbols have the *ranges* and hints that are given. Where a rule needs a number, the sizes
    in question become those of their examples.

    Raises:
        ModelError, UnsupportedError, OptionError, UnboundInput: As the import of any model.
    """
    specialized: list[Specialized] = []
    while True:
        fixed = {each.name: each.size for each in specialized}
        importer = _OpenImporter(model, {**shapes, **fixed}, constants)
        importer.ranges = ranges or SizeRanges()
        try:
            return importer.function(), specialized
        except OpenSizeError as error:
            reason = f"{importer.place}: it needs a number for {error.size!s}"
            names = {symbol: name for name, symbol in importer.symbols.items()}
            specialized += [
                Specialized(names[symbol], symbol.hint, reason) for symbol in error.size.symbols
            ]


class _OpenImporter(Importer):
    """Imports one model whose open dimensions are symbols."""

    symbols: dict[str, Symbol]
    ranges: SizeRanges

    @override
    def _input_shapes(
        self, signature: Mapping[str, Dimensions | None]
    ) -> Mapping[str, tuple[int, ...]]:
        declared, ranges = self.ranges.declared(signature)
        bound = partly_bound(self.model.place, declared, self._shapes)
        known = {name: shape for name, shape in bound.items() if shape is not None}
        unknown = {name: shape for name, shape in bound.items() if shape is None}
        names = [n for shape in known.values() for n in shape if isinstance(n, str)]
        shapes_of_all = (*signature.values(), *declared.values())
        every = [n for shape in shapes_of_all for n in shape or () if isinstance(n, str)]
        self.ranges.require_known(list(dict.fromkeys(every)))
        self.symbols = {}
        for place, name in enumerate(dict.fromkeys(names)):
            self.symbols[name] = ranges.symbol(name, self._word(name), place)
        shapes = {
            name: tuple(self.symbols[n].size if isinstance(n, str) else n for n in shape)
            for name, shape in known.items()
        }
        return {**shapes, **super()._input_shapes(unknown)} if unknown else shapes

    def _word(self, name: str) -> str:
        """Return a word that is like *name* and no other symbol's."""
        word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:LONGEST_WORD]
        word = word if word.isidentifier() else f"size_{word}"
        word = f"{word}_size" if word in RESERVED else word
        taken = {symbol.name for symbol in self.symbols.values()}
        others = (f"{word}_{n}" for n in itertools.count(2))
        return next(other for other in itertools.chain([word], others) if other not in taken)

"""Imports one model whose open dimensions are symbols."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from typing_extensions import override

from glow_nb.base.errors import GlowError
from glow_nb.base.size import Symbol, at, symbols_in
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.size_text import read_size
from glow_nb.base.tokens import TokenStream
from glow_nb.base.types import Dimensions
from glow_nb.formats.onnx.importer.decided import word_of
from glow_nb.formats.onnx.importer.dimensions import Shapes, partly_bound, symbol_of
from glow_nb.formats.onnx.importer.graph import Outputs
from glow_nb.formats.onnx.importer.importer import Importer
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers
from glow_nb.formats.onnx.importer.ratio import whole_numbers
from glow_nb.formats.onnx.importer.registry import Rule
from glow_nb.hlir.graph import Value

_SUM = re.compile(r"\s*\w+(\s*[+*]\s*\w+)+\s*", re.ASCII)


class OpenImporter(Importer):
    """Imports one model whose open dimensions are symbols.

    Attributes:
        ranges: The ranges of sizes.
        examples: A size for the dimension at each place in its range, where no hint is given.
        equal: The sizes of dimensions, by name, that are no symbols of their own.
        symbols: The symbols by the names of dimensions.
        read: The operands of the node that was imported last.
    """

    ranges: SizeRanges
    examples: Callable[[int, int, int], int]
    equal: Mapping[str, int]
    symbols: dict[str, Symbol]
    read: Sequence[Value | None] = ()

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
        words, ranges = _words(every), ranges.with_example(known)
        # A size that was made a number keeps its place: the examples of others stay the same.
        places = {name: place for place, name in enumerate(dict.fromkeys(every))}
        self.symbols = {
            name: ranges.symbol(name, words[name], partial(self.examples, places[name]))
            for name in dict.fromkeys(names)
        }
        self.decided.reserve(words.values())
        self._sizes = self._sizes_of_names(words)
        self._known = known
        shapes = {name: self._opened(shape) for name, shape in known.items()}
        return {**shapes, **super()._input_shapes(unknown)} if unknown else shapes

    def shapes_for(self, sizes: Mapping[str, int]) -> Shapes:
        """Return the shapes of inputs for *sizes* by the words of symbols."""
        return {
            name: tuple(at(size, sizes) for size in self._opened(shape))
            for name, shape in self._known.items()
        }

    def _opened(self, shape: Dimensions) -> tuple[int, ...]:
        return tuple(self._sizes[n] if isinstance(n, str) else n for n in shape)

    def _sizes_of_names(self, words: Mapping[str, str]) -> dict[str, int]:
        """Return the size of each dimension by name: its symbol, or what it equals.

        What one equals was found in terms of those that were symbols at that time.
        """
        found: dict[str, int] = {name: symbol.size for name, symbol in self.symbols.items()}
        numbers = {name: n for name, n in self._shapes.items() if isinstance(n, int)}
        known = {**numbers, **found}
        by_word = {words[name]: size for name, size in known.items() if name in words}
        equal = {**self._named_sums(), **self.equal}
        for name in reversed(list(equal)):
            if name in self.symbols:
                found[name] = by_word[words[name]] = at(equal[name], by_word)
                del self.symbols[name]
        return found

    def _named_sums(self) -> dict[str, int]:
        """Return the sizes of dimensions that are called by sums or products of names of others.

        Exporters of decoders write ``past_sequence_length + sequence_length`` there.
        """
        found: dict[str, int] = {}
        for info in self.model.proto.graph.input:
            for axis, dimension in enumerate(info.type.tensor_type.shape.dim):
                name, text = symbol_of(info, axis), dimension.dim_param
                if name in self.symbols and _SUM.fullmatch(text):
                    reader = TokenStream(text, name)
                    reader.symbols = {n: s for n, s in self.symbols.items() if n.isidentifier()}
                    with suppress(GlowError):
                        found[name] = read_size(reader)
        return found

    @override
    def _ruled(self, rule: Rule, node: OnnxNode) -> Value | Outputs:
        self.read = node.inputs
        return super()._ruled(rule, node)

    @property
    def symbols_read(self) -> tuple[Symbol, ...]:
        """The symbols in the operands of the node that was imported last."""
        numbers = [whole_numbers(v.numbers) for v in self.read if isinstance(v, OpenNumbers)]
        return symbols_in([*numbers, *(value.type.shape for value in self.read if value)])


def _words(names: Sequence[str]) -> dict[str, str]:
    """Return a word for each of *names* that is like it and like no other one."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        word = word_of(name)
        others = (f"{word}_{n}" for n in itertools.count(2))
        found[name] = next(w for w in itertools.chain([word], others) if w not in taken)
        taken.add(found[name])
    return found

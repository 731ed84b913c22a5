"""Data-dependent sizes: counts that a run finds, and operands that it computes.

A model that needs none is imported without; see :func:`with_decided_sizes`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from glow_nb.base.errors import GlowError, ModelError, UnboundInput, UnsupportedError
from glow_nb.base.noted import keep, trial
from glow_nb.base.size import MAX_SIZE, RESERVED, Symbol, bounds, hinted, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.constants import Constants
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers
from glow_nb.formats.onnx.importer.same_values import SameValues
from glow_nb.formats.onnx.schema.counting import Count
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value

LONGEST_WORD = 64
"""The most characters that the name of a size keeps of that of a dimension or a tensor."""


def word_of(name: str) -> str:
    """Return a word like *name* that a size may be called by."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:LONGEST_WORD]
    word = word if word.isidentifier() else f"size_{word}"
    return f"{word}_size" if word in RESERVED else word


def _some(place: int, most: int) -> int:
    return min(48 * (2 * place + 1), (2 * most + 2) // 3)


def _all(place: int, most: int) -> int:
    return most if most <= LARGEST_EXAMPLE else _some(place, most)


LARGEST_EXAMPLE = 1 << 20

EXAMPLES = (_some, _all)
"""Sizes that are tried for the example, by the number of a decided size and the most that it is: a
part, which is like no other size as far as there is room, and all, which fits what is as long."""


class DecidedSizes:
    """The sizes that runs of one function decide.

    Attributes:
        example: The size of the example, for a number and the most that it is.
        are_wanted: Whether a rule has asked for one while the model was imported without.
        most: The greatest that some may be, by their numbers: what all of their uses allow.
        narrower: For sizes that a later use restricts further: by how much.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.are_wanted = False
        self.example = EXAMPLES[0]
        self.most: dict[int, int] = {}
        self.narrower: dict[int, int] = {}
        self._known: dict[Value, int] = {}
        self._elements: dict[tuple[Value, int], Value] = {}
        self._computed = SameValues()
        self._names: set[str] = set()

    def reserve(self, names: Iterable[str]) -> None:
        """Let no size be called one of *names*."""
        self._names.update(names)

    def has(self, size: int) -> bool:
        """Return whether a run decides something that *size* is computed of."""
        decided = self.symbols
        return any(symbol in decided for symbol in symbols_of(size))

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The data-dependent sizes."""
        return symbols_of(*self._known.values())

    def size_of(
        self,
        ctx: Constants,
        number: Value,
        low: int = 0,
        high: int = MAX_SIZE,
        hint: int | None = None,
    ) -> int:
        """Return the size that the *number* is, a tensor of one integer that a run computes.

        It is from *low* to *high*, which may be an open size; a run in which it is not ends with an
        error. A size of several uses has the range that the first one gives, unless :attr:`most`
        tells what others allow.
        """
        number = self._computed.representative(number)
        most = min(bounds(high)[1], MAX_SIZE)
        if number in self._known:
            place = list(self._known).index(number)
            if most < bounds(self._known[number])[1]:
                self.narrower[place] = min(most, self.narrower.get(place, most))
        else:
            most = min(most, self.most.get(len(self._known), most))
            chosen = self.example(len(self._known), hinted(high)) if hint is None else hint
            symbol = Symbol(self._name(ctx.stem), min(max(chosen, low), most), low, most)
            self._known[number] = self._decide(ctx, number, symbol)
        return self._known[number]

    def require(self, ctx: Constants, number: Value, wanted: int, what: str) -> None:
        """Let a run end with an error if the *number*, which it computes, is not *wanted*."""
        symbol = Symbol(self._name(f"{word_of(ctx.stem)}_{what}"), wanted, wanted, wanted)
        self._decide(ctx, number, symbol)

    def _decide(self, ctx: Constants, number: Value, symbol: Symbol) -> int:
        size: int = symbol.size
        ctx.emit(ops.DecideSize(ctx.reshape(ctx.convert(number, ElementKind.INT64), ()), size))
        return size

    def _name(self, stem: str) -> str:
        word = word_of(stem)
        others = (f"{word}_{number}" for number in itertools.count(2))
        name = next(n for n in itertools.chain([word], others) if n not in self._names)
        self._names.add(name)
        return name

    def elements_of(self, ctx: Constants, value: Value) -> tuple[int | Value, ...]:
        """Return the elements of a tensor of integers of rank 0 or 1.

        What is known now is a number, and what a run computes a value of one element.
        """
        if isinstance(value, OpenNumbers) and value.integers is not None:
            return value.integers
        if isinstance(value, Constant):
            return tuple(int(n) for n in value.array.reshape(-1))
        match value:
            case ops.Sizes(numbers=numbers):
                return numbers
            case ops.Concat(inputs=inputs):
                return tuple(e for one in inputs for e in self.elements_of(ctx, one))
            case ops.Reshape(input=x) if x.type.rank <= 1:
                return self.elements_of(ctx, x)
            case ops.ConvertTo(input=x) if x.type.kind.value in ("int32", "int64"):
                return self.elements_of(ctx, x)
        if value.type.size == 1:
            return (value,)
        return tuple(self.element(ctx, value, index) for index in range(value.type.size))

    def element(self, ctx: Constants, value: Value, index: int) -> Value:
        """Return one element of a vector that a run computes."""
        if (value, index) not in self._elements:
            self._elements[value, index] = ctx.part(value, 0, index, 1)
        return self._elements[value, index]


class Deciding(Protocol):
    """An importer that may make sizes data-dependent."""

    decides: bool
    decided: DecidedSizes
    counts: dict[Value, Count]


Importing = TypeVar("Importing", bound=Deciding)
T = TypeVar("T")


def with_decided_sizes(make: Callable[[], Importing], use: Callable[[Importing], T]) -> T:
    """Return what *use* returns of an importer that *make* makes.

    If the model can only be imported with data-dependent sizes, it is imported so.

    Raises:
        ModelError, UnsupportedError, OptionError, UnboundInput: As the import of any model.
    """
    importer = make()
    try:
        return use(importer)
    except (ModelError, UnsupportedError) as error:
        is_wanted = importer.decided.are_wanted
        if not is_wanted and not (importer.counts and isinstance(error, ModelError)):
            raise
        first = error
    wrong: GlowError | None = None
    most: dict[int, int] = {}
    examples = list(EXAMPLES)
    while examples:
        again = make()
        again.decides, again.decided.example, again.decided.most = True, examples[0], most
        with trial() as notes:
            try:
                found = use(again)
            except ModelError as error:
                wrong = error
                if again.decided.narrower:  # at most once for each use of a size
                    most |= again.decided.narrower
                    continue
                examples.pop(0)
                if any(again.decided.has(guard.left - guard.right) for guard in notes):
                    continue
                break
            except UnsupportedError as error:
                if isinstance(first, UnboundInput) and not isinstance(error, UnboundInput):
                    raise first from error
                raise
        if again.decided.narrower:
            most |= again.decided.narrower
            continue
        keep(notes)
        return found
    else:
        wrong = UnsupportedError(
            f"{wrong}; it may be right for some of the data-dependent sizes, which is not supported"
        )
    assert wrong is not None
    raise (first if isinstance(first, UnboundInput) else wrong)

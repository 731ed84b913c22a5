"""A user's settings for sizes that stay open: ranges, hints, and fixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from glow_nb.base.arguments import as_integer, described
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, listed
from glow_nb.base.size import MAX_SIZE, Symbol
from glow_nb.base.types import Dimensions

Range = tuple[int, int]
Dimension = int | str | Range | None
Sizes = Mapping[str, int | Range | Sequence[Dimension]]
"""What a user says of sizes, by the names of dimensions or of inputs."""


@dataclass(frozen=True)
class SizeRanges:
    """The settings for open sizes, by their names in the model.

    Attributes:
        ranges: The least and the greatest size; one that is fixed has both alike.
        shapes: For some inputs, each dimension: a size, a name, a range, or None for open.
        hints: Sizes of an example, for which the program is planned.
        example: The same, instead of hints.
        fed: Shapes of inputs by name that give the example.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Dimension, ...]] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)
    example: Mapping[str, int] = field(default_factory=dict)
    fed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: object, hints: object, fixed: Collection[str] = ()) -> SizeRanges:
        """Return what ``sizes=`` and ``hints=`` say; ``shapes=`` has *fixed* others.

        Raises:
            OptionError: They say nothing, or something of what is fixed.
        """
        ranges: dict[str, Range] = {}
        shapes: dict[str, tuple[Dimension, ...]] = {}
        for name, given in _items("sizes", sizes, "{'batch': (1, 8), 'length': (1, 512)}"):
            found = _range_of(given)
            if found is not None:
                ranges[name] = _checked(name, found)
            else:
                shapes[name] = _shape_of(name, given)
        found_hints = {
            name: _whole("hints", name, given)
            for name, given in _items("hints", hints, "{'length': 128}")
        }
        for name in (*ranges, *shapes, *found_hints):
            if name in fixed:
                raise OptionError(
                    f"sizes= and shapes= both speak of {name!r}; a size is open or fixed, so leave "
                    "it out of one"
                )
        return cls(ranges, shapes, found_hints)

    def planned_for(self, fed: Mapping[str, tuple[int, ...]]) -> SizeRanges:
        """Return the same with the shapes of inputs *fed* for the example, before hints."""
        return replace(self, fed=fed)

    def with_example(self, inputs: Mapping[str, Dimensions]) -> SizeRanges:
        """Return the same with the sizes that the shapes which are fed give to *inputs*."""
        example = {
            name: size
            for key, shape in inputs.items()
            for name, size in zip(shape, self.fed.get(key, ()), strict=False)
            if isinstance(name, str)
        }
        return replace(self, example=example)

    def symbols(self, symbols: Sequence[Symbol]) -> dict[Symbol, Symbol]:
        """Return the replacement of each of the *symbols* of a graph: narrower, with hints.

        Raises:
            OptionError: Something is said of another size, or its range leaves that of the graph.
        """
        self.require_known([symbol.name for symbol in symbols])
        if self.shapes:
            raise OptionError(
                f"sizes={{{next(iter(self.shapes))!r}: ...}}: the sizes of a graph have names; "
                f"give ranges for {listed([symbol.name for symbol in symbols])}"
            )
        return {symbol: self._narrowed(symbol) for symbol in symbols}

    def _narrowed(self, symbol: Symbol) -> Symbol:
        low, high = self.ranges.get(symbol.name, (symbol.low, symbol.high))
        if not symbol.low <= low <= high <= symbol.high:
            raise OptionError(
                f"sizes={{{symbol.name!r}: {(low, high)}}}: it leaves the range of the graph, "
                f"{symbol.low}..{symbol.high}"
            )
        given = self.example.get(symbol.name) or self.hints.get(symbol.name)
        hint = min(max(symbol.hint, low), high) if given is None else given
        return Symbol(symbol.name, hint, low, high)

    def symbol(self, name: str, word: str, example: Callable[[int, int], int]) -> Symbol:
        """Return the symbol *word* of the size called *name*.

        By default it is like *example* of its range. A size that nothing is said of may be 0 if it
        is so in what is fed, which is no example to plan for.
        """
        low, high = self.ranges.get(name, (1, MAX_SIZE))
        hint = self.example.get(name) or self.hints.get(name)
        if self.example.get(name) == 0 and name not in self.ranges:
            return Symbol(word, example(low, high) if hint is None else hint, 0, high)
        if hint is not None:
            _require_inside(name, hint, (low, high))
        return Symbol(word, example(low, high) if hint is None else hint, low, high)

    def declared(
        self, signature: Mapping[str, Dimensions | None]
    ) -> tuple[dict[str, Dimensions | None], SizeRanges]:
        """Return the *signature* of a model with the shapes that are given, and all ranges.

        Raises:
            OptionError: A shape is that of no input, or does not fit what the model declares.
        """
        shapes: dict[str, Dimensions | None] = dict(signature)
        ranges = dict(self.ranges)
        self._require_meant(signature)
        for name, given in self.shapes.items():
            own = signature[name]
            if own is not None and len(own) != len(given):
                raise OptionError(
                    f"sizes={{{name!r}: ...}}: {len(given)} dimensions, and the input has "
                    f"{len(own)}, {list(own)}"
                )
            places = tuple(f"{name}[{axis}]" for axis in range(len(given)))
            made: list[int | str] = []
            for each, known, place in zip(given, own or places, places, strict=True):
                _check_dimension(name, each, known, place)
                found = _range_of(each) if isinstance(known, str) else None
                if found is not None and ranges.setdefault(str(known), found) != found:
                    raise OptionError(
                        f"sizes=: the size {known!r} is in {ranges[str(known)]} and, by what "
                        f"{name!r} is, in {found}; give one range"
                    )
                made.append(each if isinstance(each, str) else known)
            shapes[name] = tuple(made)
        for name, hint in self.hints.items():
            if name in ranges:
                _require_inside(name, hint, ranges[name])
        return self._with_fixed(shapes, ranges)

    def _require_meant(self, signature: Mapping[str, Dimensions | None]) -> None:
        """Raise OptionError for a range of an input, or a shape of what is none."""
        sizes = (size for shape in signature.values() for size in shape or ())
        dimensions = list(dict.fromkeys(size for size in sizes if isinstance(size, str)))
        for name, ends in self.ranges.items():
            if name in signature and name not in dimensions:
                raise OptionError(
                    f"sizes={{{name!r}: {ends}}}: it is an input and no dimension; give its shape "
                    f"as a list such as [4, None], or ranges of {listed(dimensions) or 'none'}"
                )
        for name, given in self.shapes.items():
            if name not in signature and name in dimensions:
                raise OptionError(
                    f"sizes={{{name!r}: {list(given)}}}: it is a dimension; give its least and its "
                    "greatest size as a tuple, (1, 8), or one number"
                )
            if name not in signature:
                raise OptionError(
                    f"sizes={{{name!r}: ...}}: the model has no input of this name"
                    f"{closest(name, signature)}; it has {listed(signature)}"
                )

    def require_fixed(self, signature: Mapping[str, Dimensions]) -> None:
        """Raise OptionError if there are settings that a model of fixed sizes does not have."""
        self.declared(signature)
        self.require_known([])

    def _with_fixed(
        self, shapes: Mapping[str, Dimensions | None], ranges: dict[str, Range]
    ) -> tuple[dict[str, Dimensions | None], SizeRanges]:
        """Replace names whose range is one size by that number."""
        fixed = {name: low for name, (low, high) in ranges.items() if low == high}
        numbered = {
            name: shape and tuple(fixed.get(n, n) if isinstance(n, str) else n for n in shape)
            for name, shape in shapes.items()
        }
        return numbered, replace(self, ranges=ranges, shapes={})

    def require_known(self, names: Sequence[str]) -> None:
        """Raise OptionError if there is a setting for a size that is not among *names*."""
        for argument, given in (("sizes", self.ranges), ("hints", self.hints)):
            for name in given:
                if name not in names:
                    raise OptionError(
                        f"{argument}={{{name!r}: ...}}: the model has no open size of this name"
                        f"{closest(name, names)}; it has {listed(names) or 'none'}"
                    )


def described_ranges(symbols: Sequence[Symbol]) -> str:
    """Return for which sizes a program with these *symbols* is: ``any batch, length in 1..512``."""
    return ", ".join(map(_described, symbols)) or "fixed sizes"


def _described(symbol: Symbol) -> str:
    if symbol.high < MAX_SIZE:
        return f"{symbol.name} in {symbol.low}..{symbol.high}"
    return f"any {symbol.name}" if symbol.low == 1 else f"{symbol.name} >= {symbol.low}"


def _require_inside(name: str, hint: int, range: Range) -> None:
    """Raise OptionError unless the *hint* for the size called *name* is in its *range*."""
    low, high = range
    if not low <= hint <= high:
        raise OptionError(
            f"hints={{{name!r}: {hint}}}: it is outside the range {low}..{high} of this "
            "size; give one inside of it"
        )


def _check_dimension(name: str, given: Dimension, known: int | str, place: str) -> None:
    """Raise OptionError unless a dimension, *known* to the model so, may be what is *given*."""
    if isinstance(known, int) and given != known:
        what = "an open size (None)" if given is None else repr(given)
        raise OptionError(
            f"sizes={{{name!r}: ...}}: the model says {known} where {what} is given, at {place}; "
            f"give {known}, or export the model with an open size there"
        )
    if isinstance(known, str) and isinstance(given, str) and given != known != place:
        raise OptionError(
            f"sizes={{{name!r}: ...}}: the model says {known!r} where {given!r} is given, at "
            f"{place}; give {known!r}, or None"
        )


def _items(argument: str, given: object, like: str) -> list[tuple[str, object]]:
    if given is None:
        return []
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise OptionError(f"{argument}={described(given)}: give a dict such as {like}")
    return list(given.items())


def _range_of(given: object) -> Range | None:
    """Return the range that *given* is: a number, or two of them; None if it is a shape."""
    number = as_integer(given)
    if number is not None:
        return number, number
    if isinstance(given, tuple) and len(given) == 2:
        ends = [as_integer(end) for end in given]
        if ends[0] is not None and ends[1] is not None:
            return ends[0], ends[1]
    return None


def _checked(name: str, range: Range) -> Range:
    low, high = range
    if not 0 <= low <= high <= MAX_SIZE:
        raise OptionError(
            f"sizes={{{name!r}: {range}}}: the range holds no size; give a least size of 0 or more "
            f"and a greatest one that is not below it, up to {MAX_SIZE}"
        )
    return low, high


def _shape_of(name: str, given: object) -> tuple[Dimension, ...]:
    if not isinstance(given, list | tuple):
        raise OptionError(
            f"sizes={{{name!r}: {described(given)}}}: give the least and the greatest size, "
            "(1, 8), a number, or for an input a tuple such as (1, 3, None, None)"
        )
    dimensions: list[Dimension] = []
    for each in given:
        found = _range_of(each)
        if each is None or isinstance(each, str):
            dimensions.append(each)
        elif found is not None:
            low, high = _checked(name, found)
            dimensions.append(low if low == high else (low, high))
        else:
            raise OptionError(
                f"sizes={{{name!r}: ...}}: {described(each)} is no dimension; give a size, a name, "
                "a range such as (1, 8), or None"
            )
    return tuple(dimensions)


def _whole(argument: str, name: str, given: object) -> int:
    number = as_integer(given)
    if number is None or number < 0:
        raise OptionError(f"{argument}={{{name!r}: {described(given)}}}: give a size of 0 or more")
    return number

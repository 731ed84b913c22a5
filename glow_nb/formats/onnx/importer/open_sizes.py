"""A model imported with its open sizes as symbols, those alone made numbers that have to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from glow_nb.base.errors import GlowError, ModelError, UnsupportedError
from glow_nb.base.noted import keep, trial
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.base.size import Guard, Size, Symbol, example, hinted, symbols_of
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.solved_guards import range_where, solved
from glow_nb.base.specialized import Specialized
from glow_nb.base.symbol import fitted
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.dimensions import Shapes
from glow_nb.formats.onnx.importer.importer import Importer
from glow_nb.formats.onnx.importer.model import Model
from glow_nb.formats.onnx.importer.open_importer import OpenImporter
from glow_nb.hlir.graph import Function
from glow_nb.hlir.with_sizes import with_symbols

EXAMPLES: tuple[Callable[[int, int, int], int], ...] = (
    example,
    lambda place, low, high: fitted(8 * example(place), low, high),
    lambda _, low, high: fitted(7 * example(0), low, high),
    lambda place, low, high: fitted(place + 2, low, high),
)
"""Sizes that are tried for examples, by the place of a dimension and its range: usual ones that all
differ, large ones that can be halved eight times, one size for all, which models take that end in a
layer of fixed width, and small ones, for tables of few rows."""


def import_open(
    model: Model,
    shapes: Shapes,
    constants: Mapping[str, Array],
    ranges: SizeRanges | None = None,
    watched: Sequence[str] = (),
) -> tuple[Function, list[Specialized]]:
    """Return *model* with the sizes that *shapes* leaves open as symbols; and those that are none.

    The symbols have the *ranges* and hints that are given. Where a rule needs a number, the sizes
    in question become those of their examples. Dimensions of different names that the model takes
    for the same become the same, and a range becomes as narrow as the model needs it. The values
    called *watched* become outputs, too.

    Raises:
        ModelError, UnsupportedError, OptionError, UnboundInput: As the import of any model.
    """
    given = ranges or SizeRanges()
    first: tuple[Function, list[Specialized]] | None = None
    refused: list[tuple[_Search, ModelError]] = []
    for examples in EXAMPLES:
        search = _Search(model, shapes, constants, given, examples, watched)
        try:
            found = search.function(), search.specialized
        except ModelError as error:
            is_told = first is not None or bool(refused)
            if type(error) is not ModelError or not (search.has_compared or is_told):
                raise
            refused.append((search, error))
        else:
            if not search.specialized and (first is None or not found[0].guards):
                return found
            first = first or found
    if first is None:
        raise _with_advice(*refused[0])
    return first


def _with_advice(search: _Search, error: ModelError) -> ModelError:
    """Return the *error* with the sizes that it is about, which may fit no example of ours."""
    if not search.hints:  # only data-dependent sizes, for which there are no hints
        return error
    tried = ", ".join(f"{name} = {hint}" for name, hint in search.hints.items())
    advised = ModelError(
        f"{error} (with {tried}, as examples of sizes; if the model takes others, give them by "
        "hints={'name': size})"
    )
    advised.__cause__ = error
    return advised


class _Search:
    """Looks for what of the open sizes of a model is open indeed.

    Attributes:
        specialized: The sizes that had to be made numbers.
        has_compared: Whether an error may be due to the sizes of the examples.
        hints: The sizes of the example, by the names of dimensions.
    """

    def __init__(
        self,
        model: Model,
        shapes: Shapes,
        constants: Mapping[str, Array],
        ranges: SizeRanges,
        examples: Callable[[int, int, int], int],
        watched: Sequence[str],
    ) -> None:
        """Look at *model*, whose open sizes have *ranges*, and *examples* by their place."""
        self._watched = watched
        self._model, self._shapes, self._constants = model, shapes, constants
        self._ranges, self._examples = ranges, examples
        self.specialized: list[Specialized] = []
        self._equal: dict[str, int] = {}
        self._decides = False
        self._most: dict[int, int] = {}  # of data-dependent sizes, what all of their uses allow
        self.has_compared = False
        self.hints: dict[str, int] = {}

    def function(self) -> Function:
        """Return the model as a function with open sizes."""
        while True:
            fixed = {each.name: each.size for each in self.specialized}
            shapes = {**self._shapes, **fixed}
            importer = OpenImporter(self._model, shapes, self._constants, self._watched)
            importer.ranges, importer.examples = self._ranges, self._examples
            importer.equal, importer.decides = self._equal, self._decides
            importer.decided.most = self._most
            with trial() as notes:
                try:
                    function = importer.function()
                except OpenSizeError as error:
                    names = {symbol: name for name, symbol in importer.symbols.items()}
                    open_ones = symbols_of(error.size)
                    needed = " and ".join(names.get(one, one.name) for one in open_ones)
                    reason = f"{importer.place}: it needs a number for {needed}"
                    self._specialize(importer, {s: s.hint for s in open_ones}, reason)
                    continue
                except UnsupportedError:
                    if self._decides or not importer.decided.are_wanted:
                        raise
                    self._decides = True
                    continue
                except ModelError as error:
                    if self._is_narrowed(importer):
                        continue
                    self.has_compared = bool(notes)
                    self.hints = {name: one.hint for name, one in importer.symbols.items()}
                    if type(error) is not ModelError or not (
                        self._equate(importer, notes, error) or self._give_up(importer, error)
                    ):
                        raise
                    continue
            if not self._is_narrowed(importer) and not self._equate_all(importer, notes):
                keep(notes)
                return self._narrowed(importer, function)

    def _is_narrowed(self, importer: OpenImporter) -> bool:
        """Note what later uses of decided sizes allow; return whether that is less than before."""
        self._most |= importer.decided.narrower
        return bool(importer.decided.narrower)

    def _specialize(
        self, importer: OpenImporter, numbers: Mapping[Symbol, int], reason: str
    ) -> None:
        names = {symbol: name for name, symbol in importer.symbols.items()}
        if not numbers.keys() <= names.keys():
            raise UnsupportedError(f"{reason}, and that is data-dependent")
        self.specialized += [
            Specialized(names[symbol], number, reason) for symbol, number in numbers.items()
        ]

    def _equate(
        self, importer: OpenImporter, notes: Mapping[Guard, object], error: ModelError
    ) -> bool:
        """Make the two sizes equal that were found different last; return whether there are some.

        An axis may have another name in each input, or the name of a sum in one.
        """
        differing = [guard for guard in notes if guard.relation == "!="]
        return bool(differing) and self._solve(importer, differing[-1], str(error))

    def _equate_all(self, importer: OpenImporter, notes: Mapping[Guard, object]) -> bool:
        """Make sizes equal that are so for the example, and that the model refuses if they are not.

        Return whether there were some.
        """
        hints = {symbol.name: symbol.hint for symbol in importer.symbols.values()}
        for guard in notes:
            found = solved(guard.left, guard.right, tuple(importer.symbols.values()))
            if guard.relation != "==" or found is None:
                continue
            (symbol, _), step = found, 1 if found[0].hint < found[0].high else -1
            if self._refuses(importer, {**hints, symbol.name: symbol.hint + step}):
                return self._solve(importer, guard, f"{self._model.place}: only so {guard}")
        return False

    def _solve(self, importer: OpenImporter, guard: Guard, reason: str) -> bool:
        """Make both sides of *guard* the same; return whether that is possible."""
        left, right = guard.left, guard.right
        for side in (left, right):
            if isinstance(side, Size) and hinted(side) == 1:  # which is to be repeated
                left, right = side, 1
        found = solved(left, right, tuple(importer.symbols.values()))
        if found is None:
            return False
        symbol, size = found
        if isinstance(size, Size):
            names = {symbol: name for name, symbol in importer.symbols.items()}
            self._equal[names[symbol]] = size
        else:
            self._specialize(importer, {symbol: size}, reason)
        return True

    def _give_up(self, importer: OpenImporter, error: ModelError) -> bool:
        """Make numbers of the sizes that the last node reads, if the model is right with these."""
        hints = {symbol.name: symbol.hint for symbol in importer.symbols.values()}
        symbols = importer.symbols_read or tuple(importer.symbols.values())
        if not symbols or self._refuses(importer, hints):
            return False
        self._specialize(importer, {symbol: symbol.hint for symbol in symbols}, str(error))
        return True

    def _narrowed(self, importer: OpenImporter, function: Function) -> Function:
        """Return *function* with ranges that leave out sizes which the model refuses."""
        narrowed: dict[Symbol, Symbol] = {}
        hints = {symbol.name: symbol.hint for symbol in importer.symbols.values()}
        for symbol in importer.symbols.values():
            low, high = range_where(symbol, function.guards)
            if low > symbol.low and not self._refuses(importer, {**hints, symbol.name: low - 1}):
                low = symbol.low
            if high < symbol.high and not self._refuses(importer, {**hints, symbol.name: high + 1}):
                high = symbol.high
            if (low, high) != symbol.bounds:
                narrowed[symbol] = Symbol(symbol.name, symbol.hint, low, high)
        return with_symbols(function, narrowed) if narrowed else function

    def _refuses(self, importer: OpenImporter, sizes: Mapping[str, int]) -> bool:
        """Return whether the model cannot be imported for *sizes* by the words of symbols."""
        shapes = importer.shapes_for(sizes)
        try:
            tried = Importer(self._model, shapes, self._constants)
            tried.decides, tried.decided.most = self._decides, self._most
            tried.function()
        except GlowError:
            return True
        return False

"""The programs with open sizes of one network: each is right for all sizes where its guards hold.

Nearly always there is one. A comparison that a model, a pass or a kernel has answered by the sizes
of the example makes the program one of these sizes alone; for others one more is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from glow_nb.base.errors import CompileError, FeedError, GlowError, MemoryLimitError, ModelError
from glow_nb.base.fitting_sizes import nearest_fits
from glow_nb.base.log import INFO, log
from glow_nb.base.size import Guard
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.specialized import Specialized
from glow_nb.base.types import Array, SymbolicType
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.sized_model import CompileOpen, Example, KeptSizes, SizedModel
from glow_nb.network.variants import VariantCache
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.codegen.loaded_program import DirectRun

Shapes = tuple[tuple[int, ...], ...]

MOST_PROGRAMS = 8
"""Programs with open sizes of one network. Beyond them sizes get programs of their own."""


class GeneralPrograms:
    """Programs with open sizes, compiled when sizes come for which none is right.

    Attributes:
        is_asked: Whether one program is asked for.
        networks: The programs, the first one first.
        specialized: The sizes of the model that had to be made numbers, and why.
        compile_open: Compiles one more.
    """

    def __init__(
        self,
        model: SizedModel,
        compile_open: CompileOpen,
        cache: VariantCache[Any, CompiledNetwork],
        kept: KeptSizes | None = None,
        *,
        state: StateStore,
        is_asked: bool = True,
    ) -> None:
        """Compile *model* by *compile_open*, in turn with what is made in *cache*.

        What is *kept* need not be compiled. Programs run on *state*.

        Unless one program *is asked* for, whatever it cannot run is left to programs of fixed
        sizes: all sizes, if it cannot be compiled at all.
        """
        self._model, self.compile_open, self._kept = model, compile_open, kept
        self._cache, self._state, self.is_asked = cache, state, is_asked
        self._fixed: dict[Shapes, CompiledNetwork] = {}
        self._hot: tuple[int, Callable[[Shapes], None]] | None = None
        self._examples: list[Example | None] = []
        self._refuses_empty = False
        self.networks: tuple[CompiledNetwork, ...] = ()
        self.specialized: tuple[Specialized, ...] = ()
        if kept is not None and not is_asked:
            self.specialized = kept.find_refusal()

    @property
    def first(self) -> CompiledNetwork | None:
        """The program that was compiled first, if one was."""
        return next(iter(self.networks), None)

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise FeedError unless *shapes* of inputs by name give sizes in ranges that are asked."""
        if self.is_asked and self.first is not None:
            border = self.first.border
            sizes_of_shapes(border.inputs, border.symbols, shapes)

    @property
    def direct(self) -> DirectRun | None:
        """The fast path of a run, which knows the sizes that came before."""
        found = [one.direct_run for one in self.networks if one.direct_run is not None]
        return partial(_first_found, found) if len(found) > 1 else next(iter(found), None)

    def notify_hot(self, after: int, notice: Callable[[Shapes], None]) -> None:
        """Let *notice* be called with the shapes of inputs that this number of runs had."""
        self._hot = after, notice
        for one in self.networks:
            self._notify(one)

    def _notify(self, network: CompiledNetwork) -> None:
        if self._hot is not None and hasattr(network.executable, "notify_hot"):
            network.executable.notify_hot(*self._hot)

    def take_over(self, shapes: Shapes, network: CompiledNetwork, most: int) -> None:
        """Let *network* do the runs of inputs of *shapes*, in the order of the inputs.

        So do *most* networks at a time: those that came last.
        """
        self._fixed.pop(shapes, None)
        self._fixed[shapes] = network
        for old in list(self._fixed)[:-most]:
            del self._fixed[old]
        for one in self.networks:
            _hand_over(one, shapes, network, most)

    def network_for(
        self, feeds: Mapping[str, Array], types: Mapping[str, SymbolicType]
    ) -> tuple[CompiledNetwork | None, GlowError | None]:
        """Return a network that is right for the sizes of *feeds*, inputs of these *types*.

        None if none is, and there are too many, or all inputs are empty, or none can be compiled;
        then with the error, where that is due to the model.
        """
        if self.is_asked and self.first is not None:
            check_specialized(self.specialized, types, feeds)
            self.first.sizes_of(feeds)  # which are in their ranges
        found = self._known(feeds)
        is_empty = [array.size == 0 for array in feeds.values()]
        if found is not None or (any(is_empty) and all(is_empty)):  # which leave nothing to do
            return found, None
        if any(is_empty):
            return self._for_some_empty(feeds), None
        try:
            return self._compiled({n: array.shape for n, array in feeds.items()}, feeds), None
        except GlowError as error:
            if self.is_asked:
                self._refuse_sizes(feeds, error)
                raise
            return None, None if self._is_passing(error) else error

    def _for_some_empty(self, feeds: Mapping[str, Array]) -> CompiledNetwork | None:
        """Return a new program for *feeds*, some of them empty, as caches of a decoder begin.

        Its sizes that are 0 now may be any. None if there is none: then it is tried no more.
        """
        if self.is_asked or self._refuses_empty:
            return None
        shapes = {name: array.shape for name, array in feeds.items()}
        try:
            self._model.bind(shapes)  # a graph may say that sizes are 1 or more
            found = self._compiled(shapes, feeds)
        except GlowError as error:
            self._refuses_empty = not self._is_passing(error)
            return None
        self._refuses_empty = found is None
        return found

    def _is_passing(self, error: GlowError) -> bool:
        """Return whether the *error* of a compilation says nothing of the model."""
        return isinstance(error, MemoryLimitError) or self._cache.is_making()

    def _refuse_sizes(self, feeds: Mapping[str, Array], error: GlowError) -> None:
        """Raise FeedError if the *error* is that the model does not take the sizes of *feeds*."""
        if self.first is None or not isinstance(error, ModelError):
            return
        sizes = self.first.sizes_of(feeds)
        broken = broken_guards(self.first, sizes)
        if broken:
            given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise FeedError(
                f"sizes {given}: the program holds only where {', '.join(map(str, broken))}; feed "
                f"arrays of such sizes{nearest_fits(self.first.guards, sizes)}; no program can be "
                f"made for these: {error.__cause__ or error}"
            ) from error

    def _compiled(self, shapes: Example, feeds: Mapping[str, Array]) -> CompiledNetwork | None:
        """Return a new program for *feeds* of these *shapes*; None if there are too many."""
        while len(self.networks) < MOST_PROGRAMS and not self._is_refused:
            number = len(self.networks)
            made = self._one_more(number, shapes)
            if _is_right(made, feeds):
                return made
            if self._examples[number] == shapes:  # else another thread was faster
                raise GlowError(
                    f"network {made.name!r}: it was compiled for {dict(shapes)} and does not hold "
                    "for them; this is a defect of the compiler"
                )
        return None

    def compile_first(self) -> None:
        """Compile the first program, planned for hints and guesses."""
        self._one_more(0, {})

    def _one_more(self, number: int, example: Example) -> CompiledNetwork:
        """Return the program of this *number*.

        It is planned for *example* unless it was kept, or another thread made it.
        """
        return self._cache.get(number, partial(self._made, number, example), is_kept=True)

    def _made(self, number: int, example: Example) -> CompiledNetwork:
        kept = self._kept
        found = kept.find_general(number, self._state, self.compile_open) if kept else None
        if found is not None:
            self.take(*found)
            return found[0]
        if self.first is not None:
            name, fed = self.first.name, dict(example)
            log(INFO, "network %r: inputs of shapes %s get one more program", name, fed)
        made, specialized = self.compile_open(example)
        self.take(made, specialized, example)
        if kept is not None:
            kept.keep_general(number, made, specialized, self._model)
        return made

    def take(
        self,
        network: CompiledNetwork,
        specialized: Iterable[Specialized],
        example: Example | None = None,
    ) -> None:
        """Run by *network*, too, where those before it are not right.

        It is planned for *example*, if that is known.
        """
        self._notify(network)
        for shapes, fixed in list(self._fixed.items()):
            _hand_over(network, shapes, fixed, len(self._fixed))
        self._examples.append(example)
        self.networks = (*self.networks, network)  # first: sizes without one are a refusal
        self.specialized = tuple(dict.fromkeys((*self.specialized, *specialized)))

    @property
    def _is_refused(self) -> bool:
        """Return whether no program with open sizes can be compiled."""
        return not self.networks and bool(self.specialized)

    def served_otherwise(
        self, error: GlowError, feeds: Mapping[str, Array], types: Mapping[str, SymbolicType]
    ) -> None:
        """Note that a program of fixed sizes runs *feeds*, of *types*, for which *error* came."""
        if self.networks:
            return
        log(INFO, "no program for all sizes, each set of them is compiled: %s", error)
        self.specialized = _sizes_that_are_numbers(types, feeds, error)
        if self._kept is not None and not isinstance(error, CompileError):  # a compiler was killed
            self._kept.keep_refusal(self.specialized)

    def _known(self, feeds: Mapping[str, Array]) -> CompiledNetwork | None:
        return next((one for one in self.networks if _is_right(one, feeds)), None)


def _first_found(direct: Iterable[DirectRun], feeds: object) -> dict[str, Array] | None:
    """Return what the first of *direct* returns that knows the sizes of *feeds*."""
    return next((found for run in direct if (found := run(feeds)) is not None), None)


def _hand_over(
    general: CompiledNetwork, shapes: Shapes, network: CompiledNetwork, most: int
) -> None:
    """Let *network* do the runs of *general* for inputs of *shapes*."""
    if hasattr(general.executable, "take_over") and network.direct_run is not None:
        general.executable.take_over(shapes, network.direct_run, most)


def _is_right(network: CompiledNetwork, feeds: Mapping[str, Array]) -> bool:
    """Return whether *network* holds for the sizes of *feeds*."""
    try:
        sizes = network.sizes_of(feeds)
    except FeedError:  # a size that it has as a number, or that is out of a range
        return False
    if not sizes:
        return all(type.shape == feeds[name].shape for name, type in network.inputs.items())
    return not broken_guards(network, sizes)


def _sizes_that_are_numbers(
    types: Mapping[str, SymbolicType], feeds: Mapping[str, Array], error: GlowError
) -> tuple[Specialized, ...]:
    """Return all open sizes of inputs of *types*, with numbers from *feeds*, due to *error*."""
    found = {
        str(name): size
        for input, type in types.items()
        for name, size in zip(type.shape or (), feeds[input].shape, strict=False)
        if isinstance(name, str)
    }
    return tuple(Specialized(name, size, str(error)) for name, size in found.items())


def check_specialized(
    specialized: Iterable[Specialized],
    types: Mapping[str, SymbolicType],
    feeds: Mapping[str, Array],
) -> None:
    """Raise FeedError where *feeds* have another size than one that was made a number."""
    made = {each.name: each for each in specialized}
    for name, type in types.items() if made else ():
        for size, number in zip(type.shape or (), feeds[name].shape, strict=False):
            one = made.get(size) if isinstance(size, str) else None
            if one is not None and number != one.size:
                raise FeedError(
                    f"size {size!r}: input {name!r} says {number}, and the program has {one.size} "
                    f"as a number ({one.reason}); feed that, give another by hints=, or leave "
                    "sizes= out"
                )


def broken_guards(network: CompiledNetwork, sizes: Mapping[str, int]) -> list[Guard]:
    """Return the comparisons that *network* was compiled for, and that do not hold for *sizes*."""
    return [guard for guard in network.guards if not guard.holds(sizes)]

"""A network with open sizes: one program for all sizes, or one for each set of sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Never

from glow_nb.base.arguments import Shapes, as_array, as_shapes
from glow_nb.base.errors import GlowError, OptionError, UnboundInput, UnsupportedError
from glow_nb.base.feeds import Feeds, check_open_feeds, gathered, name_feeds
from glow_nb.base.override import override
from glow_nb.base.types import Array
from glow_nb.network.dynamic_views import DynamicViews, InputShapes, SizesKey
from glow_nb.network.general import GeneralPrograms
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.request import MAX_VARIANTS
from glow_nb.network.runner import BoundRun
from glow_nb.network.size_advice import SizeAdvice
from glow_nb.network.sized_model import (
    CompileFor,
    CompileOpen,
    KeptSizes,
    SizedModel,
    describe_sizes,
)
from glow_nb.network.variants import VariantCache
from glow_nb.system.background import Background, done_now
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.codegen.loaded_program import DirectRun
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.network.profile import Profile
    from glow_nb.network.saved.signature import Signature

MOST_FIXED = 1024
"""Elements of an array whose numbers a network may be compiled for."""


class DynamicNetwork(DynamicViews):
    """A network with open sizes, as :func:`glow_nb.compile` returns it.

    One program runs for all sizes. It is compiled at the first run, and planned for the sizes of
    that run; with ``sizes=`` or ``hints=``, it is compiled before. Sizes for which the program is
    not valid get programs of their own at their first run, or earlier by :meth:`prepare`: one for
    each set of sizes, of which ``max_variants`` are kept; the least recently used ones are dropped
    first. :attr:`specialized` gives the reason.

    With ``sizes="each"``, and if no program for all sizes can be compiled, all sets of sizes get
    programs of their own. A ``GlowWarning`` is then emitted once for the fourth set of sizes, and
    once for a set that was dropped and is fed again. While some sizes are being compiled, runs of
    all others continue; threads that
    feed the same new sizes wait for one compilation.

    ``program``, ``function``, ``memory``, ``kernels`` and ``source`` refer to the sizes that were
    prepared or compiled last, otherwise to the program for all sizes. :attr:`variants` has all
    networks.

    Attributes:
        general: The programs for all sizes; None with ``sizes="each"``.
    """

    def __init__(
        self,
        model: SizedModel,
        compile_for: CompileFor,
        compile_open: CompileOpen | None = None,
        *,
        is_asked: bool = False,
        specialize_after: int | None = None,
        pipeline: Callable[[], Pipeline],
        max_variants: int = MAX_VARIANTS,
        threads: int = 1,
        in_turn: bool = False,
        kept: KeptSizes | None = None,
        state: StateStore | None = None,
    ) -> None:
        """Take the model, and the function that compiles it for the shapes of all inputs.

        That function also takes arrays, which are constants instead of defaults; it compiles by
        *pipeline* for *threads* threads, to run on *state* if there is one. Programs that are
        *kept* need not be compiled.

        *compile_open* compiles it for all sizes. If that fails, an error is raised if it *is asked*
        for; otherwise there are programs of single sizes. A program of single sizes is also
        compiled in the background after *specialize_after* runs with them.

        If *in_turn*, one set of sizes is compiled after the other, unless a pass or an observer
        asks for another one meanwhile.
        """
        self._model, self._compile_for, self._kept = model, compile_for, kept
        self._state = StateStore() if state is None else state
        self._fixed: set[str] = set()  # inputs with a default whose numbers shapes depend on
        self._variants: VariantCache[SizesKey | int, CompiledNetwork] = VariantCache(
            max_variants, in_turn=in_turn
        )
        self._threads, self._max_variants = threads, max_variants
        self._pipeline = pipeline
        self._background = Background()
        self._advice = SizeAdvice(max_variants)
        self.general = (
            GeneralPrograms(
                model, compile_open, self._variants, kept, state=self._state, is_asked=is_asked
            )
            if compile_open is not None
            else None
        )
        self._direct: DirectRun | None = None
        if self.general is not None and specialize_after is not None:
            self.general.notify_hot(specialize_after, self._specialize)

    def compile_now(self) -> None:
        """Compile the program for all sizes, if it is requested, before the first sizes are
        known.
        """
        if self.general is not None and self.general.is_asked:
            self.compile_first()

    def compile_first(self) -> None:
        """Compile the program for all sizes, planned for hints and guesses."""
        assert self.general is not None
        self.general.compile_first()
        self._direct = self.general.direct

    def _specialize(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Compile the network for inputs of *shapes* in the background."""
        key = tuple(zip(self._model.inputs, shapes, strict=True))
        with suppress(GlowError):  # the program is ending, and the general program goes on
            self._background.submit(partial(self._variant, key))

    @override
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the programs that are compiled now, for all sizes and for single ones.

        The network that ``glow_nb.load_compiled(folder)`` returns runs with the sizes for which one
        of the programs is valid. Programs for feeds instead of defaults are left out.

        Raises:
            OptionError: The folder holds something else.
            UnsupportedError: The network is not machine code.
            GlowError: Nothing is compiled yet, or a file cannot be written.
            StateError: A run is in progress.
        """
        from glow_nb.network.saved.saving import save_networks

        signature, programs = self.programs()
        save_networks(folder, programs, self.state, signature)

    @property
    def opened(self) -> tuple[SizedModel, CompileFor, CompileOpen]:
        """The model, and the functions that compile it for some sizes, and for all."""
        assert self.general is not None
        return self._model, self._compile_for, self.general.compile_open

    def take_programs(self, signature: Signature, programs: Sequence[CompiledNetwork]) -> None:
        """Run by *programs* as :meth:`programs` returned them, with their *signature*."""
        for one in programs[: signature.general]:
            assert self.general is not None
            self.general.take(one, signature.specialized)
            self._direct = self.general.direct
        for one in programs[signature.general :]:
            self.take(one)

    @override
    def programs(self) -> tuple[Signature, list[CompiledNetwork]]:
        """Return the programs that are compiled now, those for all sizes first, and their
        signature.

        Programs for feeds instead of defaults are left out.

        Raises:
            GlowError: Nothing is compiled yet.
        """
        from glow_nb.network.saved.signature import Signature

        general = self.general.networks if self.general else ()
        ready = self._variants.ready().items()
        own = [
            one
            for key, one in ready
            if not isinstance(key, int) and not key[1] and len(key[0]) == len(self.inputs)
        ]
        if not general and not own:
            raise self._not_compiled("programs")
        is_asked = self.general is not None and self.general.is_asked
        signature = Signature.of(self._model, self.specialized, len(general), is_asked=is_asked)
        return signature, [*general, *own]

    @property
    @override
    def of_one_program(self) -> Network:
        """The first program for all sizes; it is compiled now if there was no run yet."""
        if self.general is None:
            raise UnsupportedError(
                f"the network leaves sizes open ({self._open_sizes()}), and has no program for all "
                "of them; compile it for one, sizes={}, or for some sizes, shapes={'batch': 1}"
            )
        if self.general.first is None:
            self.compile_first()
        self._direct = self.general.direct
        return self.general.networks[0].of_one_program

    @override
    def run(
        self,
        inputs: Feeds | None = None,
        *more: Never,
        outputs: Collection[str] | None = None,
        into: Mapping[str, Array] | None = None,
        watch: Collection[str] | None = None,
        **by_name: Array,
    ) -> dict[str, Array]:
        """Run the network, compiling it first if these sizes are new."""
        if inputs is None or more or by_name:
            inputs = gathered(self._model.inputs, inputs, more, by_name)
        if self._direct is not None and outputs is None and into is None and watch is None:
            found = self._direct(inputs)
            if found is not None:
                return found
        network, feeds = self._network_for(inputs)
        return network.run(feeds, outputs=outputs, into=into, watch=watch)

    @override
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> BoundRun:
        """Return a run on exactly these arrays, compiling the network first if their sizes are
        new.
        """
        network, feeds = self._network_for(inputs)
        return network.bind(feeds, outputs)

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Profile the network, compiling it first if these sizes are new."""
        network, feeds = self._network_for(inputs)
        return network.profile(feeds, runs=runs, limits=limits)

    @override
    def prepare(self, shapes: Shapes) -> Future[CompiledNetwork]:
        """Compile the network for one set of sizes in the background.

        A background thread compiles one set after the other, in the order of the calls::

            futures = [net.prepare({"batch": batch}) for batch in (1, 8, 32)]

        For a pass or an observer of this network, which run while it is compiled, the sizes are
        compiled at once, on the same thread.

        Args:
            shapes: A size for each open dimension by name, or whole shapes by input name.

        Returns:
            The network of these sizes, or the error that compiling it raised. A compilation that
            has not begun can be cancelled; the end of the program does so.

        Raises:
            OptionError, ModelError: *shapes* does not fit the model, or leaves a size open.
            FeedError: A size is outside of its range, of a network that was compiled with ranges.
        """
        given = as_shapes(shapes)
        if given is None:
            raise OptionError("shapes=None: give a dict such as {'batch': 8}")
        bound = self._model.bind(given)
        if self.general is not None:
            self.general.check(bound)
        task = partial(self._variant, self._key(bound))
        if self._variants.is_making():  # the background might have to wait for this thread
            return done_now(task)
        return self._background.submit(task)

    def _network_for(self, inputs: Feeds) -> tuple[CompiledNetwork, dict[str, Array]]:
        """Return the network for the shapes of *inputs*, and these by name."""
        defaults = self._model.defaults
        named = name_feeds(self._model.inputs.keys(), inputs, defaults.keys())
        feeds = {name: as_array(name, value) for name, value in named.items()}
        shapes = self._key({name: array.shape for name, array in feeds.items()})
        general = self.general
        is_whole = feeds.keys() == self._model.inputs.keys()
        if general is not None and not is_whole:
            general.check({name: array.shape for name, array in feeds.items()})
        key = shapes, ()
        if key not in self._variants and not (general is not None and general.is_asked):
            # prepared by hand, they may differ where names are equal
            check_open_feeds({**self._model.inputs, **defaults}, feeds)
        failure: GlowError | None = None
        if general is not None and is_whole and not self._has(key):
            found, failure = general.network_for(feeds, self._model.inputs)
            self._direct = general.direct
            if found is not None:
                return found, feeds
        fixed = {name: array for name, array in feeds.items() if name in self._fixed}
        try:
            network = self._variant(shapes, fixed, is_waited_for=True)
        except UnboundInput as error:
            # Shapes depend on numbers that are fed instead of a default: these are constants then.
            new = {n for n in error.names if n in defaults and n in feeds and n not in fixed}
            if not new or max(feeds[name].size for name in new) > MOST_FIXED:
                raise
            self._fixed |= new
            return self._network_for(inputs)
        if general is not None and failure is not None:
            general.served_otherwise(failure, feeds, self._model.inputs)
        return network, {name: array for name, array in feeds.items() if name not in fixed}

    def _has(self, key: SizesKey) -> bool:
        """Return whether the network *key* is ready, or is the first one that will be."""
        is_only = self.general is None or self.general.first is None
        return self._variants.is_ready(key) or (is_only and key in self._variants)

    def _key(self, shapes: Mapping[str, tuple[int, ...]]) -> InputShapes:
        names = (*self._model.inputs, *self._model.defaults)
        return tuple((name, shapes[name]) for name in names if name in shapes)

    def _variant(
        self,
        shapes: InputShapes,
        fixed: Mapping[str, Array] = MappingProxyType({}),
        *,
        is_waited_for: bool = False,
    ) -> CompiledNetwork:
        """Return the network for inputs of *shapes*, of which *fixed* are constants."""
        numbers = tuple((name, array.tobytes()) for name, array in fixed.items())
        key = shapes, numbers
        if is_waited_for and key not in self._variants:
            self._advice.wait_for(key, partial(describe_sizes, self._model, dict(shapes)))
        return self._variants.get(key, partial(self._compiled, key, shapes, fixed))

    def _compiled(
        self, key: SizesKey, shapes: InputShapes, fixed: Mapping[str, Array]
    ) -> CompiledNetwork:
        fed = {name: shape for name, shape in shapes if name not in fixed}
        constants = {name: array.copy() for name, array in fixed.items()}
        compiled = partial(self._compile_for, fed, constants)
        kept = self._kept
        network = kept.find_sizes(fed, constants, self._state, compiled) if kept else None
        if network is None:
            network = compiled()
            if kept:
                kept.keep_sizes(fed, constants, network, self._model)
        self._advice.compiled(key)
        if not fixed:
            self._take_over(network)
        return network

    def take(self, network: CompiledNetwork) -> None:
        """Use *network*, which is compiled for one set of sizes, for runs with these sizes."""
        shapes = {name: type.shape for name, type in network.border.inputs.items()}
        self._variants.get((self._key(shapes), ()), lambda: network)
        self._take_over(network)

    def _take_over(self, network: CompiledNetwork) -> None:
        types = network.border.inputs
        if self.general is not None and types.keys() == self._model.inputs.keys():
            shapes = tuple(types[name].shape for name in self._model.inputs)
            self.general.take_over(shapes, network, self._max_variants)

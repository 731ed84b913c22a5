"""A saved network made to run: constants mapped, code loaded by the system, nothing compiled."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from glow_nb.base.errors import GlowError, MemoryLimitError, ModelError
from glow_nb.base.memory_limit import within_memory
from glow_nb.codegen.linked_code import LinkedCode
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.open_program import OpenProgram
from glow_nb.codegen.run_layout import RunLayout
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import Border, Levels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.saved.assembling import assembled, grown
from glow_nb.network.saved.courses import programs_in
from glow_nb.network.saved.files import (
    MANIFEST,
    UnreadableError,
    check_sums,
    map_regions,
    unreadable,
)
from glow_nb.network.saved.manifest import Manifest, SavedFunction, layout_from_plain
from glow_nb.network.saved.saved_executable import Reopened, SavedExecutable
from glow_nb.network.saved.signature import Signature, types_from_plain
from glow_nb.system.file_digests import FileDigests
from glow_nb.system.regular_files import read_text
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.finite import FiniteCheck
    from glow_nb.base.model_node import ModelNode
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.growing import GrowingNetwork


class Model(NamedTuple):
    """The model that a saved network was made of, where it is at hand.

    Attributes:
        with_feeds: Compiles the network that takes feeds instead of the model's own numbers.
        again: Compiles it once more, and returns its functions in order; None if the model is not
            at hand.
        watched: Does the same, to watch values of the model.
        check: The values of a run that are checked.
    """

    with_feeds: Callable[[], Network]
    again: Callable[[], Sequence[CompiledNetwork]] | None = None
    watched: Callable[[], Sequence[CompiledNetwork]] | None = None
    check: FiniteCheck | None = None


class SavedNetwork(NamedTuple):
    """The network that was read.

    Attributes:
        functions: The functions of the network, or its programs, in order.
        signature: For a network that leaves sizes open, the inputs and outputs of its model.
        growing: The network, if it is one that keeps caches.
    """

    functions: list[CompiledNetwork]
    signature: Signature | None
    growing: GrowingNetwork | None


class _Origin(NamedTuple):
    """Where a function was read from: folder, its sums then, number; and what makes it again."""

    folder: Path
    digests: FileDigests
    sums: Mapping[str, str]
    number: int
    again: Callable[[], Sequence[CompiledNetwork]] | None


def read_network(
    folder: Path, digests: FileDigests, *, state: StateStore | None, model: Model
) -> SavedNetwork:
    """Return the network in *folder*.

    Args:
        folder: A folder that :func:`~glow_nb.network.saved.writing.write_network` wrote.
        digests: Tells the sums of its files.
        state: The store of the states; by default a new one.
        model: The compiler of its model for other feeds, or again if the folder is removed.

    Raises:
        ModelError: The folder is damaged, of another version, or for another processor.
        StateError: *state* holds one of the name of another type.
        MemoryLimitError: A run needs more memory than the process may have.
    """
    sums = check_sums(folder, digests)
    with within_memory(f"saved network {folder}"):
        manifest, loaded, signature = _loaded_functions(folder)
    store = StateStore() if state is None else state
    store.add({s.name: s for one in loaded for s in one.layout.state}.values())
    count = len(manifest.functions)
    again, watched = _of_programs(model.again, count), _of_programs(model.watched, count)
    one = model._replace(again=again, watched=watched)
    programs = [
        _network(
            _Origin(folder, digests, sums, number, again), function, loaded[number], store, one
        )
        for number, function in enumerate(manifest.functions)
    ]
    try:
        made = [
            assembled(entry, programs, _numbered(model.watched, number), model.with_feeds)
            for number, entry in enumerate(manifest.networks)
        ]
        growing = None if manifest.grown is None else grown(manifest.grown, made[0])
    except GlowError as error:
        raise ModelError(f"{folder}: {error}") from error
    return SavedNetwork(made, signature, growing)


def _of_programs(
    again: Callable[[], Sequence[CompiledNetwork]] | None, count: int
) -> Callable[[], Sequence[CompiledNetwork]] | None:
    """Return what does *again*, and returns all *count* programs of the networks."""
    if again is None:
        return None

    def programs() -> Sequence[CompiledNetwork]:
        found = programs_in(again())
        if len(found) != count:  # stages that were compiled for the sizes that came
            raise ModelError(
                f"the network had {count} programs, and has {len(found)} now; compile the model "
                "again to inspect them"
            )
        return found

    return programs


def _numbered(
    again: Callable[[], Sequence[CompiledNetwork]] | None, number: int
) -> Callable[[], CompiledNetwork] | None:
    """Return what does *again*, and returns the network of this *number*."""
    return None if again is None else lambda: again()[number]


def as_network(found: SavedNetwork) -> Network:
    """Return what was *found*, functions of the same state, as one network."""
    functions = found.functions
    if found.growing is not None:
        return found.growing
    if len(functions) == 1:
        return functions[0]
    from glow_nb.network.module_network import ModuleNetwork

    by_name = {function.name: function for function in functions}
    threads = max(function.threads for function in functions)
    return ModuleNetwork(by_name, functions[0].state, threads)


def _loaded_functions(
    folder: Path,
) -> tuple[Manifest, list[LoadedProgram], Signature | None]:
    """Return what *folder* says, the code of its programs with constants in memory, the model.

    Of the model only that whose sizes are open is told.
    """
    try:
        manifest = Manifest.from_text(read_text(folder / MANIFEST))
        regions = map_regions(folder, manifest.regions)
        layouts = [layout_from_plain(f.layout, regions) for f in manifest.functions]
        loaded = [
            _loaded(layout, folder / function.code)
            for layout, function in zip(layouts, manifest.functions, strict=True)
        ]
        opened = manifest.opened
        signature = None if opened is None else Signature.from_plain(opened)
    except MemoryLimitError:
        raise
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(str(error)) from error
        raise unreadable(folder, error, "save the network again") from error
    except (GlowError, UnicodeDecodeError) as error:
        if isinstance(error.__cause__, OSError):  # the system does not map the code
            raise UnreadableError(f"{folder}: {error}") from error
        raise ModelError(f"{folder}: {error}") from error
    return manifest, loaded, signature


def _loaded(layout: RunLayout, path: Path) -> LoadedProgram:
    """Return the code at *path*, which must define the entry of *layout*, ready to run."""
    layout.require_memory()
    code = LinkedCode(path)
    code.address(layout.symbol)
    made = LoadedProgram if layout.open is None else OpenProgram
    return made(layout, code)


def _network(
    origin: _Origin,
    function: SavedFunction,
    loaded: LoadedProgram,
    state: StateStore,
    model: Model,
) -> CompiledNetwork:
    """Return one function as a network."""
    reopen = partial(_reopen, origin, loaded)
    executable = SavedExecutable(loaded, function.constant_bytes, reopen)
    types = types_from_plain(function.defaults)
    return CompiledNetwork(
        _border(function.name, loaded.layout),
        executable,
        lambda: executable.whole.levels,
        function.threads,
        state=state,
        rebuilding=Rebuilding(
            partial(_watched, executable, origin.number, model.watched, function.threads),
            partial(_value_names, executable, origin.number, model.watched),
            lambda program: executable.whole.executable.for_program(program),
            partial(_model, origin.number, model.watched),
            partial(_nodes, origin.number, model.watched),
            again=_numbered(model.watched, origin.number),
        ),
        check=model.check,
        sizes=function.sizes,
        defaults=Defaults(types, model.with_feeds) if types else None,
    )


def _watched(
    executable: SavedExecutable,
    number: int,
    again: Callable[[], Sequence[CompiledNetwork]] | None,
    threads: int,
    names: Sequence[str],
    state: StateStore,
) -> WatchedNetwork[CompiledNetwork]:
    """Return a network with the values *names*: of the model if it is at hand, or its levels."""
    if again is not None:
        return again()[number].rebuilding.watched(names, state)
    from glow_nb.network.builder import watched_in_levels

    return watched_in_levels(executable.whole.levels, threads, names, state)


def _value_names(
    executable: SavedExecutable,
    number: int,
    again: Callable[[], Sequence[CompiledNetwork]] | None,
) -> list[str]:
    """Return the names that :func:`_watched` takes for all values."""
    if again is not None:
        return again()[number].value_names
    from glow_nb.network.watched_model import value_names

    levels = executable.whole.levels
    return value_names(levels.function or levels.program)


def _model(
    number: int, again: Callable[[], Sequence[CompiledNetwork]] | None
) -> Function | Program | None:
    """Return function *number* of the model before all passes; None if it is not at hand."""
    try:
        return None if again is None else again()[number].rebuilding.model()
    except ModelError:  # it was changed or removed meanwhile
        return None


def _nodes(
    number: int, again: Callable[[], Sequence[CompiledNetwork]] | None
) -> list[ModelNode] | None:
    """Return the nodes of the model as its file has them; None if it is not at hand."""
    try:
        return None if again is None else again()[number].rebuilding.nodes()
    except ModelError:  # it was changed or removed meanwhile
        return None


def _border(name: str, layout: RunLayout) -> Border:
    return Border(
        name,
        {binding.name: binding.type for binding in layout.inputs},
        {binding.name: binding.type for binding in layout.outputs},
        {b.name: b.counted for b in layout.outputs if b.counted},
        bool(layout.state),
    )


def _reopen(origin: _Origin, loaded: LoadedProgram) -> Reopened:
    """Return the levels of a function, and an executable that knows its kernels.

    What was removed or changed since it was loaded is compiled once more if the model is at hand.
    """
    from glow_nb.network.saved.reopening import reopen

    try:
        _require_same(origin)
        return reopen(origin.folder, origin.number, loaded)
    except (ModelError, OSError) as error:
        if origin.again is None:
            raise ModelError(
                f"{origin.folder}: was removed or changed since the network was loaded, which "
                f"still runs; compile the model again to inspect it ({error})"
            ) from error
    network = origin.again()[origin.number]
    levels = Levels(network.function, network.program, network.pipeline, network.precision)
    return Reopened(levels, cast(Any, network.executable))


def _require_same(origin: _Origin) -> None:
    """Raise ModelError unless the folder holds what was read from it."""
    if check_sums(origin.folder, origin.digests) != origin.sums:
        raise ModelError(f"{origin.folder}: holds another network now")

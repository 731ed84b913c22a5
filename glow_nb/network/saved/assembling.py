"""What a folder holds made one network: stages of their programs, and caches around a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from glow_nb.base.errors import GlowError, ModelError, UnsupportedError
from glow_nb.base.specialized import Specialized
from glow_nb.network.cache_memory import CacheMemory
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.growing import GrowingNetwork
from glow_nb.network.levels import Levels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.saved.courses import (
    MALFORMED,
    Entry,
    Plain,
    caches_from_plain,
    course_from_plain,
)
from glow_nb.network.saved.open_sizes import KnownModel
from glow_nb.network.saved.signature import Signature, types_from_plain
from glow_nb.network.staged import StagedNetwork
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program
    from glow_nb.network.sized_model import CompileFor, CompileOpen, SizedModel


def assembled(
    entry: Entry,
    programs: Sequence[CompiledNetwork],
    again: Callable[[], CompiledNetwork] | None,
    with_feeds: Callable[[], Network],
) -> CompiledNetwork:
    """Return what *entry* says, made of *programs*.

    Where the model is at hand, *again* compiles it once more; *with_feeds* compiles the network
    that takes feeds instead of the model's own numbers.

    Raises:
        GlowError: *entry* is not what :func:`entry_of` returned.
    """
    try:
        if isinstance(entry, int):
            return programs[entry]
        return _staged(entry, programs, again, with_feeds)
    except MALFORMED as error:
        raise GlowError(f"it is no manifest of a network: {error!s:.80}") from error


def _staged(
    entry: Plain,
    programs: Sequence[CompiledNetwork],
    again: Callable[[], CompiledNetwork] | None,
    with_feeds: Callable[[], Network],
) -> StagedNetwork:
    course = course_from_plain(entry)
    stages: list[Network] = []
    for number, plain in enumerate(entry["stages"]):
        own = [programs[one] for one in plain["programs"]]
        if plain["opened"] is None:
            (stage,) = own
            stages.append(stage)
        else:
            opened = None if again is None else partial(_opened_again, again, number)
            stages.append(_open_stage(Signature.from_plain(plain["opened"]), own, opened))
    if len(stages) != len(course.passages):
        raise ValueError(f"{len(stages)} stages, and a course through {len(course.passages)}")
    types, last = types_from_plain(entry["defaults"]), stages[-1]
    return StagedNetwork(
        course,
        stages,
        lambda: Levels(_function(again), last.program, last.pipeline),
        int(entry["threads"]),
        rebuilding=_rebuilding(course.border.name, again),
        sizes=str(entry["title"]),
        defaults=Defaults(types, with_feeds) if types else None,
    )


def _open_stage(
    signature: Signature,
    programs: Sequence[CompiledNetwork],
    opened: Callable[[], tuple[SizedModel, CompileFor, CompileOpen]] | None,
) -> DynamicNetwork:
    """Return a stage whose sizes other stages determine; *opened* compiles it for more of them."""
    if opened is None:
        from glow_nb.network.saved.without_model import SavedDynamicNetwork

        return SavedDynamicNetwork(signature, programs)
    model, first = KnownModel(signature, opened), programs[0]
    network = DynamicNetwork(
        model,
        model.compile_for,
        model.compile_open,
        is_asked=signature.is_asked,
        threads=first.threads,
        pipeline=lambda: first.pipeline,
    )
    network.take_programs(signature, programs)
    return network


def _opened_again(
    again: Callable[[], CompiledNetwork], number: int
) -> tuple[SizedModel, CompileFor, CompileOpen]:
    network = again()
    stage = network.stages[number] if isinstance(network, StagedNetwork) else None
    if not isinstance(stage, DynamicNetwork):
        raise ModelError(
            f"network {network.name!r}: it has no such stage any more; compile the model again"
        )
    return stage.opened


def _function(again: Callable[[], CompiledNetwork] | None) -> Function | None:
    return None if again is None else again().function


def _rebuilding(
    name: str, again: Callable[[], CompiledNetwork] | None
) -> Rebuilding[CompiledNetwork]:
    """Return what makes the network called *name* once more, if its model is at hand."""

    def whole() -> Rebuilding[CompiledNetwork]:
        if again is None:
            raise UnsupportedError(
                f"network {name!r}: it has data-dependent sizes, and the folder that it was loaded "
                "from has no model to watch values of; compile the model, and watch them there"
            )
        return again().rebuilding

    def watched(names: Sequence[str], state: StateStore) -> WatchedNetwork[CompiledNetwork]:
        return whole().watched(names, state)

    def no_executable(program: Program) -> NoReturn:
        raise UnsupportedError(f"program {program.name!r}: it is one of several stages")

    return Rebuilding(
        watched,
        lambda: whole().names(),
        no_executable,
        lambda: None if again is None else whole().model(),
        lambda: None if again is None else whole().nodes(),
    )


def grown(plain: Mapping[str, Any], program: CompiledNetwork) -> GrowingNetwork:
    """Return *program* with caches, which begin empty, as ``grown_to_plain`` said.

    Raises:
        GlowError: *plain* is something else.
    """
    try:
        specialized = tuple(Specialized(*each) for each in plain["specialized"])
        caches = caches_from_plain(plain["caches"], program.border)
    except MALFORMED as error:
        raise GlowError(f"it is no manifest of a network: {error!s:.80}") from error
    return GrowingNetwork(program, specialized, CacheMemory(caches))

"""Networks that are more than programs, as plain data: those of stages, and those with caches.

Programs are named by their numbers, in the order in which a folder has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from glow_nb.base.counted import Counted
from glow_nb.base.errors import GlowError
from glow_nb.base.grown_cache import Cache
from glow_nb.base.size import Symbol, symbols_of
from glow_nb.base.size_text import format_symbols
from glow_nb.base.specialized import Specialized
from glow_nb.base.staged_run import Decision, Passage
from glow_nb.base.types import ElementKind, SymbolicType, TensorType
from glow_nb.codegen.written_sizes import WrittenSizes, written
from glow_nb.network.course import Course
from glow_nb.network.levels import Border
from glow_nb.network.saved.signature import Signature, types_to_plain

if TYPE_CHECKING:
    from glow_nb.backends.backend import Executable
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function
    from glow_nb.llir.program import Program

N = TypeVar("N", bound="SavableNetwork")
Program_co = TypeVar("Program_co", covariant=True)

Plain = Mapping[str, Any]

Entry = int | Plain
"""The number of a program, or stages of programs by their numbers."""

MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
"""What is raised where plain data are not what was written."""


class Stage(Protocol[Program_co]):
    """A network that runs in turn with others."""

    def programs(self) -> tuple[Signature | None, Sequence[Program_co]]:
        """Return its programs, and if sizes are open, the inputs and outputs of their model."""


class SavableNetwork(Protocol):
    """The interface of a :class:`glow_nb.CompiledNetwork` for writing it."""

    sizes: str
    course: Course | None
    executable: Executable

    @property
    def stages(self) -> Sequence[Stage[SavableNetwork]]:
        """The networks that a run goes through in its *course*, if it has one."""

    @property
    def name(self) -> str:
        """The name of its function."""

    @property
    def threads(self) -> int:
        """Cores that it was compiled for."""

    @property
    def program(self) -> Program:
        """The instructions, allocated."""

    @property
    def function(self) -> Function | None:
        """The graph that they were generated from."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that compiled it."""

    @property
    def precision(self) -> PrecisionReport:
        """In which kind of floats its layers compute."""

    @property
    def defaults(self) -> Mapping[str, SymbolicType]:
        """Inputs that the model has numbers for."""


def entry_of(network: SavableNetwork, add: Callable[[SavableNetwork], int]) -> Entry:
    """Return *network* as plain data; *add* takes a program and returns its number."""
    if network.course is None:
        return add(network)
    stages = []
    for stage in network.stages:
        signature, programs = stage.programs()
        opened = None if signature is None else signature.to_plain()
        stages.append({"opened": opened, "programs": [add(one) for one in programs]})
    return {
        **course_to_plain(network.course),
        "title": network.sizes,
        "threads": network.threads,
        "defaults": types_to_plain(network.defaults),
        "stages": stages,
    }


def programs_in(networks: Iterable[N]) -> list[N]:
    """Return the programs of *networks* in the order in which :func:`entry_of` adds them."""
    found: list[Any] = []

    def add(program: SavableNetwork) -> int:
        found.append(program)
        return 0

    for network in networks:
        entry_of(network, add)
    return found


def course_to_plain(course: Course) -> Plain:
    """Return *course* as plain data."""
    border = course.border
    return {
        "sizes": format_symbols(_symbols(course), ()),
        "name": border.name,
        "inputs": [[name, *_type(type)] for name, type in border.inputs.items()],
        "outputs": [
            [name, *_type(type), _counted(border.counted.get(name))]
            for name, type in border.outputs.items()
        ],
        "guards": [[written(g.left), g.relation, written(g.right)] for g in course.guards],
        "passages": [
            [list(one.inputs), [[d.number, d.symbol.name, d.teller] for d in one.decisions]]
            for one in course.passages
        ],
    }


def course_from_plain(plain: Plain) -> Course:
    """Return what :func:`course_to_plain` wrote; raise GlowError if it is something else."""
    try:
        sizes = WrittenSizes(plain["sizes"])
        counted = {str(name): Counted(*one) for name, _, _, one in plain["outputs"] if one}
        border = Border(
            str(plain["name"]),
            {str(name): _typed(sizes, *typed) for name, *typed in plain["inputs"]},
            {str(name): _typed(sizes, *typed) for name, *typed, _ in plain["outputs"]},
            counted,
            False,
        )
        passages = tuple(
            Passage(
                tuple(map(str, inputs)),
                tuple(Decision(str(n), sizes.symbols[s], str(t)) for n, s, t in decisions),
            )
            for inputs, decisions in plain["passages"]
        )
        return Course(border, passages, tuple(sizes.guard(*each) for each in plain["guards"]))
    except MALFORMED as error:
        raise GlowError(f"this is no course of a network through stages: {error!s:.80}") from error


def grown_to_plain(caches: Sequence[Cache], specialized: Sequence[Specialized]) -> Plain:
    """Return as plain data what a network with *caches* is beside its program.

    That has the *specialized* sizes as numbers.
    """
    return {
        "caches": [
            [c.name, c.output, *_type(c.type), c.axis, c.past.name, written(c.total), c.teller]
            for c in caches
        ],
        "specialized": [[one.name, one.size, one.reason] for one in specialized],
    }


def caches_from_plain(plain: Any, border: Border) -> tuple[Cache, ...]:
    """Return the caches that :func:`grown_to_plain` wrote, of a program with this *border*.

    Raises:
        GlowError: It is something else.
    """
    try:
        sizes = WrittenSizes(format_symbols(border.symbols, ()))
        known = {symbol.name: symbol for symbol in border.symbols}
        return tuple(
            Cache(
                str(name),
                str(output),
                _typed(sizes, kind, shape),
                int(axis),
                known[past],
                sizes.read(total),
                str(teller),
            )
            for name, output, kind, shape, axis, past, total, teller in plain
        )
    except MALFORMED as error:
        raise GlowError(f"these are no caches of a network: {error!s:.80}") from error


def _symbols(course: Course) -> tuple[Symbol, ...]:
    border = course.border
    types = (*border.inputs.values(), *border.outputs.values())
    found = dict.fromkeys(symbols_of(*(size for type in types for size in type.shape)))
    found |= dict.fromkeys(symbol for guard in course.guards for symbol in guard.symbols)
    return tuple(found | dict.fromkeys(course.decided))


def _counted(counted: Counted | None) -> list[Any] | None:
    return None if counted is None else [counted.count, counted.axis]


def _type(type: TensorType) -> list[Any]:
    """Return kind and shape."""
    return [type.kind.value, list(map(written, type.shape))]


def _typed(sizes: WrittenSizes, kind: str, shape: Sequence[int | str]) -> TensorType:
    return TensorType(ElementKind(kind), sizes.shape(shape))

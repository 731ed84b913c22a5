"""The programs of a network: one, or those of its stages, functions and sets of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from glow_nb.base.errors import GlowError
from glow_nb.base.model_node import ModelNode
from glow_nb.base.steps import Entries
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import stages_of
from glow_nb.llir.program import Program
from glow_nb.network.views import CompiledViews
from glow_nb.report.data import Table

MOST_PROGRAMS = 8
"""Programs that a page shows; of more, the first."""


ReadModel = Callable[[], Function | Program | None]
"""Returns a model; None where it is gone."""


@dataclass(frozen=True)
class ShownProgram:
    """One program of a network, and where it comes from.

    Attributes:
        title: The part of the title that distinguishes it from the others; empty if there is only
            one.
        network: The program.
        model: Returns what the passes were given; None where it is gone.
        whole: Returns the model that it is a part of; None where it is gone.
        nodes: Returns the nodes of the file that it comes from; None where there is none.
        pipeline: Returns the steps that it was compiled by, with their options.
        tables: Tables of its sizes.
    """

    title: str
    network: CompiledViews
    model: ReadModel
    whole: ReadModel
    nodes: Callable[[], list[ModelNode] | None]
    pipeline: Callable[[], Entries]
    tables: tuple[Table, ...] = ()


def programs_of(network: object) -> list[ShownProgram]:
    """Return the programs of *network*, in order.

    A network that leaves sizes open and was not compiled yet is compiled for all of them.

    Raises:
        GlowError: It has no program for all sizes, and none was compiled for some.
    """
    if isinstance(network, CompiledViews):
        stages: Sequence[object] = getattr(network, "stages", ())
        return list(_staged(network, stages)) if stages else [_plain(network)]
    functions = functions_of(network)
    if functions:
        return [
            _titled(f"function {name}", shown)
            for name, one in functions.items()
            for shown in programs_of(one)
        ]
    if hasattr(network, "variants"):
        return list(_variants(network))
    asked: Any = network
    return programs_of(asked.general)  # it keeps caches


def functions_of(network: object) -> Mapping[str, Any]:
    """Return the functions of a module by name; none if *network* is another one.

    The kinds of networks are distinguished by their attributes, since they import this package, and
    this package does not import them.
    """
    is_other = hasattr(network, "variants") or hasattr(network, "general")
    if is_other or isinstance(network, CompiledViews):
        return {}
    found: Mapping[str, Any] = getattr(network, "functions", {})
    return found


def _plain(network: CompiledViews) -> ShownProgram:
    original = cache(lambda: _original(network))

    def model() -> Function | Program | None:
        return original().rebuilding.model()

    return ShownProgram(
        title=f"for {network.sizes}" if network.sizes else "",
        network=network,
        model=model,
        whole=model,
        nodes=lambda: original().rebuilding.nodes(),
        pipeline=lambda: original().pipeline,
        tables=_guards(network),
    )


def _original(network: CompiledViews) -> CompiledViews:
    """Return *network*, compiled once more if it was read from the disk and its model is at hand.

    What is on the disk has the names of its steps, and not their options.
    """
    again: Callable[[], CompiledViews] | None = network.rebuilding.again
    return network if again is None else again()


def _variants(network: Any) -> Iterator[ShownProgram]:
    """Yield the programs of *network*, the first ones with the settings of all its sizes."""
    if not network.variants and network.general is not None:
        network.compile_first()
    if not network.variants:
        _ = network.program  # which says what to do
    tables = _specialized(network)
    for number, one in enumerate(network.variants):
        for shown in programs_of(one):
            own = (*shown.tables, *tables) if number == 0 else shown.tables
            yield replace(shown, tables=own)


def _staged(network: CompiledViews, stages: Sequence[object]) -> Iterator[ShownProgram]:
    """Yield the programs of all *stages* of *network*, which are made of parts of one model."""
    whole = network.rebuilding
    function = whole.model()
    parts = stages_of(function) if isinstance(function, Function) else ()
    for number, stage in enumerate(stages):
        part = parts[number].function if len(parts) == len(stages) else None
        for shown in programs_of(stage):
            title = f"stage {number + 1} of {len(stages)}"
            own = replace(shown, model=_first_of(shown.model, part), whole=whole.model)
            yield _titled(title, replace(own, nodes=whole.nodes))


def _first_of(model: ReadModel, part: Function | None) -> ReadModel:
    """Return what returns the model of a stage, which is *part* of the whole if it has none."""

    def read() -> Function | Program | None:
        try:
            found = model()
        except GlowError:
            found = None
        return part if found is None else found

    return read


def _titled(title: str, shown: ShownProgram) -> ShownProgram:
    return replace(shown, title=f"{title}, {shown.title}" if shown.title else title)


def _guards(network: CompiledViews) -> tuple[Table, ...]:
    """Return the comparisons of sizes for which *network* is right."""
    rows = tuple((str(guard),) for guard in network.guards)
    note = "Runs with other sizes use another program of the network."
    return (Table("Guards: conditions on its sizes", ("comparison",), rows, note),) if rows else ()


def _specialized(network: Any) -> tuple[Table, ...]:
    """Return the sizes that are numbers, and the programs that there are."""
    found: list[Table] = []
    numbers = tuple((each.name, str(each.size), each.reason) for each in network.specialized)
    if numbers:
        columns = ("dimension", "#size", "why it is a number")
        found.append(Table("Specialized sizes", columns, numbers))
    rows = tuple(
        (one.sizes or "all sizes", str(len(one.kernels)), "; ".join(map(str, one.guards)))
        for one in network.variants
    )
    found.append(Table("Variants", ("sizes", "#kernels", "guards"), rows))
    return tuple(found)

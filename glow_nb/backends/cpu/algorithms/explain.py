"""Why a layer is computed as it is: all candidates with their estimates, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends.cpu.algorithms import Candidate, algorithm_of
from glow_nb.backends.cpu.algorithms.selection import Selection
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.products import Product
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest
from glow_nb.base.table import Table
from glow_nb.hlir.graph import Function
from glow_nb.kernels.target import Target


@dataclass(frozen=True)
class Weighed:
    """A candidate, and what speaks for and against it.

    Attributes:
        candidate: The plan with its estimated cycles.
        is_chosen: Whether the layer is computed so.
        is_valid: Whether it is right for the weights.
        is_measured: Whether compiling would measure instead, since ``tune=True`` is given.
        min_speedup: How many times as fast as others it must seem to be preferred.
    """

    candidate: Candidate
    is_chosen: bool
    is_valid: bool
    is_measured: bool
    min_speedup: float

    @property
    def note(self) -> str:
        """What the table says of it."""
        if self.is_chosen:
            return "best estimate; tune=True measures" if self.is_measured else "chosen"
        if not self.is_valid:
            return "not valid for these weights"
        return f"must be {self.min_speedup:.3f} x faster" if self.min_speedup > 1 else ""


@dataclass(frozen=True)
class LayerPlans:
    """The candidates of one layer.

    Attributes:
        name: The layer's name in the model.
        operator: What it computes.
        weighed: Its candidates, that with the least estimated time first.
    """

    name: str
    operator: str
    weighed: tuple[Weighed, ...]


class PlanTable(Mapping[str, LayerPlans]):
    """Layers with their candidates, by name; printed as a table."""

    def __init__(self, layers: Sequence[LayerPlans]) -> None:
        """Hold *layers*."""
        self._layers = {layer.name: layer for layer in layers}

    @override
    def __getitem__(self, name: str) -> LayerPlans:
        if name not in self._layers:
            hint = closest(name, self._layers)
            raise OptionError(f"no layer {name!r:.80} is a convolution or matrix product{hint}")
        return self._layers[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    @override
    def __len__(self) -> int:
        return len(self._layers)

    def table(self, layer: str | None = None) -> Table:
        """Return the rows of all layers, or of one."""
        layers = self._layers.values() if layer is None else [self[layer]]
        rows = [
            (
                each.name if number == 0 else "",
                each.operator if number == 0 else "",
                str(one.candidate.plan),
                f"{one.candidate.cycles:,.0f}",
                one.note,
            )
            for each in layers
            for number, one in enumerate(each.weighed)
        ]
        return Table(("layer", "operator", "plan", "#cycles", "note"), tuple(rows))

    @override
    def __str__(self) -> str:
        return str(self.table())

    @override
    def __repr__(self) -> str:
        return f"<plans of {len(self)} layers; print it for the candidates of each>"

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.table()._repr_html_()


def explain(
    function: Function, target: Target, options: CpuOptions, *, threads: int = 1
) -> PlanTable:
    """Return the candidates of all products of *function*, as the selection weighs them.

    They are estimated. Where *options* ask for measurements, notes say which layers compiling
    would measure.
    """
    selection = Selection(
        function,
        target,
        winograd=options.winograd,
        strassen=options.strassen,
        growth=options.constant_growth,
        choice=options.plan,
        cost_model=options.cost_model,
        threads=threads,
    )
    return PlanTable([_weighed(selection, node, options) for node in selection.products])


def _weighed(selection: Selection, node: Product, options: CpuOptions) -> LayerPlans:
    """Return the candidates for *node*, and which of them is chosen."""
    offered, chosen = selection.offered(node), selection.candidate(node)
    problem = selection.problem(node)
    is_measured = options.tune and selection.may_measure(node)
    shown = [*offered, *(each for each in selection.ranked(node) if each not in offered)]
    weighed = tuple(
        Weighed(
            each,
            chosen is not None and each.plan == chosen.plan,
            algorithm_of(each.plan).for_weights(each, node) is not None,
            is_measured,
            algorithm_of(each.plan).min_speedup(each.plan, problem),
        )
        for each in shown
    )
    return LayerPlans(selection.function.origins_of(node)[-1], node.opcode, weighed)

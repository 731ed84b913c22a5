"""Why a layer is computed as it is: all candidates with their estimates, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends.cpu.algorithms import Candidate, algorithm_of
from glow_nb.backends.cpu.algorithms.choice import names_of
from glow_nb.backends.cpu.algorithms.selection import Selection
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.products import Product
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import closest, listed
from glow_nb.base.table import Table
from glow_nb.hlir.graph import Function
from glow_nb.kernels.target import Target


@dataclass(frozen=True)
class Weighed:
    """A candidate, and why it is chosen or not.

    Attributes:
        candidate: The plan with its estimated cycles.
        is_chosen: Whether the layer is computed so.
        is_valid: Whether it is right for the weights.
        is_measured: Whether compiling would measure instead, since ``tune=True`` is given.
        min_speedup: The least estimated speedup over other algorithms at which it is preferred.
        is_left_out: Whether ``plan=`` leaves it out.
        is_too_large: Whether it would be preferred, but constants would take more memory than
            ``constant_growth`` allows.
    """

    candidate: Candidate
    is_chosen: bool
    is_valid: bool
    is_measured: bool
    min_speedup: float
    is_left_out: bool = False
    is_too_large: bool = False

    @property
    def note(self) -> str:
        """A remark about it in the table."""
        if self.is_chosen:
            return "best estimate; tune=True measures" if self.is_measured else "chosen"
        if not self.is_valid:
            return "not valid for these weights"
        if self.is_left_out:
            return "left out by plan"
        if self.is_too_large:
            return "takes more memory than constant_growth allows"
        return f"must be {self.min_speedup:.3f} x faster" if self.min_speedup > 1 else ""


@dataclass(frozen=True)
class LayerPlans:
    """The candidates of one layer.

    Attributes:
        name: The layer's name: that of the last node of the model that went into it.
        operator: The name of its operator.
        weighed: Its candidates, that with the least estimated time first.
        names: All names that ``plan=`` takes for it: those of all nodes of the model that went into
            it, as a convolution and the batch normalization that was folded into its weights, and
            that of its node in the graph.
    """

    name: str
    operator: str
    weighed: tuple[Weighed, ...]
    names: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The candidate by which the layer is computed."""
        return next(each.candidate for each in self.weighed if each.is_chosen)


class PlanTable(dict[str, LayerPlans]):
    """Layers with their candidates, by name; printed as a table.

    ``table[name]`` takes any of a layer's names, such as that of a node that was folded into it.
    """

    def __init__(self, layers: Sequence[LayerPlans]) -> None:
        """Hold *layers*."""
        super().__init__({layer.name: layer for layer in layers})

    def __missing__(self, name: str) -> LayerPlans:
        found = [layer for layer in self.values() if name in layer.names]
        if len(found) == 1:
            return found[0]
        if found:
            layers = listed(layer.name for layer in found)
            raise OptionError(f"node {name!r:.80} went into several layers; give one of {layers}")
        known = {each for layer in self.values() for each in (layer.name, *layer.names)}
        raise OptionError(
            f"no layer {name!r:.80} is a convolution or matrix product{closest(str(name), known)}; "
            f"those are {listed(self)}"
        )

    def table(self, layer: str | None = None) -> Table:
        """Return the rows of all layers, or of one."""
        layers = self.values() if layer is None else [self[layer]]
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
    function: Function,
    target: Target,
    options: CpuOptions,
    *,
    threads: int = 1,
    is_whole: bool = True,
) -> PlanTable:
    """Return the candidates of all products of *function*, as the selection weighs them.

    They are estimated. Where *options* ask for measurements, notes say which layers compiling
    would measure. Layers of other functions may be named unless *function* *is_whole*.

    Raises:
        OptionError: The *options* for a layer leave no plan that is right for its weights.
    """
    selection = Selection(
        function,
        target,
        winograd=options.winograd,
        strassen=options.strassen,
        growth=options.constant_growth,
        choice=options.plan,
        is_whole=is_whole,
        cost_model=options.cost_model,
        threads=threads,
    )
    return PlanTable([_weighed(selection, node, options) for node in selection.products])


def _weighed(selection: Selection, node: Product, options: CpuOptions) -> LayerPlans:
    """Return the candidates for *node*, and which of them is chosen."""
    offered, chosen = selection.offered(node), selection.candidate(node)
    problem = selection.problem(node)
    is_measured = options.tune and selection.may_measure(node)
    left = [each.plan for each in selection.ranked(node)]
    shown = [*offered, *(each for each in selection.ranked(node) if each not in offered)]
    weighed = tuple(
        Weighed(
            each,
            each.plan == chosen.plan,
            algorithm_of(each.plan).for_weights(each, node) is not None,
            is_measured,
            algorithm_of(each.plan).min_speedup(each.plan, problem),
            is_left_out=each.plan not in left,
            is_too_large=selection.is_too_large(node, each),
        )
        for each in shown
    )
    names = tuple(dict.fromkeys(reversed(names_of(node, selection.function))))
    return LayerPlans(names[0], node.opcode, weighed, names)

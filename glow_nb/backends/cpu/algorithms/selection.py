"""Which plan each product of a network gets, by estimates, measurements, memory and the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Protocol

from glow_nb.backends.cpu.algorithms import Candidate, Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.candidates import (
    WIDTHS_TO_TRY,
    CostModel,
    candidates_for,
    first_valid,
)
from glow_nb.backends.cpu.algorithms.choice import Chooser, allowed_algorithms
from glow_nb.backends.cpu.constant_budget import Spending, spend
from glow_nb.backends.cpu.options import Choice
from glow_nb.backends.cpu.products import PRODUCTS, Product, product_key
from glow_nb.base.plan import Plan
from glow_nb.base.steps import Entries, Step
from glow_nb.base.types import ElementKind
from glow_nb.compiler.driver import run_to
from glow_nb.hlir.graph import Function
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import WINOGRAD

SELECTION = "select_packed_operators"
"""The pass that chooses among the plans."""


def before_selection(function: Function, passes: Entries) -> Function:
    """Return *function* after those of *passes* that come before plans are chosen."""
    before = takewhile(lambda e: (e.name if isinstance(e, Step) else e) != SELECTION, passes)
    return run_to(Function, function, tuple(before))


class Tuner(Protocol):
    """An object that finds the fastest plan of a product."""

    def choose(
        self, nodes: Sequence[Product], winograd: str, strassen: str
    ) -> Mapping[str, Candidate]:
        """Return the choice for *nodes* by their :func:`product_key`; it may leave some out."""
        ...


class Selection:
    """The plans of the convolutions and matrix products of one function."""

    def __init__(
        self,
        function: Function,
        target: Target,
        *,
        winograd: str,
        strassen: str,
        growth: float,
        choice: Choice = None,
        is_whole: bool = True,
        cost_model: CostModel | None = None,
        threads: int = 1,
        tuner: Tuner | None = None,
    ) -> None:
        """Choose for the products of *function*.

        Args:
            function: The network.
            target: The processor.
            winograd: "auto", "guarded" or "off".
            strassen: "auto" or "off".
            growth: The most bytes of constants, as a multiple of the bytes of the weights.
            choice: The user's settings for single layers.
            is_whole: Whether no other function has layers that *choice* names.
            cost_model: Estimates instead of the algorithms' own.
            threads: Cores that share the work.
            tuner: Measures instead of estimates.
        """
        self.function, self.target, self.threads = function, target, threads
        self.products = [node for node in function if isinstance(node, PRODUCTS)]
        self._winograd, self._strassen, self._growth = winograd, strassen, growth
        self._chooser = Chooser(choice, function, self._find, is_whole=is_whole)
        self._cost_model = cost_model
        self._known: dict[str, Sequence[Candidate]] = {}
        self._picks: Mapping[str, Candidate] = {}
        if tuner is not None:
            free = [node for node in self.products if self.may_measure(node)]
            self._picks = tuner.choose(free, winograd, strassen)

    def problem(self, node: Product) -> Problem:
        """Return what *node* computes."""
        return Problem.of(node, self.target, threads=self.threads, widths=WIDTHS_TO_TRY)

    def offered(self, node: Product) -> Sequence[Candidate]:
        """Return all candidates for *node* that the options of all layers allow."""
        return self._find(node)

    def _find(
        self, node: Product, *, only: str = "", without: str = "", widths: int = WIDTHS_TO_TRY
    ) -> Sequence[Candidate]:
        options = allowed_algorithms(node, self._winograd, self._strassen)
        names = [only] if only else [name for name in options if name != without]
        problem = Problem.of(node, self.target, threads=self.threads, widths=widths)
        return candidates_for(problem, self.target, names, self._cost_model)

    def ranked(self, node: Product) -> Sequence[Candidate]:
        """Return the candidates for *node* that the user leaves, the best estimate first."""
        if node.name not in self._known:
            self._known[node.name] = self._chooser.candidates(node)
        return self._known[node.name]

    def candidate(self, node: Product) -> Candidate:
        """Return the candidate that *node* is computed by.

        Raises:
            OptionError: The user's settings leave no plan that is right for the weights.
        """
        found = self._spending.candidate(node) or self._preferred(node)
        if found is None:
            raise self._chooser.without_plan(node)
        return found

    def is_too_large(self, node: Product, candidate: Candidate) -> bool:
        """Return whether *candidate* would be preferred for *node* if more memory were allowed."""
        return self._spending.refuses(node, candidate)

    def plan(self, node: Product) -> Plan:
        """Return the plan that *node* is computed by.

        Raises:
            OptionError: The user's settings leave no plan that is right for the weights.
        """
        found = self.candidate(node)
        is_guarded = self._winograd == "guarded" and node.type.kind.is_float
        guards = is_guarded and found.plan.algorithm == WINOGRAD
        return found.plan.updated(guarded=True) if guards else found.plan

    @cached_property
    def _spending(self) -> Spending:
        return spend(
            self.function,
            self.products,
            self.ranked,
            self._preferred,
            growth=self._growth,
            threads=self.threads,
        )

    def _preferred(self, node: Product) -> Candidate | None:
        """Return the best candidate for the weights of *node*, whatever memory it takes."""
        pick = None if self._chooser.speaks_of(node) else self._picks.get(product_key(node))
        if pick is not None:
            pick = algorithm_of(pick.plan).for_weights(pick, node)
        return pick or first_valid(node, self.ranked(node))

    def may_measure(self, node: Product) -> bool:
        """Return whether measurements may choose the plan: those of float32 and known sizes."""
        is_float32 = node.type.kind is ElementKind.FLOAT32
        is_open = any(value.type.is_open for value in (node, *node.factors))
        if not is_float32 or is_open or self._chooser.speaks_of(node) or len(self.ranked(node)) < 2:
            return False
        return not algorithm_of(self.ranked(node)[0].plan).is_exclusive

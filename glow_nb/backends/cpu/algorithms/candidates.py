"""The candidates for a product, of all algorithms, by estimated time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from glow_nb.backends.cpu.algorithms import ALGORITHMS, Algorithm, Candidate, Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.users_code import users_code
from glow_nb.backends.cpu.products import Product
from glow_nb.base.arguments import described
from glow_nb.base.errors import CompileError, OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.plan import Plan
from glow_nb.kernels.target import Target

MAX_REMEMBERED = 4096
"""Problems whose candidates are remembered: networks have many products of one problem."""

WIDTHS_TO_TRY = 3
"""Widths of panels to estimate: those of the fewest multiply-adds may not divide well among
threads, may be padded at run time, or may cut sums into more inner blocks."""

CostModel = Callable[[Plan, Problem, Target, float], float]
"""Returns the estimated cycles of a plan for a problem; the last argument is our own estimate."""


def candidates_for(
    problem: Problem,
    target: Target,
    allowed: Collection[str] | None = None,
    cost_model: CostModel | None = None,
) -> Sequence[Candidate]:
    """Return the candidates for *problem*, that with the least estimated time first.

    One that rounds more or takes more memory comes after those that take hardly longer. Where an
    exclusive algorithm has plans, there are no others.

    Args:
        problem: The layer.
        target: The processor.
        allowed: Names of algorithms, by default all.
        cost_model: Estimates instead of the algorithms' own.
    """
    names = ALGORITHMS if allowed is None else [name for name in ALGORITHMS if name in allowed]
    algorithms = tuple(ALGORITHMS[name] for name in names)
    return _candidates(problem, target, algorithms, cost_model)


@lru_cache(MAX_REMEMBERED)
def _candidates(
    problem: Problem,
    target: Target,
    algorithms: tuple[Algorithm, ...],
    cost_model: CostModel | None,
) -> tuple[Candidate, ...]:
    plans: list[Plan] = []
    fitting = (each for each in algorithms if each.takes_open_sizes or not problem.is_open)
    for algorithm in sorted(fitting, key=lambda each: not each.is_exclusive):
        plans += _plans_of(algorithm, problem, target)
        if plans and algorithm.is_exclusive:
            break

    def cycles(plan: Plan) -> float:
        with foreign(CompileError, f"algorithm {plan.algorithm!r}: cycles of {plan}"):
            own = algorithm_of(plan).cycles(plan, problem, target)
        if cost_model is None:
            return own
        with users_code(f"cost_model: {plan}"):
            return _checked(cost_model(plan, problem, target, own), plan)

    def rank(candidate: Candidate) -> float:
        plan = candidate.plan
        return candidate.cycles * algorithm_of(plan).min_speedup(plan, problem)

    return tuple(sorted((Candidate(plan, cycles(plan)) for plan in plans), key=rank))


def _plans_of(algorithm: Algorithm, problem: Problem, target: Target) -> Sequence[Plan]:
    """Return the plans of *algorithm*, which may be a user's."""
    with foreign(CompileError, f"algorithm {algorithm.name!r}: plans"):
        plans = list(algorithm.plans(problem, target))
    for plan in plans:
        if not isinstance(plan, Plan) or plan.algorithm != algorithm.name:
            raise CompileError(
                f"algorithm {algorithm.name!r}: it offered {described(plan)}; offer its own plans"
            )
    return plans


def _checked(cycles: object, plan: Plan) -> float:
    """Return what a user's cost model gave, which must be a number that can be compared."""
    if isinstance(cycles, bool) or not isinstance(cycles, int | float) or math.isnan(cycles):
        raise OptionError(f"cost_model: {plan}: it gave {described(cycles)}; give cycles, a number")
    return float(cycles)


def first_valid(node: Product, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the first of *candidates* that is right for the weights of *node*, None if none is.

    Of those whose estimates count the weights it is the fastest: they come by the least that they
    may take.
    """
    first: Candidate | None = None
    for candidate in candidates:
        if first is not None and candidate.cycles >= first.cycles:
            break
        algorithm = algorithm_of(candidate.plan)
        seen = algorithm.for_weights(candidate, node)
        if seen is None or (first is not None and seen.cycles >= first.cycles):
            continue
        first = seen
        if not algorithm.counts_weights:
            break
    return first


def all_valid(node: Product, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those of *candidates* that are right for the weights of *node*, in their order.

    If estimates of some count the weights, all come by their estimates.
    """
    seen = (algorithm_of(each.plan).for_weights(each, node) for each in candidates)
    valid = [candidate for candidate in seen if candidate is not None]
    if any(algorithm_of(each.plan).counts_weights for each in valid):
        valid.sort(key=lambda candidate: candidate.cycles)
    return valid

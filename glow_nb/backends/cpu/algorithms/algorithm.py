"""The interface of an algorithm for products, and the table of all algorithms.

One algorithm is one module of this folder, or a class of yours::

    @register_algorithm
    class MyPointwise(Algorithm):
        name = "my_pointwise"

        def plans(self, problem, target): ...
        def cycles(self, plan, problem, target): ...
        def emit(self, plan, node, rewriter): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.products import Product
from glow_nb.base.arguments import described
from glow_nb.base.errors import DefinitionError
from glow_nb.base.plan import Plan
from glow_nb.base.schema import Registry
from glow_nb.hlir.graph import Value
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.target import Target


@dataclass(frozen=True)
class Candidate:
    """A plan, and its estimated time.

    Attributes:
        plan: The algorithm and how its weights are laid out.
        cycles: Estimated time of one run: of the largest share of a convolution, if several threads
            share it, and of the whole matrix product.
    """

    plan: Plan
    cycles: float


class Algorithm(ABC):
    """One algorithm for convolutions or matrix products.

    Attributes:
        name: The name in plans.
        is_exclusive: If it offers a plan, no other algorithm is considered.
        counts_weights: Estimates change with the weights; see :meth:`for_weights`.
        takes_open_sizes: Its kernels run for sizes that are known only when the network runs;
            otherwise it is not asked for plans of such problems.
    """

    name: ClassVar[str]
    is_exclusive: ClassVar[bool] = False
    counts_weights: ClassVar[bool] = False
    takes_open_sizes: ClassVar[bool] = False

    @abstractmethod
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        """Return the plans that it offers for *problem*, none if it cannot compute it."""

    @abstractmethod
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        """Return the estimated cycles of *plan* for *problem* on *target*."""

    @abstractmethod
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        """Emit the operator that computes *node* by *plan*, and the nodes that pack its weights."""

    def min_speedup(self, plan: Plan, problem: Problem) -> float:  # noqa: ARG002
        """Return the estimated speedup over other plans from which on *plan* is preferred.

        It is above 1 for algorithms that round more or take more memory.
        """
        return 1.0

    def is_valid(self, plan: Plan, node: Product) -> bool:  # noqa: ARG002
        """Return whether *plan* is valid for the weights of *node*."""
        return True

    def more_bytes(self, plan: Plan, node: Product) -> int:  # noqa: ARG002
        """Return the bytes of the constants of *plan* beyond the weights of *node*, which are
        constant.

        Padding to whole vectors counts as weights.
        """
        return 0

    def for_weights(self, candidate: Candidate, node: Product) -> Candidate | None:
        """Return *candidate* for the weights of *node*, None if it is not valid for them.

        For an algorithm with :attr:`counts_weights`, the estimate may be higher than without the
        weights.
        """
        return candidate if self.is_valid(candidate.plan, node) else None


ALGORITHMS: Registry[str, Algorithm] = Registry("algorithm")
"""All algorithms by name; complete once :mod:`glow_nb.backends.cpu.algorithms` is imported."""

A = TypeVar("A", bound=type[Algorithm])


def register_algorithm(algorithm: A) -> A:
    """Add a class of algorithms to those that the cpu backend chooses from.

    Raises:
        DefinitionError: It is no whole algorithm, or another module has one of its name.
    """
    is_class = isinstance(algorithm, type) and issubclass(algorithm, Algorithm)
    name = getattr(algorithm, "name", None)
    if not is_class or not isinstance(name, str) or not name.isidentifier():
        raise DefinitionError(
            f"{described(algorithm)}: give a class that inherits from Algorithm and has a name"
        )
    missing = sorted(getattr(algorithm, "__abstractmethods__", ()))
    if missing:
        raise DefinitionError(f"algorithm {name!r}: it has no {', '.join(missing)}")
    ALGORITHMS.add(name, algorithm())
    return algorithm


def algorithm_of(plan: Plan) -> Algorithm:
    """Return the algorithm that *plan* names; GlowError if there is none of that name."""
    return ALGORITHMS[plan.algorithm]

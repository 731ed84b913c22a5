"""A user's settings for the plans of single layers: force an algorithm, forbid one, or choose."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from glow_nb.backends.cpu.algorithms import ALGORITHMS, Candidate
from glow_nb.backends.cpu.algorithms.candidates import WIDTHS_TO_TRY, all_valid
from glow_nb.backends.cpu.algorithms.layer_choice import LayerChoice, layer_choice
from glow_nb.backends.cpu.algorithms.users_code import users_code
from glow_nb.backends.cpu.options import Choice
from glow_nb.backends.cpu.products import PRODUCTS, Product
from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.plan import Plan
from glow_nb.base.schema import closest, listed
from glow_nb.hlir.graph import Constant, Function
from glow_nb.kernels.strassen.matmul import STRASSEN
from glow_nb.kernels.winograd.convolution import WINOGRAD

ALL_WIDTHS = 1 << 10
"""More widths of panels than there are: a plan that is said may have any."""


def check_choice(choice: object) -> None:
    """Raise OptionError unless *choice* may be given as ``plan=``."""
    if choice is None or callable(choice):
        return
    if not isinstance(choice, Mapping):
        raise OptionError(
            f"plan={described(choice)}: give a dict of algorithms or plans by layer, "
            "{'conv1': 'direct'}, or a function of a layer's name and its candidates"
        )
    for layer, said in choice.items():
        if not isinstance(layer, str):
            raise OptionError(f"plan: {described(layer)} is no name of a layer; give text")
        layer_choice(layer, said)


def check_cost_model(cost_model: object) -> None:
    """Raise OptionError unless *cost_model* may be given as ``cost_model=``."""
    if cost_model is not None and not (callable(cost_model) and isinstance(cost_model, Hashable)):
        raise OptionError(
            f"cost_model={described(cost_model)}: give a function of a plan, its problem, the "
            "target and our estimate"
        )


def allowed_algorithms(node: Product, winograd: str, strassen: str) -> tuple[str, ...]:
    """Return the names of the algorithms that the options allow for *node*."""
    is_constant = isinstance(node.factors[1], Constant)
    forbidden = set()
    if winograd == "off" or (winograd == "guarded" and not is_constant):
        forbidden.add(WINOGRAD)
    if strassen == "off":
        forbidden.add(STRASSEN)
    return tuple(name for name in ALGORITHMS if name not in forbidden)


def names_of(node: Product, function: Function) -> tuple[str, ...]:
    """Return the names of *node* of *function* for users, the one of the model last."""
    return (node.name, *function.origins_of(node))


def check_layers(choice: Choice, functions: Iterable[Function]) -> None:
    """Raise OptionError if *choice* names what is no product of any of *functions*.

    These are as the selection of plans gets them.
    """
    if not isinstance(choice, Mapping):
        return
    products = ((n, each) for each in functions for n in each if isinstance(n, PRODUCTS))
    known = {name for node, function in products for name in names_of(node, function)}
    for layer in choice:
        if layer not in known:
            raise OptionError(
                f"plan: {layer!r:.80} is no convolution or matrix product of the network"
                f"{closest(layer, known)}; glow_nb.plans(model) lists all"
            )


class Find(Protocol):
    """Finds the candidates for a product, the best estimate first."""

    def __call__(
        self, node: Product, *, only: str = "", without: str = "", widths: int = WIDTHS_TO_TRY
    ) -> Sequence[Candidate]:
        """Return those for *node* that the options of all layers allow, in *widths* widths.

        *only* is the one algorithm, whatever the options say; *without* is left out.
        """
        ...


class Chooser:
    """Applies what a user says to the candidates of layers."""

    def __init__(
        self, choice: Choice, function: Function, find: Find, *, is_whole: bool = True
    ) -> None:
        """Apply *choice* to layers of *function*, which is all of the network if it *is_whole*.

        Raises:
            OptionError: A layer that is named is no convolution or matrix product of the network.
        """
        check_choice(choice)
        self._choice, self._function, self._find = choice, function, find
        self._known: dict[str, Candidate | LayerChoice | None] = {}
        if is_whole:
            check_layers(choice, [function])

    def _names(self, node: Product) -> tuple[str, ...]:
        return names_of(node, self._function)

    def speaks_of(self, node: Product) -> bool:
        """Return whether the user says anything about *node*."""
        return self._said(node) is not None

    def candidates(self, node: Product) -> Sequence[Candidate]:
        """Return the candidates for *node* that the user leaves, the best estimate first.

        An algorithm that is forced is the only one, whatever the options of all layers say.

        Raises:
            OptionError: A plan is forced that is none of the layer.
        """
        said, layer = self._said(node), self._names(node)[-1]
        if said is None:
            return self._find(node)
        if isinstance(said, Candidate):
            return [said]
        algorithm, widths = said.plan.algorithm, ALL_WIDTHS if said.plan.settings else WIDTHS_TO_TRY
        if not said.is_forbidden:
            return said.left_of(layer, self._find(node, only=algorithm, widths=widths))
        without = "" if said.plan.settings else algorithm
        return said.left_of(layer, self._find(node, without=without))

    def _said(self, node: Product) -> Candidate | LayerChoice | None:
        """Return what the user says about *node*; a function is asked once."""
        if self._choice is None:
            return None
        if node.name not in self._known:
            is_mapping = isinstance(self._choice, Mapping)
            self._known[node.name] = self._by_name(node) if is_mapping else self._by_function(node)
        return self._known[node.name]

    def _by_name(self, node: Product) -> LayerChoice | None:
        """Return what the user's dict says about *node* by any of its names."""
        assert isinstance(self._choice, Mapping)
        given = {name: self._choice.get(name) for name in self._names(node)}
        said = {n: made for n, each in given.items() if (made := layer_choice(n, each)) is not None}
        if len(set(said.values())) > 1:
            raise OptionError(
                f"plan: {listed(said)} are names of one layer, with different plans; give one of "
                "them"
            )
        return next(iter(said.values()), None)

    def _by_function(self, node: Product) -> Candidate | LayerChoice | None:
        """Return what the user's function returns for the candidates that are right for *node*."""
        assert callable(self._choice)
        name, valid = self._names(node)[-1], all_valid(node, self._find(node))
        with users_code(f"plan: the function for layer {name!r:.80}"):
            said = self._choice(name, valid)
        if isinstance(said, Candidate) and said in valid:
            return said
        if said is not None and not isinstance(said, Candidate | Plan | str):
            raise OptionError(
                f"plan: the function returned {described(said)} for layer {name!r:.80}; return "
                "one of the candidates that it is given, a plan or its text, or None for the "
                "compiler's own choice"
            )
        return layer_choice(name, said)

    def without_plan(self, node: Product) -> OptionError:
        """Return the error that no algorithm that is allowed computes *node*."""
        name = self._names(node)[-1]
        return OptionError(
            f"plan: no algorithm that is allowed computes layer {name!r:.80} ({node.opcode} of "
            f"{node.factors[0].type} and {node.factors[1].type}); allow 'direct'"
        )

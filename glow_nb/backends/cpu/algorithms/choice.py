"""What a user says about the plans of single layers: force an algorithm, forbid one, or choose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from glow_nb.backends.cpu.algorithms import ALGORITHMS, Candidate
from glow_nb.backends.cpu.algorithms.candidates import all_valid
from glow_nb.backends.cpu.options import Choice
from glow_nb.backends.cpu.products import PRODUCTS, Product
from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.schema import closest
from glow_nb.hlir.graph import Constant, Function
from glow_nb.kernels.strassen.matmul import STRASSEN
from glow_nb.kernels.winograd.convolution import WINOGRAD

NOT = "not "


def check_choice(choice: object) -> None:
    """Raise OptionError unless *choice* may be given as ``plan=``."""
    if choice is None or callable(choice):
        return
    if not isinstance(choice, Mapping):
        raise OptionError(
            f"plan={described(choice)}: give a dict of algorithms by layer, "
            "{'conv1': 'direct'}, or a function of a layer's name and its candidates"
        )
    for layer, word in choice.items():
        name = word.removeprefix(NOT) if isinstance(word, str) else ""
        if not isinstance(layer, str) or name not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise OptionError(
                f"plan: layer {described(layer)} has {described(word)}, which is no algorithm"
                f"{closest(name, ALGORITHMS)}; give one of {known}, or 'not ' and one of them"
            )


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
    """Return the names by which a user may speak of *node* of *function*, the model's last."""
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


class Chooser:
    """Applies what a user says to the candidates of layers."""

    def __init__(self, choice: Choice, function: Function, *, is_whole: bool = True) -> None:
        """Apply *choice* to layers of *function*, which is all of the network if it *is_whole*.

        Raises:
            OptionError: A layer that is named is no convolution or matrix product of the network.
        """
        check_choice(choice)
        self._choice, self._function = choice, function
        if is_whole:
            check_layers(choice, [function])

    def _names(self, node: Product) -> tuple[str, ...]:
        return names_of(node, self._function)

    def speaks_of(self, node: Product) -> bool:
        """Return whether the user says anything about *node*."""
        if isinstance(self._choice, Mapping):
            return any(name in self._choice for name in self._names(node))
        return self._choice is not None

    def allowed(self, node: Product, names: Collection[str]) -> Collection[str]:
        """Return the names of the algorithms that are left of *names* for *node*.

        An algorithm that is forced is the only one, whatever the options of all layers say.
        """
        if not isinstance(self._choice, Mapping):
            return names
        words = [self._choice[name] for name in self._names(node) if name in self._choice]
        if not words:
            return names
        if words[0].startswith(NOT):
            return [name for name in names if name != words[0].removeprefix(NOT)]
        return [words[0]]

    def chosen(self, node: Product, found: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return what the user's function leaves of the candidates *found* for *node*."""
        if self._choice is None or isinstance(self._choice, Mapping):
            return found
        return self._by_function(self._choice, node, found)

    def _by_function(
        self, choose: Callable[..., object], node: Product, found: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        name, valid = self._names(node)[-1], all_valid(node, found)
        with foreign(OptionError, f"plan: the function for layer {name!r:.80}"):
            chosen = choose(name, valid)
        if not isinstance(chosen, Candidate) or chosen not in valid:
            raise OptionError(
                f"plan: the function returned {described(chosen)} for layer {name!r:.80}; "
                "return one of the candidates that it is given"
            )
        return [chosen]

    def without_plan(self, node: Product) -> OptionError:
        """Return the error that no algorithm that is allowed computes *node*."""
        name = self._names(node)[-1]
        return OptionError(
            f"plan: no algorithm that is allowed computes layer {name!r:.80} ({node.opcode} of "
            f"{node.factors[0].type} and {node.factors[1].type}); allow 'direct'"
        )

"""A user's setting for one layer: a plan, or an algorithm, that is forced or forbidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glow_nb.backends.cpu.algorithms.algorithm import ALGORITHMS, Candidate
from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.plan import Plan
from glow_nb.base.schema import closest
from glow_nb.base.text import parse_plan

NOT = "not "

MOST_PLANS = 8
"""Plans that an error lists."""


@dataclass(frozen=True)
class LayerChoice:
    """A plan that is forced or forbidden.

    Attributes:
        plan: The algorithm, and those of its settings that matter.
        is_forbidden: Whether plans that agree with it are left out; otherwise all others are.
    """

    plan: Plan
    is_forbidden: bool = False

    def agrees(self, candidate: Candidate) -> bool:
        """Return whether *candidate* is by the algorithm, with no other value of a setting.

        One that is forbidden has all the settings; one that is forced may get some.
        """
        given, own = dict(self.plan.settings), dict(candidate.plan.settings)
        if candidate.plan.algorithm != self.plan.algorithm:
            return False
        if self.is_forbidden:
            return given.items() <= own.items()
        return all(given.get(name, value) == value for name, value in own.items())

    def left_of(self, layer: str, found: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return what is left of the candidates *found* for *layer*.

        A plan that is forced has all settings that were given: those of the loops as well.

        Raises:
            OptionError: A plan is forced, and none of those found agrees with it.
        """
        if self.is_forbidden:
            return [each for each in found if not self.agrees(each)]
        settings = dict(self.plan.settings)
        left = [
            replace(each, plan=each.plan.updated(**settings)) for each in found if self.agrees(each)
        ]
        if found and not left:
            plans = "; ".join(str(each.plan) for each in found[:MOST_PLANS])
            more = f"; and {len(found) - MOST_PLANS} more" if len(found) > MOST_PLANS else ""
            raise OptionError(
                f"plan: {self.plan} is no plan of layer {layer!r:.80}; give one of these, or "
                f"{self.plan.algorithm!r} alone: {plans}{more}"
            )
        return left


def layer_choice(layer: object, said: object) -> LayerChoice | None:
    """Return what is *said* about *layer*, None if that is nothing.

    Args:
        layer: The layer's name.
        said: None, a plan, a candidate, the text of a plan, or this after "not "; the name of an
            algorithm is the text of a plan without settings.

    Raises:
        OptionError: It is none of these.
    """
    if said is None:
        return None
    plan = said.plan if isinstance(said, Candidate) else said
    is_forbidden = isinstance(plan, str) and plan.startswith(NOT)
    if isinstance(plan, str) and plan.strip():
        with foreign(OptionError, f"plan: layer {described(layer)}", ours=True):
            plan = parse_plan(plan.removeprefix(NOT), "the plan")
    if not isinstance(plan, Plan) or plan.algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        name = plan.algorithm if isinstance(plan, Plan) else ""
        shown = str(plan) if isinstance(plan, Plan) else said
        raise OptionError(
            f"plan: layer {described(layer)} has {described(shown)}, which is no algorithm"
            f"{closest(name, ALGORITHMS)}; give one of {known}, or 'not ' and one of them, or a "
            "plan that glow_nb.plans(model) lists"
        )
    return LayerChoice(plan, is_forbidden)

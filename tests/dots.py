"""Plans that name a dot instruction, for tests of groups of neighbours."""

from glow_nb.base.dot_instruction import FOURS, PAIRS, SINGLE, DotInstruction
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.dot_choice import dots_for
from glow_nb.kernels.target import Target


def best_dot(
    left: ElementKind, right: ElementKind, target: Target, group: int | None = None
) -> DotInstruction:
    """Return what multiplies such elements on *target* best, in groups of that size if it is given.

    Where the target has no instruction for such groups, it is one that no processor has.
    """
    found = dots_for(left, right, target)
    if group is None:
        return found[0]
    emulated = {each.group: each for each in (SINGLE, PAIRS, FOURS)}[group]
    return next((dot for dot in found if dot.group == group), emulated)


def plan_of_groups(group: int, algorithm: str = "direct") -> Plan:
    """Return a plan for groups of that size which any processor carries out."""
    return Plan.of(algorithm, dot={1: SINGLE, 2: PAIRS, 4: FOURS}[group].name)

"""Everything in a model that cannot be imported, reported in one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glow_nb.base.errors import GlowError, UnboundInput, UnsupportedError

_SHOWN_NAME_LENGTH = 80


class UntakenBranch(UnboundInput):
    """A branch that cannot be imported for these sizes, and that a run may not take."""


def untaken_branch(
    place: str, taken_if: bool, names: Sequence[str], error: GlowError
) -> UntakenBranch:
    """Return what to say of an *error* in the branch of the If at *place*.

    Args:
        place: The If.
        taken_if: The condition with which the branch is taken.
        names: The inputs that the condition is computed from.
        error: The error in the branch.
    """
    return UntakenBranch(
        f"{place}: the branch that it takes if its condition is {taken_if} cannot be imported, "
        f"and it is not known whether it is taken: the condition is computed from inputs {names}; "
        f"give those by constants={{name: array}}, and only the branch that is taken is imported; "
        f"what is wrong with this one: {error}",
        names,
    )


@dataclass
class Complaint:
    """One thing that is not supported, and the nodes that need it."""

    first: str
    count: int = 0


@dataclass
class Complaints:
    """Collects what is unsupported by operator and reason."""

    found: dict[tuple[str, str, int, str], Complaint] = field(default_factory=dict)
    unbound: list[UnboundInput] = field(default_factory=list)

    def add(self, domain: str, op: str, opset: int, reason: str, place: str) -> None:
        """Note that the node at *place* cannot be imported."""
        key = (domain or "ai.onnx", op, opset, reason)
        self.found.setdefault(key, Complaint(place)).count += 1

    def add_unbound(self, error: UnboundInput) -> None:
        """Note that a value is needed that depends on inputs."""
        self.unbound.append(error)

    def raise_if_any(self, place: str) -> None:
        """Raise one error for all that was noted.

        Raises:
            UnsupportedError: Something cannot be imported at all.
            UnboundInput: Everything could be, if some inputs were constants. It is an UntakenBranch
                if branches that may not be taken are all that hinders.
        """
        if self.found:
            count = len(self.found)
            subject = "an operator it uses is" if count == 1 else f"{count} operators it uses are"
            lines = [f"{place}: {subject} not supported:", *map(_line, self.found.items())]
            raise UnsupportedError("\n".join(lines))
        if self.unbound:
            only_branches = all(isinstance(error, UntakenBranch) for error in self.unbound)
            kind = UntakenBranch if only_branches else UnboundInput
            names = dict.fromkeys(name for error in self.unbound for name in error.names)
            raise kind(str(self.unbound[0]), list(names))


def _line(item: tuple[tuple[str, str, int, str], Complaint]) -> str:
    (domain, op, opset, reason), complaint = item
    nodes = "1 node" if complaint.count == 1 else f"{complaint.count} nodes"
    first = complaint.first
    if len(first) > _SHOWN_NAME_LENGTH:
        first = first[:_SHOWN_NAME_LENGTH] + "..."
    return f"    {domain} {op} (opset {opset}): {reason}; {nodes}, the first {first}"

"""Everything in a model that cannot be imported, told at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from glow_nb.errors import UnboundInput, UnsupportedError

_SHOWN_NAME_LENGTH = 80


@dataclass
class Complaint:
    """One thing that is not supported, and the nodes that need it."""

    first: str
    count: int = 0


@dataclass
class Complaints:
    """Collects what is unsupported by operator and reason."""

    found: dict[tuple[str, str, int, str], Complaint] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    def add(self, domain: str, op: str, opset: int, reason: str, place: str) -> None:
        """Note that the node at *place* cannot be imported."""
        key = (domain or "ai.onnx", op, opset, reason)
        self.found.setdefault(key, Complaint(place)).count += 1

    def add_unbound(self, error: UnboundInput) -> None:
        """Note that a value is needed that depends on inputs."""
        for name in error.names:
            self.inputs.setdefault(name, str(error))

    def raise_if_any(self, place: str) -> None:
        """Raise one error for all that was noted.

        Raises:
            UnsupportedError: Something cannot be imported at all.
            UnboundInput: Everything could be, if some inputs were constants.
        """
        if self.found:
            count = len(self.found)
            subject = "an operator it uses is" if count == 1 else f"{count} operators it uses are"
            lines = [f"{place}: {subject} not supported:", *map(_line, self.found.items())]
            raise UnsupportedError("\n".join(lines))
        if self.inputs:
            message = next(iter(self.inputs.values()))
            raise UnboundInput(message, list(self.inputs))


def _line(item: tuple[tuple[str, str, int, str], Complaint]) -> str:
    (domain, op, opset, reason), complaint = item
    nodes = "1 node" if complaint.count == 1 else f"{complaint.count} nodes"
    first = complaint.first
    if len(first) > _SHOWN_NAME_LENGTH:
        first = first[:_SHOWN_NAME_LENGTH] + "..."
    return f"    {domain} {op} (opset {opset}): {reason}; {nodes}, the first {first}"

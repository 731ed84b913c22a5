"""What a model consists of, whatever its sizes are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What a model consists of.

    Attributes:
        name: That of its graph.
        operators: How many nodes each operator has. Of ONNX, those in bodies count once, and one of
            another than the default domain is called ``domain.operator``.
        parameters: Numbers in its constants.
        parameter_bytes: What these take.
    """

    name: str
    operators: Counter[str]
    parameters: int
    parameter_bytes: int

"""A node of a model as its file has it, before anything is made of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelNode:
    """One node of a model.

    Attributes:
        name: The name that it has as the origin of nodes and kernels.
        operator: Its operator, with its domain unless that is ONNX's own.
        inputs: Names of the values that it reads, in order; empty for one that is left out.
        outputs: Names of the values that it computes, in order.
        attributes: Its attributes in text, long ones cut.
    """

    name: str
    operator: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: str = ""

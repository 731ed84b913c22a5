"""The function that a user passes to what works on functions."""

from __future__ import annotations

from glow_nb.base.arguments import described
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.hlir.graph import Function


def given_function(value: object, error: type[GlowError] = OptionError) -> Function:
    """Return *value* if it is a function; raise *error* if it is something else."""
    if isinstance(value, Function):
        return value
    raise error(f"{described(value)} is no Function; glow_nb.load(path) makes one of a model")

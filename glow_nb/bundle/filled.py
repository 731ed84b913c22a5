"""Templates whose holes are filled."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template


def filled(template: str, *values: Mapping[str, object], **more: object) -> str:
    """Return *template* with ``${NAME}`` and ``$NAME`` replaced; all of them must be given."""
    return Template(template).substitute(
        {k: v for each in (*values, more) for k, v in each.items()}
    )

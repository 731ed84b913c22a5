"""The names of the element kinds in the protocol."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.runtime.serve.refusal import bad_request


def _name(kind: ElementKind) -> str:
    if kind is ElementKind.BFLOAT16:
        return "BF16"
    if kind.is_float:
        return f"FP{kind.bits}"
    own_name: str = kind.value  # the protocol has none of the stored kinds
    return own_name.upper()


NAMES = {kind: _name(kind) for kind in ElementKind}
"""The protocol's name of each kind. Those that it does not know take one byte an element."""

KINDS = {name: kind for kind, name in NAMES.items()}


def kind_of(subject: str, datatype: object) -> ElementKind:
    """Return the kind that the protocol calls *datatype*; raise Refusal if there is none."""
    kind = KINDS.get(datatype) if isinstance(datatype, str) else None
    if kind is None:
        raise bad_request(
            f"{subject}: datatype {datatype!r:.40} is not supported; send one of {', '.join(KINDS)}"
        )
    return kind

"""The domains of a model that ONNX does not define, and the versions of their operator sets."""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.base.errors import UnsupportedError
from glow_nb.formats.onnx.exporter.writer import Operator, Record


def own_domains(records: Iterable[Record]) -> dict[str, int]:
    """Return the version of each domain of which *records* have operators: the first with all.

    Raises:
        UnsupportedError: In that version, the name of an operator means another one.
    """
    owned = [(record.own, record.stem) for record in records if record.own is not None]
    newest: dict[str, Operator] = {}
    for operator, _ in owned:
        known = newest.setdefault(operator.domain, operator)
        if operator.version > known.version:
            newest[operator.domain] = operator
    for operator, stem in owned:
        needed = newest[operator.domain]
        means = max(v for v in (operator.version, *operator.versions) if v <= needed.version)
        if means != operator.version:
            raise UnsupportedError(
                f"{stem!r}: {operator.name} of version {operator.version} of domain "
                f"{operator.domain!r} means something else from version {means} on, and a model "
                f"has one version of a domain: {needed.name} needs {needed.version}; use operators "
                "of one version, or give them different names"
            )
    return {domain: operator.version for domain, operator in newest.items()}

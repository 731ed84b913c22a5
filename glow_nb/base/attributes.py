"""Attributes of IR classes: whether each is what its annotation says."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_origin

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.schema import attribute_specs, same_items
from glow_nb.base.size import Size


def check_attributes(item: Any) -> None:
    """Check every attribute of a frozen dataclass against its annotation.

    A whole number is taken for a float, a list for a tuple; a NumPy scalar becomes a Python one.

    Raises:
        GlowError: A value does not fit; names the attribute, the value and the wanted type.
        VerifyError: It is not one of the words that the attribute takes.
    """
    for spec in attribute_specs(type(item)):
        value = getattr(item, spec.name)
        fitted = _fit(value, spec.annotation)
        if fitted is _MISFIT:
            is_class = isinstance(spec.annotation, type)
            wanted = spec.annotation.__name__ if is_class else str(spec.annotation)
            raise GlowError(
                f"{type(item).__name__}: attribute '{spec.name}' must be {wanted}, got {value!r}"
            )
        items = fitted if isinstance(fitted, tuple) else (fitted,)
        if spec.words and not set(items) <= set(spec.words):
            *others, last = map(repr, spec.words)
            words = f"{', '.join(others)} or {last}" if others else last
            raise VerifyError(item, f"'{spec.name}' must be {words}, got {value!r}")
        if fitted is not value:
            object.__setattr__(item, spec.name, fitted)


_MISFIT = object()


def _fit(value: Any, annotation: Any) -> Any:
    if type(value) is annotation:
        return value
    if (arguments := _tuple_of(annotation)) is not None:
        return _fit_tuple(value, arguments)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # a whole number that no float can be
            return _MISFIT
    if isinstance(value, bool) and annotation is not bool:
        return _MISFIT
    if annotation is int and isinstance(value, Size):
        return value
    return value if isinstance(value, annotation) else _MISFIT


@cache
def _tuple_of(annotation: Any) -> tuple[Any, ...] | None:
    """Return what a tuple type is made of, None for a type of no tuples."""
    return get_args(annotation) if get_origin(annotation) is tuple else None


def _fit_tuple(value: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, tuple | list):
        return _MISFIT
    if arguments[1:] == (...,):
        if isinstance(value, tuple) and set(map(type, value)) <= {arguments[0]}:
            return value
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        return _MISFIT
    items = tuple(_fit(v, a) for v, a in zip(value, arguments, strict=True))
    if any(item is _MISFIT for item in items):
        return _MISFIT
    return value if isinstance(value, tuple) and same_items(items, value) else items

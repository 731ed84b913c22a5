"""The common part of all IR classes: one dataclass per operator, read by generic functions.

This is the Python answer to Glow's ClassGen (paper 3.7). Nothing is generated: the annotations of a
plain frozen dataclass say which fields are operands and which are attributes, and the functions
below read them, for construction, equality, hashing, cloning, printing and parsing alike.

=============================  ===========================================
annotation                     the field is
=============================  ===========================================
``Value``                      one operand
``Value | None``               an operand that may be absent
``tuple[Value, ...]``          any number of operands
anything else                  an attribute
=============================  ===========================================
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from glow_nb.base.errors import DefinitionError, GlowError, GlowWarning
from glow_nb.base.extensions import note_extension
from glow_nb.base.types import ElementKind

_ATTRIBUTE_TYPES = (int, float, bool, str, ElementKind)
_COMMON_FIELDS = ("name", "predicate", "body", "origins", "plan")


R = TypeVar("R")
Item = TypeVar("Item")


def per_class(function: Callable[[type], R]) -> Callable[[type], R]:
    """Compute ``function(cls)`` once for each class."""
    return cache(function)


def per_item(function: Callable[[Item], R]) -> Callable[[Item], R]:
    """Compute ``function(item)`` once for each item, which never changes, and keep it there."""
    key = f"{function.__qualname__}()"  # not the name of a field

    @wraps(function)
    def remembered(item: Item) -> R:
        kept = item.__dict__
        if key not in kept:
            kept[key] = function(item)
        found: R = kept[key]
        return found

    return remembered


@dataclasses.dataclass(frozen=True)
class Qualifier:
    """How an instruction touches an operand: ``in``, ``out`` or ``inout``."""

    name: str


@dataclasses.dataclass(frozen=True)
class OneOf:
    """The words that an attribute may be: ``mode: Annotated[str, OneOf("avg", "max")]``."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        """Allow *words* and nothing else."""
        object.__setattr__(self, "words", words)


@dataclasses.dataclass(frozen=True)
class Unsaid:
    """Marks an attribute that text leaves out if it has its default, as it almost always has.

    ``wide: Annotated[bool, Unsaid()] = False``
    """


@dataclasses.dataclass(frozen=True)
class FieldSpec:
    """One field of an IR class, as declared by its annotation.

    Attributes:
        name: The field's name.
        annotation: The declared type, without qualifier.
        qualifier: How an instruction accesses the operand; None for nodes and attributes.
        is_operand: False for an attribute.
        is_optional: An operand that may be None.
        is_variadic: A tuple of operands.
        has_default: The constructor does not need it.
        words: The allowed values of an attribute of type ``str``; empty if all are allowed.
        is_unsaid: Text leaves it out if it has its default.
    """

    name: str
    annotation: Any
    qualifier: Qualifier | None
    is_operand: bool
    is_optional: bool
    is_variadic: bool
    has_default: bool
    words: tuple[str, ...]
    is_unsaid: bool = False


C = TypeVar("C")


def as_dataclass(cls: type[C]) -> type[C]:
    """Make an IR class a frozen dataclass that is compared by identity.

    A class that declares no fields inherits the methods of a dataclass: to generate them again for
    each of a hundred operators would take most of the time of an import.
    """
    if inspect.get_annotations(cls):
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    fields_of(cls)  # a wrong annotation fails here, at import
    return cls


@per_class
def _own_hints(cls: type) -> dict[str, Any]:
    """Return what ``get_type_hints`` does for *cls* alone: each base is evaluated once."""
    return inspect.get_annotations(cls, eval_str=True)


@per_class
def fields_of(cls: type) -> tuple[FieldSpec, ...]:
    """Return the declared fields of *cls*, operands before attributes, but for the common ones."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        hints |= _own_hints(base)
    declared = [f for f in dataclasses.fields(cls) if f.init and f.name not in _COMMON_FIELDS]
    specs = [_field_spec(cls, f, hints[f.name]) for f in declared]
    return tuple(sorted(specs, key=lambda spec: not spec.is_operand))


@per_class
def operand_specs(cls: type) -> tuple[FieldSpec, ...]:
    """Return the operand fields of *cls*, in declaration order."""
    return tuple(spec for spec in fields_of(cls) if spec.is_operand)


@per_class
def attribute_specs(cls: type) -> tuple[FieldSpec, ...]:
    """Return the attribute fields of *cls*, in declaration order."""
    return tuple(spec for spec in fields_of(cls) if not spec.is_operand)


def _field_spec(cls: type, f: dataclasses.Field[Any], annotation: Any) -> FieldSpec:
    extras: list[Any] = []
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
    base, optional, variadic = _unwrap(annotation)
    is_operand = getattr(base, "is_ir_value", False)
    if not is_operand and not _is_attribute_type(annotation):
        raise DefinitionError(
            f"{cls.__name__}.{f.name}: an attribute of type {annotation} cannot be printed and "
            "parsed; use int, float, bool, str, ElementKind or tuples of these"
        )
    has_default = (
        f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
    )
    return FieldSpec(
        name=f.name,
        annotation=annotation,
        qualifier=next((e for e in extras if isinstance(e, Qualifier)), None),
        is_operand=is_operand,
        is_optional=is_operand and optional,
        is_variadic=is_operand and variadic,
        has_default=has_default,
        words=next((e.words for e in extras if isinstance(e, OneOf)), ()),
        is_unsaid=any(isinstance(e, Unsaid) for e in extras),
    )


def _unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """Return (element type, may be None, is a tuple) of an operand annotation."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return (rest[0] if len(rest) == 1 else annotation), True, False
    if get_origin(annotation) is tuple and get_args(annotation)[1:] == (...,):
        return get_args(annotation)[0], False, True
    return annotation, False, False


def _is_attribute_type(annotation: Any) -> bool:
    if get_origin(annotation) is tuple:
        return all(a is ... or _is_attribute_type(a) for a in get_args(annotation))
    return annotation in _ATTRIBUTE_TYPES


@per_item
def operands_of(item: Any) -> tuple[Any, ...]:
    """Return every operand of a node or instruction, absent ones left out, tuples flattened.

    A node's ``predicate`` comes last: it is read like any other operand.
    """
    operands: list[Any] = []
    for spec in operand_specs(type(item)):
        value = getattr(item, spec.name)
        if spec.is_variadic:
            operands += value
        elif value is not None:
            operands.append(value)
    predicate = getattr(item, "predicate", None)
    return tuple(operands) if predicate is None else (*operands, predicate)


def qualified_operands_of(item: Any) -> Iterator[tuple[str, Any]]:
    """Yield ``(qualifier name, operand)`` for each operand of an instruction."""
    for spec in operand_specs(type(item)):
        value = getattr(item, spec.name)
        if value is None or spec.qualifier is None:
            continue
        for operand in value if spec.is_variadic else (value,):
            yield spec.qualifier.name, operand
    if item.predicate is not None:
        yield "in", item.predicate


def attributes_of(item: Any) -> dict[str, Any]:
    """Return attribute names and values in declaration order."""
    return {spec.name: getattr(item, spec.name) for spec in attribute_specs(type(item))}


def said_attributes_of(item: Any) -> dict[str, Any]:
    """Return the attributes that text contains: without those that it leaves out at their
    defaults.
    """
    specs = attribute_specs(type(item))
    unsaid = {spec.name for spec in specs if spec.is_unsaid}
    defaults = {f.name: f.default for f in dataclasses.fields(item) if f.name in unsaid}
    return {
        name: value
        for name, value in attributes_of(item).items()
        if name not in unsaid or value != defaults[name]
    }


T = TypeVar("T")


def map_operands(item: T, function: Callable[[Any], Any]) -> T:
    """Return *item* with every operand replaced by ``function(operand)``.

    The same object comes back when no operand changed. An item that is more than its fields, such
    as a stack of instructions, has a ``map_operands`` of its own.
    """
    own = getattr(item, "map_operands", None)
    mapped: T = own(function) if own else map_fields(item, function)
    return mapped


def map_fields(item: T, function: Callable[[Any], Any]) -> T:
    """Do what :func:`map_operands` does for an item that is just its fields."""
    changes = changed_operands(item, function)
    return dataclasses.replace(item, **changes) if changes else item  # type: ignore[type-var]


def renewed(item: T, replaced: Mapping[Any, Any]) -> T:
    """Return *item* with every operand that is a key of *replaced* replaced by its value.

    The same object is returned if none is.
    """
    if replaced.keys().isdisjoint(operands_of(item)):
        return item
    return map_operands(item, lambda operand: replaced.get(operand, operand))


def changed_operands(item: Any, function: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the operand fields of *item* that *function* changes, with their new contents."""
    changes: dict[str, Any] = {}
    for spec in operand_specs(type(item)):
        old = getattr(item, spec.name)
        if old is None:
            continue
        new = tuple(function(v) for v in old) if spec.is_variadic else function(old)
        if new is not old and not (spec.is_variadic and same_items(new, old)):
            changes[spec.name] = new
    predicate = getattr(item, "predicate", None)
    if predicate is not None and function(predicate) is not predicate:
        changes["predicate"] = function(predicate)
    return changes


def same_items(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Return whether two tuples of one length hold the same objects."""
    return all(a is b for a, b in zip(left, right, strict=True))


def structural_key(item: Any, alike: Callable[[Any], Any] | None = None) -> tuple[Any, ...]:
    """Return a hashable key that is equal for two items that compute the same thing.

    Operands compare by identity, attributes by printed value, so that ``-0.0`` differs from
    ``0.0`` and ``1`` from ``True``. If *alike* is given, it returns the key of an operand.
    """
    operands = operands_of(item)
    counted = operands if alike is None else tuple(map(alike, operands))
    return (type(item), counted, _outline(item))


@per_item
def _outline(item: Any) -> tuple[Any, ...]:
    """Return the attributes of *item* as text, and how many operands each field has."""
    values = (getattr(item, spec.name) for spec in operand_specs(type(item)))
    counts = tuple(len(v) if isinstance(v, tuple) else int(v is not None) for v in values)
    has_predicate = getattr(item, "predicate", None) is not None
    return tuple(map(repr, attributes_of(item).values())), counts, has_predicate


K = TypeVar("K", bound="str | type | int")


class Registry(dict[K, T], Generic[K, T]):
    """Names, classes or numbers to things; refuses a second owner and helps with typos."""

    def __init__(self, kind: str) -> None:
        """Hold things of one *kind*, a word for error messages."""
        super().__init__()
        self.kind = kind

    def add(self, key: K, thing: T) -> T:
        """Register *thing* under *key* and return it.

        A second registration from the same module, as when a cell of a notebook is run twice,
        replaces the first one, with a :class:`GlowWarning`.

        Raises:
            DefinitionError: The key belongs to another module.
        """
        self.check(key, thing)
        if self.get(key, thing) is not thing:
            warnings.warn(
                f"{self.kind} {_shown(key)} is defined again in "
                f"{getattr(thing, '__module__', None)}: it replaces the earlier definition",
                GlowWarning,
                stacklevel=3,
            )
        self[key] = thing
        note_extension(thing)
        return thing

    def check(self, key: K, thing: T) -> None:
        """Raise DefinitionError if *key* belongs to another module than that of *thing*."""
        known = self.get(key, thing)
        owner, module = getattr(known, "__module__", None), getattr(thing, "__module__", None)
        if known is not thing and (owner is None or owner != module):
            raise DefinitionError(
                f"{self.kind} {_shown(key)} is already registered by {owner or known}, "
                f"{module or thing} cannot replace it; choose another name"
            )

    def __missing__(self, key: K) -> T:
        raise GlowError(f"unknown {self.kind} {_shown(key)}{closest(_bare(key), map(_bare, self))}")


class RuleTable(Registry[K, T]):
    """Functions by the class or name that each is the rule of, and the decorator that adds one.

    :meth:`Registry.add` decides which registration replaces another one, and which is refused.
    """

    def register(self, *keys: K) -> Callable[[T], T]:
        """Return the decorator that registers a function as the rule of all *keys*, or of none."""

        def decorate(rule: T) -> T:
            for key in keys:
                self.check(key, rule)
            for key in keys:
                self.add(key, rule)
            return rule

        return decorate


def _bare(key: str | type | int) -> str:
    return key.__name__ if isinstance(key, type) else str(key)


def _shown(key: str | type | int) -> str:
    return str(key) if isinstance(key, int) else repr(_bare(key))


def listed(names: Iterable[object]) -> str:
    """Return *names* as an error lists them: ``['x', 'y']``, or ``none``."""
    return str(list(names) or "none")


def in_groups(groups: Mapping[str, Iterable[str]]) -> str:
    """Return the names of each of *groups*, a line for a group, as they stand below an error."""
    return "".join(f"\n  {group}: {', '.join(names)}" for group, names in groups.items())


def closest(name: str, known: Any) -> str:
    """Return ``; did you mean '...'?`` for the name of *known* most like *name*, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""

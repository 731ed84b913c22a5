"""Patterns of rewriting rules, written like the code that builds what they match.

An operator that is called with a pattern as an operand returns the pattern of a node::

    x, y = wildcards("x y")
    Relu(Relu(x))              # a rectifier of a rectifier of anything
    Add(Mul(x, y), number(1))  # commutative operators match their operands in any order

It matches the nodes that the same code builds: a field that is left out must have its default, and
a field without a default may be anything. Each level of the IR defines how its items are matched
(:mod:`glow_nb.hlir.rewriting`, :mod:`glow_nb.llir.rewriting`).
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from glow_nb.base.errors import DefinitionError
from glow_nb.base.override import override
from glow_nb.base.schema import closest, fields_of, per_class

RESERVED = ("node", "rewriter")
"""Names of parameters of conditions and replacements that are no wildcards."""

_COMMON = ("predicate", "plan")
"""Fields of every operator that a pattern may name; if it does not, they must be None."""

_UNSAID = ("name", "origins")


class Pattern:
    """Base of patterns; each is compared by identity."""


@dataclass(frozen=True, eq=False, repr=False)
class Wildcard(Pattern):
    """Any operand or attribute that meets the *conditions*; functions of a rule get it by its
    *name*.

    Further occurrences match only the same operand, or an equal attribute.
    """

    name: str
    conditions: tuple[Callable[[Any], bool], ...] = ()

    @override
    def __repr__(self) -> str:
        return self.name or "ANY"


@dataclass(frozen=True, eq=False, repr=False)
class Number(Pattern):
    """A constant all of whose elements are *value*."""

    value: float

    @override
    def __repr__(self) -> str:
        return f"{self.value!r}"


@dataclass(frozen=True, eq=False, repr=False)
class Item(Pattern):
    """A node, or an instruction, of one of some *classes*.

    Attributes:
        classes: The classes of operators or instructions.
        fields: What the fields must be, by their names: patterns, tuples of these, or attributes.
        is_exact: It is of exactly this class, and fields that are left out have their defaults.
    """

    classes: tuple[type, ...]
    fields: Mapping[str, Any]
    is_exact: bool = True

    @property
    def results(self) -> _Results:
        """The results, as of a node that has several: ``Split(x, ...).results[1]``."""
        return _Results(self)

    @override
    def __repr__(self) -> str:
        operands = operand_names_of(self.classes[0]) if self.is_exact else frozenset()
        written = [
            f"{value!r}" if name in operands else f"{name} = {value!r}"
            for name, value in self.fields.items()
        ]
        return f"{' | '.join(map(opcode_of, self.classes))}({', '.join(written)})"


@dataclass(frozen=True, eq=False, repr=False)
class ResultOf(Pattern):
    """One result of an *item* that has several."""

    item: Item
    index: int

    @override
    def __repr__(self) -> str:
        return f"{self.item!r}#{self.index}"


@dataclass(frozen=True, eq=False, repr=False)
class Marked(Pattern):
    """A *pattern* with a *name* for the functions of a rule, or whose value nothing else reads."""

    pattern: Pattern
    name: str = ""
    is_used_here: bool = False

    @override
    def __repr__(self) -> str:
        return repr(self.pattern)


@dataclass(frozen=True, eq=False, repr=False)
class Given(Pattern):
    """A *value* of the IR, as an operand of nodes that a function of a rule builds."""

    value: Any

    @property
    def type(self) -> Any:
        """The type of the value."""
        return self.value.type

    @override
    def __repr__(self) -> str:
        return f"{self.value!r}"


class _Results:
    """Lets a pattern be asked for a result as a node is."""

    def __init__(self, item: Item) -> None:
        self._item = item

    def __getitem__(self, index: int) -> ResultOf:
        if not isinstance(index, int) or index < 0:
            raise DefinitionError(f"result {index!r} of {self._item!r}: give a number from 0 on")
        return ResultOf(self._item, index)


ANY: Any = Wildcard("")
"""Anything; each occurrence in a pattern may match something else, and functions of a rule do not
get it."""


def wildcards(names: str) -> tuple[Any, ...]:
    """Return a wildcard for each of *names*, which spaces separate.

    ``x, y = wildcards("x y")``

    Raises:
        DefinitionError: *names* is empty, has a word that is no name of a parameter, or has a name
            twice.
    """
    found = names.split() if isinstance(names, str) else []
    repeated = next((name for name in found if found.count(name) > 1), "")
    if repeated:
        raise DefinitionError(f"wildcards({names!r}): {repeated!r} is given twice")
    if not found:
        raise DefinitionError(f"wildcards({names!r:.80}): give names, as in wildcards('x y')")
    return tuple(wildcard(name) for name in found)


def wildcard(name: str, *conditions: Callable[[Any], bool]) -> Any:
    """Return the wildcard called *name*, which matches values that meet all *conditions*.

    ``wildcard("w", is_constant)`` is a constant with numbers, for instance; ``is_constant`` is in
    :mod:`glow_nb.extend`.

    Raises:
        DefinitionError: *name* is no name of a parameter, or a condition is no function.
    """
    _check_name("wildcard", name)
    for condition in conditions:
        if not callable(condition):
            raise DefinitionError(
                f"wildcard {name!r}: the condition {condition!r:.80} is no function"
            )
    return Wildcard(name, conditions)


def number(value: float) -> Any:
    """Return the pattern of a constant all of whose elements are *value*.

    In a replacement it is a constant of one element, of the kind and rank of the other operand; it
    is an error if that kind cannot represent the number, such as 2.5 for integers.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DefinitionError(f"number({value!r:.80}): give an int or a float")
    return Number(value)


P = TypeVar("P")


def named(name: str, pattern: P) -> P:
    """Return *pattern*; the functions of a rule get its value by *name*.

    ``named("product", MatMul(x, y))``

    Raises:
        DefinitionError: *name* is no name of a parameter, or *pattern* is no pattern.
    """
    _check_name("pattern", name)
    marked: Any = Marked(as_operand(pattern, f"named({name!r})"), name=name)
    found: P = marked
    return found


def used_here(pattern: P) -> P:
    """Return *pattern*, which matches only if nothing outside of the whole pattern reads its value.

    Raises:
        DefinitionError: *pattern* is no pattern.
    """
    marked: Any = Marked(as_operand(pattern, "used_here"), is_used_here=True)
    found: P = marked
    return found


def any_of(*classes: type, **fields: Any) -> Any:
    """Return the pattern of a node of one of *classes*, or of a class derived from one.

    The node has the given *fields* and no predicate; its other fields may be anything::

        any_of(MaxPool, AvgPool, input=Relu(x))

    Raises:
        DefinitionError: One of *classes* is none of operators, or does not have a field.
    """
    if not classes:
        raise DefinitionError("any_of(): give a class of operators, such as ops.Relu")
    for cls in classes:
        if not isinstance(cls, type) or not hasattr(cls, "predicate"):
            raise DefinitionError(f"any_of: {cls!r:.80} is no class of operators, as ops.Relu is")
        for name in fields:
            _check_field(cls, name)
    return Item(classes, _patterns(classes[0], fields), is_exact=False)


def has_patterns(values: Iterable[object]) -> bool:
    """Return whether one of *values*, or of the items of a tuple or list among them, is a pattern.

    Every node and instruction that is built asks this.
    """
    for value in values:
        kind = value.__class__
        if kind in _KINDS or (kind in _GROUPS and has_patterns(value)):  # type: ignore[arg-type]
            return True
    return False


_KINDS = frozenset({Wildcard, Item, Number, ResultOf, Marked, Given})
_GROUPS = frozenset({tuple, list})


def pattern_of(cls: type, values: tuple[object, ...], fields: Mapping[str, object]) -> Any:
    """Return the pattern of what *cls* builds of these arguments.

    Raises:
        DefinitionError: It has no such fields, or they are no patterns and attributes.
    """
    names = _names_of(cls)
    if len(values) > len(names):
        raise DefinitionError(
            f"{opcode_of(cls)}: {len(values)} fields in a row, but it takes {', '.join(names)}"
        )
    given = dict(zip(names, values, strict=False))
    for name in fields:
        _check_field(cls, name)
        if name in given:
            raise DefinitionError(f"{opcode_of(cls)}: {name!r} is given twice")
    return Item((cls,), _patterns(cls, {**given, **fields}))


def as_operand(value: object, subject: str) -> Pattern:
    """Return *value* as the pattern of an operand; a number is that of a constant.

    Raises:
        DefinitionError: It is none.
    """
    if isinstance(value, Pattern):
        return value
    if hasattr(value, "is_ir_value"):
        return Given(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(value)
    raise DefinitionError(
        f"{subject}: {value!r:.80} is no pattern; give a wildcard, a number, or an operator of "
        "these, as in Relu(x) with x, = wildcards('x')"
    )


def unmarked(pattern: Pattern) -> Pattern:
    """Return *pattern* without the marks around it."""
    while isinstance(pattern, Marked):
        pattern = pattern.pattern
    return pattern


def parts_of(item: Item) -> Iterator[Pattern]:
    """Yield the patterns in the fields of *item*, in order."""
    for value in item.fields.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Pattern):
                yield part


@per_class
def defaults_of(cls: type) -> dict[str, Any]:
    """Return the defaults of the fields that a pattern may leave out, but for the common ones."""
    fields = dataclasses.fields(cls)
    hidden = (*_COMMON, *_UNSAID)
    known = (f for f in fields if f.init and f.name not in hidden)
    return {f.name: f.default for f in known if f.default is not dataclasses.MISSING}


@per_class
def required_of(cls: type) -> tuple[str, ...]:
    """Return the fields without a default."""
    return tuple(spec.name for spec in fields_of(cls) if not spec.has_default)


@per_class
def operand_names_of(cls: type) -> frozenset[str]:
    """Return the names of the fields that hold operands, the predicate among them."""
    return frozenset({"predicate", *(spec.name for spec in fields_of(cls) if spec.is_operand)})


@per_class
def written_names_of(cls: type) -> frozenset[str]:
    """Return the names of the fields of an instruction that hold what it only writes."""
    specs = (spec for spec in fields_of(cls) if spec.qualifier is not None)
    return frozenset(spec.name for spec in specs if spec.qualifier and spec.qualifier.name == "out")


def _names_of(cls: type) -> list[str]:
    """Return the fields of *cls* that may be given by their place, in order."""
    fields = dataclasses.fields(cls)
    return [f.name for f in fields if f.init and not f.kw_only]


def _check_field(cls: type, name: str) -> None:
    known = [*(spec.name for spec in fields_of(cls)), *_COMMON]
    if name not in known:
        raise DefinitionError(
            f"{opcode_of(cls)}: a pattern of it has no field {name!r}{closest(name, known)}"
        )


def _patterns(cls: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *fields* as :class:`Item` holds them."""
    operands = operand_names_of(cls)
    for name in written_names_of(cls) & fields.keys():
        if not isinstance(fields[name], Wildcard) and not hasattr(fields[name], "is_ir_value"):
            raise DefinitionError(
                f"{opcode_of(cls)}.{name}: it is written, so a pattern has a wildcard there, got "
                f"{fields[name]!r:.80}"
            )
    return {
        name: _operands(cls, name, value) if name in operands else _attribute(cls, name, value)
        for name, value in fields.items()
    }


def _operands(cls: type, name: str, value: object) -> Pattern | tuple[Pattern, ...] | None:
    subject = f"{opcode_of(cls)}.{name}"
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return tuple(as_operand(item, subject) for item in value)
    return as_operand(value, subject)


def _attribute(cls: type, name: str, value: object) -> object:
    if isinstance(value, Pattern) and not isinstance(value, Wildcard):
        raise DefinitionError(
            f"{opcode_of(cls)}.{name}: an attribute is a value or a wildcard, got {value!r}"
        )
    if isinstance(value, tuple | list) and has_patterns(value):
        raise DefinitionError(
            f"{opcode_of(cls)}.{name}: a wildcard matches a whole attribute; give one for the "
            "tuple, and check its items in a condition"
        )
    found = tuple(value) if isinstance(value, list) else value
    if not isinstance(found, Hashable):
        raise DefinitionError(
            f"{opcode_of(cls)}.{name}: an attribute is a number, a text or a tuple of these, got "
            f"{value!r:.80}; give a wildcard, and look at it in a condition"
        )
    return found


def _check_name(kind: str, name: object) -> None:
    is_name = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not is_name:
        raise DefinitionError(f"{kind} {name!r:.80}: give a valid name of a parameter")
    if name in RESERVED:
        raise DefinitionError(
            f"{kind} {name!r}: functions of a rule are given something else by this name; choose "
            "another one"
        )


def opcode_of(cls: type) -> str:
    """Return what text calls an operator or an instruction."""
    return str(getattr(cls, "opcode", cls.__name__))

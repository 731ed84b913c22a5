"""Rules that rewrite IR: a pattern, a replacement, and a condition. A rule is a pass.

::

    x, y = wildcards("x y")
    same = Rewrite(Relu(Relu(x)), Relu(x))
    net = glow_nb.compile(model, pipeline=(*glow_nb.INFERENCE, same))

Each level of the IR implements the application of rules, and registers it in :data:`LEVELS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from glow_nb.base.arguments import described
from glow_nb.base.errors import DefinitionError, GlowError
from glow_nb.base.foreign import name_of
from glow_nb.base.matching import check_orders, core_of
from glow_nb.base.override import override
from glow_nb.base.pattern import (
    RESERVED,
    Given,
    Item,
    Marked,
    Number,
    Pattern,
    ResultOf,
    Wildcard,
    as_operand,
    opcode_of,
    operand_names_of,
    parts_of,
    required_of,
    unmarked,
)
from glow_nb.base.schema import closest, listed

Apply = Callable[[Any, "Rules", Any], Any]

LEVELS: dict[type, Apply] = {}
"""The functions that apply rules, by the class of the IR that they take."""

_VARIABLE = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class Rules:
    """Several rules as one pass, which visits each node once for all of them.

    If several match, the first one is applied. The pass ends when no rule matches.

    Attributes:
        rules: The rules, in order.
        compiled: Their compiled form for each level of the IR.
    """

    def __init__(self, name: str, *rules: Rules, does: str = "") -> None:
        """Call the pass *name*.

        Args:
            name: The name in pipelines, observers and errors.
            rules: The rules; sets of rules stand for theirs.
            does: One line that says what it does, for ``print(net.pipeline)``.

        Raises:
            DefinitionError: There is no rule, or one of *rules* is none.
        """
        if not isinstance(name, str):
            raise DefinitionError(f"Rules({described(name)}): give a name and rules")
        for rule in rules:
            if not isinstance(rule, Rules):
                raise DefinitionError(f"rules {name!r}: {described(rule)} is no rule")
        if not rules:
            raise DefinitionError(f"rules {name!r}: there is no rule")
        self.rules: tuple[Rewrite, ...] = tuple(one for rule in rules for one in rule.rules)
        self._describe(name, does)

    def _describe(self, name: str, does: str) -> None:
        if not isinstance(does, str):
            raise DefinitionError(f"rules {name!r}: does={described(does)}: give a text")
        self.__name__ = name
        self.__doc__ = does or "; ".join(map(str, self.rules))
        self.compiled: dict[type, Any] = {}

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: levels to import, as each process compiles rules anew."""
        return {**self.__dict__, "compiled": {}, "levels": tuple(LEVELS.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become what a pickle holds; the modules of its levels are imported by now."""
        del state["levels"]
        self.__dict__.update(state)

    def __call__(self, ir: Any, *, traits: Any = None) -> Any:
        """Return *ir*, a graph or a program, rewritten by the rules.

        The same object is returned if no rule matches. *traits* are those of the kernels that a
        program is for (:mod:`glow_nb.llir.traits`), which pipelines fill in.

        Raises:
            GlowError: *ir* is neither, the rules do not terminate, or a replacement does not fit
                where its pattern was found.
        """
        for cls, apply in LEVELS.items():
            if isinstance(ir, cls):
                return apply(ir, self, traits)
        raise GlowError(f"rule {self.__name__!r} takes a graph or a program, got {described(ir)}")

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.__name__!r}: {'; '.join(map(str, self.rules))}"


class Rewrite(Rules):
    """One rule: where *pattern* matches and *when* holds, the *replacement* takes its place.

    Attributes:
        pattern: The pattern; the operator at its root is replaced.
        replacement: A pattern to build, or a function of a match.
        when: The condition, as a function of a match; None if there is none.
        names: The names of parameters that functions may have.
        template: The replacement, if it is a pattern.
        condition_names: The parameters of *when*.
        replacement_names: The parameters of a replacement that is a function.
        rules: This rule alone.
    """

    def __init__(
        self,
        pattern: Any,
        replacement: Any,
        *,
        when: Callable[..., object] | None = None,
        name: str = "",
    ) -> None:
        """Make the rule.

        Args:
            pattern: An operator of wildcards, numbers and operators: ``Relu(Relu(x))``.
            replacement: What is built of the same wildcards: ``Relu(x)``. Or a function whose
                parameters have the names of wildcards, and of what is :func:`named`: it gets the
                values that were found and returns a value, nodes that need not be emitted, or None
                if nothing is to be done. A parameter ``node`` gets the node that is replaced, one
                called ``rewriter`` the builder of new constants and the counter of uses.
            when: A function with such parameters, which returns whether the rule applies.
            name: The name in pipelines, observers and errors; by default the rule as text.

        Raises:
            DefinitionError: One of these is invalid, or has a parameter that the pattern lacks.
        """
        if not isinstance(name, str):
            raise DefinitionError(f"Rewrite(name={described(name)}): give a text")
        self.pattern = _checked_pattern(pattern)
        self.names = (*RESERVED, *_names_in(self.pattern))
        self.replacement, self.when = replacement, when
        subject = f"rule {name or repr(self.pattern)!r}"
        check_orders(items_in(self.pattern), self.pattern)
        self.condition_names = (
            () if when is None else _parameters(when, self.names, f"{subject}: its condition")
        )
        if isinstance(replacement, Pattern | int | float):
            self.template: Pattern | None = as_operand(replacement, subject)
            _check_template(self.template, self.names, subject)
            if repr(self.template) == repr(self.pattern):
                raise DefinitionError(f"{subject}: it replaces its pattern by the same again")
            self.replacement_names: tuple[str, ...] = ()
        else:
            self.template = None
            self.replacement_names = _parameters(
                replacement, self.names, f"{subject}: its replacement"
            )
        self.rules = (self,)
        told = getattr(replacement, "__doc__", None) if self.template is None else None
        self._describe(name or str(self), told or "")

    @override
    def __str__(self) -> str:
        made = name_of(self.replacement) if self.template is None else repr(self.template)
        return f"{self.pattern!r} -> {made}"


def rule(
    pattern: Any, *, when: Callable[..., object] | None = None
) -> Callable[[Callable[..., Any]], Rewrite]:
    """Make a function the replacement of *pattern*, and a rule of the function's name.

    ::

        @rule(Relu(Relu(x)))
        def drop_double_relu(x):
            return Relu(x)

    :class:`Rewrite` describes the parameters and the result of the function.
    """
    return lambda function: Rewrite(pattern, function, when=when, name=name_of(function))


def _checked_pattern(pattern: object) -> Pattern:
    """Return *pattern*; raise DefinitionError unless it has an operator at its root."""
    if not isinstance(pattern, Pattern):
        raise DefinitionError(
            f"pattern {pattern!r:.80}: it has no wildcards; write what to look for, such as "
            "Relu(Relu(x)) with x, = wildcards('x')"
        )
    root = unmarked(pattern)
    if isinstance(root, ResultOf):
        raise DefinitionError(
            f"pattern {root!r}: give the operator, whose results are replaced together"
        )
    if not isinstance(root, Item):
        raise DefinitionError(
            f"pattern {root!r}: it has no operator at its root and would fit everything; begin "
            "with one, as in Relu(x)"
        )
    marked = pattern
    while isinstance(marked, Marked):
        if marked.is_used_here:
            raise DefinitionError(
                f"pattern {root!r}: used_here is for operands; the root is replaced for all of its "
                "readers"
            )
        marked = marked.pattern
    for item in items_in(pattern):
        _check_item(item, root)
    return pattern


def _check_item(item: Item, root: Pattern) -> None:
    """Raise DefinitionError if *item* cannot be in the pattern *root*."""
    for part in map(unmarked, parts_of(item)):
        if isinstance(part, Given):
            raise DefinitionError(
                f"pattern {root!r}: {part!r} is a value of a graph; give a wildcard in its place"
            )
        if isinstance(part, Number) and part.value != part.value:
            raise DefinitionError(
                f"pattern {root!r}: no number equals NaN; give a wildcard with a condition"
            )
    for cls in item.classes:
        if getattr(cls, "has_side_effects", False):
            raise DefinitionError(
                f"pattern {root!r}: {opcode_of(cls)!r} has side effects, so nothing can come "
                "instead"
            )


def items_in(pattern: Pattern) -> Iterator[Item]:
    """Yield the operators of *pattern*, each once."""
    seen: set[Item] = set()
    left = [core_of(pattern)]
    while left:
        item = left.pop()
        if item in seen:
            continue
        seen.add(item)
        yield item
        parts = map(unmarked, parts_of(item))
        left += [core_of(part) for part in parts if isinstance(part, Item | ResultOf)]


def conditions_in(pattern: Pattern) -> Iterator[Callable[[Any], bool]]:
    """Yield the conditions of the wildcards in *pattern*."""
    for item in items_in(pattern):
        for part in map(unmarked, parts_of(item)):
            if isinstance(part, Wildcard):
                yield from part.conditions


def _names_in(pattern: Pattern) -> tuple[str, ...]:
    """Return the names of the wildcards and of what is named in *pattern*.

    Raises:
        DefinitionError: Two different things have one name.
    """
    found: dict[str, tuple[Pattern, bool]] = {}
    for item in items_in(pattern):
        for name, value in item.fields.items():
            is_operand = name in operand_names_of(item.classes[0])
            for part in value if isinstance(value, tuple) else (value,):
                for called, named in _called(part):
                    _claim(found, pattern, called, (named, is_operand))
    for called, named in _called(pattern):
        _claim(found, pattern, called, (named, True))
    return tuple(found)


def _claim(
    found: dict[str, tuple[Pattern, bool]], whole: Pattern, name: str, use: tuple[Pattern, bool]
) -> None:
    known = found.setdefault(name, use)
    if known[0] is not use[0]:
        raise DefinitionError(f"pattern {whole!r}: two things are called {name!r}")
    if known[1] is not use[1]:
        raise DefinitionError(f"pattern {whole!r}: {name!r} is an operand and an attribute")


def _called(part: object) -> Iterator[tuple[str, Pattern]]:
    """Yield the names that *part* gives, and what it gives them to."""
    while isinstance(part, Marked):
        if part.name:
            yield part.name, unmarked(part)
        part = part.pattern
    if isinstance(part, Wildcard) and part.name:
        yield part.name, part


def _check_template(template: Pattern, names: tuple[str, ...], subject: str) -> None:
    """Raise DefinitionError unless *template* can be built of what is called *names*."""
    if isinstance(template, Wildcard):
        _check_bound(template, names, subject)
        return
    if isinstance(template, Given):
        raise DefinitionError(
            f"{subject}: its replacement has {template!r}, a value of a graph; let a function "
            "return the node"
        )
    if isinstance(template, Number):
        raise DefinitionError(
            f"{subject}: a number alone has no type; let a function return a constant"
        )
    if isinstance(template, Marked) or not isinstance(template, Item) or not template.is_exact:
        raise DefinitionError(
            f"{subject}: {template!r} cannot be built; a replacement consists of operators, "
            "wildcards and numbers, or is a function"
        )
    missing = [name for name in required_of(template.classes[0]) if name not in template.fields]
    if missing:
        raise DefinitionError(f"{subject}: {template!r} needs {', '.join(map(repr, missing))}")
    parts = list(parts_of(template))
    if parts and all(isinstance(part, Number) for part in parts):
        raise DefinitionError(
            f"{subject}: {template!r} has only numbers as operands, which do not determine a type"
        )
    for part in parts:
        if not isinstance(part, Number):
            _check_template(part, names, subject)


def _check_bound(wildcard: Wildcard, names: tuple[str, ...], subject: str) -> None:
    if not wildcard.name:
        raise DefinitionError(f"{subject}: its replacement has ANY; give that a name")
    if wildcard.name not in names:
        known = [name for name in names if name not in RESERVED]
        raise DefinitionError(
            f"{subject}: its replacement has {wildcard.name!r}, which the pattern lacks"
            f"{closest(wildcard.name, known) or f'; it has {listed(known)}'}"
        )


def _parameters(function: object, names: tuple[str, ...], subject: str) -> tuple[str, ...]:
    """Return the parameters of *function*; raise DefinitionError unless they are among *names*."""
    if not callable(function) or isinstance(function, type):
        raise DefinitionError(
            f"{subject} is {function!r:.80}; give a function whose parameters have the names of "
            "wildcards"
        )
    try:
        found = _names_of_parameters(function)
    except (TypeError, ValueError) as error:  # a function of C may have no signature
        raise DefinitionError(f"{subject} cannot be called by names: {error}") from error
    for name in found:
        if name not in names:
            raise DefinitionError(
                f"{subject} asks for {name!r}, which the pattern lacks"
                f"{closest(name, names) or f'; it has {listed(names)}'}"
            )
    return found


def _names_of_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that have no default.

    Raises:
        ValueError: They are not known.
        TypeError: One is given by its name alone.
    """
    code: CodeType | None = function.__code__ if isinstance(function, FunctionType) else None
    is_plain = code and not (getattr(function, "__defaults__", None) or code.co_kwonlyargcount)
    if code and is_plain and not code.co_flags & _VARIABLE:
        return code.co_varnames[: code.co_argcount]
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    for parameter in needed:
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise TypeError(f"{parameter.name!r} comes after a '*'")
    return tuple(p.name for p in needed)

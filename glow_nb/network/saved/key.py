"""What a compiled network depends on, as a key: two of the same key are the same network.

The model counts by its content, options by their values, passes and other functions of the caller,
registered or given, by the source of the files that they come from and by the variables that they
read, and the compiler by its own source and by the versions of the packages that it uses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

from glow_nb.base.extensions import EXTENDING_MODULES
from glow_nb.base.pattern import Item, Marked, Pattern, ResultOf
from glow_nb.base.rewriting import Rules, conditions_in
from glow_nb.base.version import __version__
from glow_nb.network.saved.manifest import FORMAT
from glow_nb.network.saved.variables import (
    held_by,
    is_callers,
    variables_of,
    variables_of_all,
)
from glow_nb.system.file_digests import digest_of_file
from glow_nb.system.installed import identity_of_package, installed_versions
from glow_nb.system.processor import processor
from glow_nb.system.sha256 import sha256

PACKAGES = ("numpy", "numba", "llvmlite", "onnx", "ml_dtypes")
"""The packages whose versions count."""

_ENVIRONMENT = ("GLOW_NB_CACHES_OF",)
"""Variables that change what is compiled."""

_PACKAGE = Path(__file__).parents[2]


class NoKey(Exception):
    """An argument has no content that could be compared; the message says which and why."""


def network_key(model: str, arguments: Mapping[str, object]) -> str:
    """Return the key of the network that *model*, a digest, makes with *arguments*.

    Raises:
        NoKey: An argument is an object of the caller, or a function without a source of its own.
    """
    parts = [
        *(FORMAT, model, processor(), identity_of_package(_PACKAGE)),
        *(f"{name} {version}" for name, version in versions().items()),
        *(f"{name}={os.environ.get(name)!r}" for name in _ENVIRONMENT),
        *(f"{name} {_source_of(name)}" for name in EXTENDING_MODULES),
        *(f"{name}={value}" for name, value in sorted(_read_by_extensions().items())),
        *(f"{name}={spelled(value)}" for name, value in sorted(arguments.items())),
    ]
    digest = sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:40]


def _read_by_extensions() -> dict[str, str]:
    """Return what functions and classes that the caller has registered hold and read, as texts."""
    things = [thing for known in EXTENDING_MODULES.values() for thing in known]
    return {name: _as_far_as_known(value) for name, value in variables_of_all(things).items()}


def _as_far_as_known(value: object) -> str:
    """Return *value* as a text; of an object that cannot be compared, its class."""
    if isinstance(value, tuple):
        return f"({_listed(map(_as_far_as_known, value))})"
    try:
        return spelled(value)
    except (NoKey, RecursionError):
        return f"{type(value).__module__}.{type(value).__qualname__}"


def versions() -> dict[str, str]:
    """Return the versions of glow_nb, Python and the packages that count."""
    found = installed_versions()
    return {
        "glow_nb": __version__,
        "python": sys.version.split()[0],
        **{name: found.get(name, "unknown") for name in PACKAGES},
    }


def spelled(value: object) -> str:
    """Return *value* as a text that other values do not have; raise NoKey if there is none."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Enum | np.generic):
        return f"{type(value).__qualname__} {value!r}"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, np.ndarray):
        content = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype.str} {value.shape} {content}"
    if isinstance(value, Mapping):
        items = sorted((spelled(k), spelled(v)) for k, v in value.items())
        return f"{{{_listed(f'{k}: {v}' for k, v in items)}}}"
    if isinstance(value, set | frozenset):
        return f"{{{_listed(sorted(map(spelled, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({_listed(map(spelled, value))})"
    return _spelled_object(value)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _spelled_object(value: object) -> str:
    """Return a function, or an object of this package, as a text."""
    if isinstance(value, partial):
        return f"partial({spelled(value.func)}, {spelled(value.args)}, {spelled(value.keywords)})"
    if isinstance(value, FunctionType):
        return _spelled_function(value)
    if isinstance(value, Rules):
        return _spelled_rules(value)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and name.startswith("glow_nb."):
        inside = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{name}{spelled(inside)}"
    raise NoKey(f"{name} is no value that could be compared")


def _spelled_rules(rules: Rules) -> str:
    """Return what *rules* look for, what comes instead, and the functions that are in them."""
    parts = [rules.__name__]
    for rule in rules.rules:
        functions = [*conditions_in(rule.pattern), rule.when]
        functions += [rule.replacement] if rule.template is None else []
        parts += [_spelled_pattern(rule.pattern, {}), _spelled_pattern(rule.template, {})]
        parts += map(spelled, functions)
    return f"rules({_listed(parts)})"


def _spelled_pattern(pattern: object, seen: dict[object, int]) -> str:
    """Return *pattern* as a text; one that was *seen* before, as its number."""
    if isinstance(pattern, tuple):
        return f"({_listed(_spelled_pattern(part, seen) for part in pattern)})"
    if isinstance(pattern, Marked):
        inner = _spelled_pattern(pattern.pattern, seen)
        return f"{pattern.name!r} {pattern.is_used_here} {inner}"
    if isinstance(pattern, ResultOf):
        return f"{_spelled_pattern(pattern.item, seen)}#{pattern.index}"
    if not isinstance(pattern, Item):
        return repr(pattern) if isinstance(pattern, Pattern) else spelled(pattern)
    if pattern in seen:
        return f"item {seen[pattern]}"
    seen[pattern] = len(seen)
    kinds = [f"{cls.__module__}.{cls.__qualname__}" for cls in pattern.classes]
    fields = [f"{name}={_spelled_pattern(part, seen)}" for name, part in pattern.fields.items()]
    return f"{_listed(kinds)} {pattern.is_exact}({_listed(fields)})"


def _spelled_function(function: FunctionType) -> str:
    """Return where *function* stands and what it holds, with a digest of its source.

    Of functions of this package, the source counts anyway; others also count by the global
    variables that they read.
    """
    code, name = function.__code__, f"{function.__module__}.{function.__qualname__}"
    if code.co_name == "<lambda>":
        raise NoKey(f"{name} has no name of its own")
    try:
        held = held_by(function)
        owners = dict.fromkeys(
            map(str, (function.__module__, function.__globals__.get("__name__")))
        )
        sources = [_source_of(owner) for owner in owners if not owner.startswith("glow_nb.")]
        read = variables_of(function) if sources else {}
    except ValueError:
        raise NoKey(f"{name} holds a variable without a value") from None
    if sources and not os.path.isfile(code.co_filename):
        raise NoKey(f"{name} has no source file")
    return f"{name} {code.co_firstlineno}{spelled(held)} {_listed(sources)} {spelled(read)}"


def _source_of(name: str) -> str:
    """Return the digests of the source of the caller's module *name*, and of those that it uses."""
    module = sys.modules.get(name)
    found = sorted(_own_files(module, {})) if module else []
    if not found:
        raise NoKey(f"the module {name} has no source file")
    return _listed(map(digest_of_file, found))


def _own_files(module: ModuleType, seen: dict[str, None]) -> Iterator[Path]:
    """Yield the source of *module* and of the caller's other modules that it has names of."""
    place = getattr(module, "__file__", None)
    if place is None or module.__name__ in seen or not is_callers(place):
        return
    seen[module.__name__] = None
    yield Path(place)
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        other = sys.modules.get(name) if isinstance(name, str) else None
        if other is not None:
            yield from _own_files(other, seen)

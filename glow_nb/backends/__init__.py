"""Backends, which execute programs: the interpreter in NumPy, and the cpu.

This level imports `codegen` and the levels below it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from typing_extensions import get_protocol_members

from glow_nb.backends.backend import Backend, ModuleBackend, VariantBackend
from glow_nb.backends.cpu import Cpu
from glow_nb.backends.options import BackendOptions
from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError
from glow_nb.base.precision import Precision
from glow_nb.base.schema import Registry

BackendLike = Literal["cpu", "interpreter"] | str | Backend | BackendOptions
"""What names a backend: its name, its options, or itself."""


def _interpreter() -> Backend:
    from glow_nb.backends.interpreter import Interpreter

    return Interpreter()


BACKENDS: Registry[str, Callable[[], Backend | BackendOptions]] = Registry("backend")
BACKENDS.add("cpu", Cpu)
BACKENDS.add("interpreter", _interpreter)

_OPTIONS: tuple[type[BackendOptions], ...] = (Cpu,)


def register_operators() -> None:
    """Import all operators and instructions, those of backends too: the words of IR text."""
    import glow_nb.hlir.ops
    import glow_nb.kernels.operators
    import glow_nb.llir.instructions  # noqa: F401


def option_names() -> tuple[str, ...]:
    """Return the names of the options of all backends that come with glow_nb."""
    return tuple(dict.fromkeys(field.name for kind in _OPTIONS for field in fields(kind)))


def backend_named(
    backend: BackendLike, *, threads: int = 1, options: Mapping[str, object] = MappingProxyType({})
) -> Backend:
    """Return the backend that *backend* names, for networks that *threads* cores run.

    Every backend has the options of :class:`BackendOptions`, in which precision it computes.

    Args:
        backend: A name in :data:`BACKENDS`, an options object, or a backend, taken as it is.
        threads: Cores that share the work of one run.
        options: Options by name, of a backend that is given by its name. None means the default.

    Raises:
        OptionError: It names no backend, or an option does not belong to the backend, has an
            invalid value, or is given twice.
    """
    given = {name: value for name, value in options.items() if value is not None}
    made = [_with_options(kind, given) for kind in _OPTIONS]  # a wrong value is always reported
    wanted = backend
    if isinstance(backend, str):
        named = (own for own in made if own.name == backend)
        backend = next(named, None) or _named(backend)
    elif isinstance(backend, BackendOptions) and given:
        name, value = next(iter(given.items()))
        raise OptionError(
            f"{name}={value!r}: backend={backend!r} has options of its own; give {name} there alone"
        )
    if not isinstance(backend, BackendOptions):
        require_options(wanted, given)
    asked: BackendOptions | None = made[0] if given.keys() & _OF_ALL else None
    if isinstance(backend, BackendOptions):
        asked, backend = backend, backend.make(threads=threads)
    chosen = backend
    missing = sorted(get_protocol_members(Backend) - set(dir(chosen)))
    if isinstance(chosen, type) or "compile" in missing:
        raise OptionError(
            f"backend={described(backend)}: give the name of one, its options such as "
            "glow_nb.Cpu(), or a Backend"
        )
    if missing:
        raise OptionError(
            f"backend={described(backend)}: it has no {', '.join(missing)}; "
            "let its class inherit from glow_nb.Backend, which has what most backends need"
        )
    if chosen.precision not in get_args(Precision):
        raise OptionError(
            f"backend={described(backend)}: its precision is {described(chosen.precision)}; it may "
            f"be one of {get_args(Precision)}"
        )
    return chosen if asked is None else with_precision(chosen, asked.precision, asked.keep)


_OF_ALL = frozenset({"precision", "keep"})
"""Options that each backend has."""


def require_options(
    backend: object, given: Mapping[str, object], own: Collection[str] = _OF_ALL
) -> None:
    """Raise OptionError if *given* says something by an option that *backend* does not have.

    Args:
        backend: The backend, or what names it.
        given: Options of the backends that come with glow_nb, by name. A default says nothing, nor
            does "off": what a backend does not have is off.
        own: The names of the options that *backend* has.
    """
    for kind in _OPTIONS:
        for known in fields(kind):
            value = given.get(known.name)
            says_nothing = isinstance(value, Hashable) and value in (None, known.default, "off")
            if known.name in own or says_nothing:
                continue
            raise OptionError(
                f"{known.name}={described(value)}: it is an option of backend {kind.name!r}, which "
                f"backend={described(backend)} does not have; leave it out"
            )


def with_precision(backend: Backend, precision: Precision, keep: Sequence[str] = ()) -> Backend:
    """Return *backend*, which computes in *precision* but for the layers that *keep* names."""
    if (backend.precision, tuple(backend.keep)) == (precision, tuple(keep)):
        return backend
    changed = copy.copy(backend)  # of its own class
    changed.precision, changed.keep = precision, tuple(keep)
    return changed


def _with_options(kind: type[BackendOptions], given: Mapping[str, object]) -> BackendOptions:
    """Return the options of *kind*, with those of the *given* ones that it has."""
    own = {field.name for field in fields(kind)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if name in own}
    return kind(**chosen)


def _named(name: str) -> Backend | BackendOptions:
    if name not in BACKENDS:
        known = f"use one of {', '.join(sorted(BACKENDS))}, which run on this processor"
        hint = f"did you mean {name.lower()!r}?" if name.lower() in BACKENDS else known
        raise OptionError(f"unknown backend {name!r}; {hint}")
    return BACKENDS[name]()


__all__ = [
    "BACKENDS",
    "Backend",
    "BackendLike",
    "BackendOptions",
    "Cpu",
    "ModuleBackend",
    "VariantBackend",
    "backend_named",
    "option_names",
    "register_operators",
    "require_options",
    "with_precision",
]

"""The backends that come with glow_nb, imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from typing_extensions import get_protocol_members

from glow_nb.arguments import described
from glow_nb.backends.backend import Backend, VariantBackend
from glow_nb.backends.cpu import Cpu, Winograd
from glow_nb.backends.options import BackendOptions
from glow_nb.errors import OptionError
from glow_nb.schema import Registry

BackendLike = Literal["cpu", "interpreter"] | str | Backend | BackendOptions
"""What names a backend: its name, its options, or itself."""


def _interpreter() -> Backend:
    from glow_nb.backends.interpreter import Interpreter

    return Interpreter()


BACKENDS: Registry[str, Callable[[], Backend | BackendOptions]] = Registry("backend")
BACKENDS.add("cpu", Cpu)
BACKENDS.add("interpreter", _interpreter)


def backend_named(
    backend: BackendLike,
    *,
    threads: int = 1,
    winograd: Winograd | None = None,
    tune: bool | None = None,
) -> Backend:
    """Return the backend that *backend* names, for networks that *threads* cores run.

    Args:
        backend: A name in :data:`BACKENDS`, an options object, or a backend, taken as it is.
        threads: Cores that share the work of one run.
        winograd: Short for ``Cpu(winograd=...)``; other backends have no use for it.
        tune: Short for ``Cpu(tune=...)``, likewise.

    Raises:
        OptionError: It names none, or an option has a value that it may not have or is given twice.
    """
    given = {"winograd": winograd, "tune": tune}
    short = {name: value for name, value in given.items() if value is not None}
    of_cpu = Cpu(**short)  # type: ignore[arg-type]  # a wrong value is told, whatever the backend
    if isinstance(backend, str):
        backend = of_cpu if backend == Cpu.name else _named(backend)
    elif isinstance(backend, BackendOptions) and short:
        name, value = next(iter(short.items()))
        raise OptionError(
            f"{name}={value!r}: backend={backend!r} has options of its own; give {name} there alone"
        )
    chosen = backend.make(threads=threads) if isinstance(backend, BackendOptions) else backend
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
    return chosen


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
    "VariantBackend",
    "Winograd",
    "backend_named",
]

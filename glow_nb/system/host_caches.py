"""The data caches of this machine as the system describes them: what each holds, and who shares it.

Linux tells them in a folder for each processor, which is a hardware thread::

    cpu0/cache/index2: level 2, type Unified, size 1024K, shared_cpu_list 0,8
    cpu0/topology: core_cpus_list 0,8

Of other systems nothing is known, and the usual sizes of :class:`glow_nb.kernels.target.Target` are
assumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

KIBIBYTE = 1024
PROCESSORS = Path("/sys/devices/system/cpu")
CORE_LISTS = ("core_cpus_list", "thread_siblings_list")
"""Names of the list of a core's processors, the second one before Linux 5.5."""


class Cache(NamedTuple):
    """One cache.

    Attributes:
        level: 1 for the nearest to the processor.
        size_bytes: The size of the cache.
        processors: Numbers of the processors that share it.
    """

    level: int
    size_bytes: int
    processors: frozenset[int]


def available_processors() -> tuple[int, ...]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def caches_of(processor: int, folder: Path | None = None) -> tuple[Cache, ...]:
    """Return the data caches of *processor*, nearest first; none where the system is silent.

    Args:
        processor: Its number.
        folder: The folder that describes the processors, :data:`PROCESSORS` if not given.
    """
    places = ((folder or PROCESSORS) / f"cpu{processor}" / "cache").glob("index*")
    found = (_read_cache(place) for place in places)
    return tuple(sorted((c for c in found if c is not None), key=lambda cache: cache.level))


def caches_of_all(processors: Iterable[int], folder: Path | None = None) -> frozenset[Cache]:
    """Return the data caches that any of *processors* has, a shared one once."""
    return frozenset(cache for number in processors for cache in caches_of(number, folder))


def cores_of(processors: Iterable[int], folder: Path | None = None) -> set[frozenset[int]]:
    """Return the cores of *processors*, each as the numbers of all its processors.

    A processor is a core of its own if nothing is known.
    """
    return {_core(number, folder or PROCESSORS) for number in processors}


def _read_cache(place: Path) -> Cache | None:
    """Return the data cache that the files in *place* describe; None if it is not one."""
    try:
        level, kind, size, processors = (
            (place / name).read_text(encoding="ascii").strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind == "Instruction" or not size.endswith("K"):
            return None
        return Cache(int(level), int(size[:-1]) * KIBIBYTE, frozenset(_numbers(processors)))
    except (OSError, ValueError):
        return None


def _core(processor: int, folder: Path) -> frozenset[int]:
    """Return the processors of the core that *processor* belongs to."""
    for name in CORE_LISTS:
        try:
            text = (folder / f"cpu{processor}" / "topology" / name).read_text(encoding="ascii")
            return frozenset(_numbers(text.strip()))
        except (OSError, ValueError):
            continue
    return frozenset((processor,))


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of a list such as ``0-3,8-11``."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)

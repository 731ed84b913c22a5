"""The memory that this process may use, and errors for objects that need more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ContextDecorator
from pathlib import Path
from typing import NamedTuple

from glow_nb.base.errors import MemoryLimitError

PROCESS_PAGES = Path("/proc/self/statm")
PROCESS_GROUPS = Path("/proc/self/cgroup")
GROUP_ROOT = Path("/sys/fs/cgroup")

CHECKED_BYTES = 1 << 20
"""The least memory of a run that is worth the tenth of a millisecond that a check takes."""

_SHOWN_TENSORS = 3


class MemoryLimit(NamedTuple):
    """One of the limits that hold for this process.

    Attributes:
        size_bytes: The most bytes that the process may use.
        source: What sets the limit.
        used_bytes: The bytes that the process uses already.
    """

    size_bytes: int
    source: str
    used_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        """The rest of the memory that the process may use."""
        return max(0, self.size_bytes - self.used_bytes)


def memory_limit() -> MemoryLimit | None:
    """Return the lowest memory limit of this process; None if the system reports none."""
    addresses, resident = _used_memory()
    found = [
        *(limit._replace(used_bytes=addresses) for limit in _address_space()),
        *(
            limit._replace(used_bytes=resident)
            for limit in (*_physical_memory(), *_control_groups())
        ),
    ]
    return min(found, key=lambda limit: limit.free_bytes, default=None)


def _used_memory() -> tuple[int, int]:
    """Return the bytes of addresses and of memory that this process has; zeros if not known."""
    try:
        addresses, resident, *_ = map(int, PROCESS_PAGES.read_text(encoding="ascii").split())
        page = os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # other systems have no such file
        return 0, 0
    return addresses * page, resident * page


def _physical_memory() -> Iterator[MemoryLimit]:
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # other systems have no such numbers
        return
    if size > 0:
        yield MemoryLimit(size, "the machine's memory")


def _address_space() -> Iterator[MemoryLimit]:
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limits
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield MemoryLimit(soft, "the limit of its address space, ulimit -v")


def _control_groups() -> Iterator[MemoryLimit]:
    """Yield the limits of the control groups of Linux, versions 1 and 2, and of those around them.

    A line of the list is ``number:controllers:path``; in version 2 the first two are ``0`` and
    empty. A group without limit has ``max`` or a number near 2 ** 63.
    """
    try:
        lines = PROCESS_GROUPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if not controllers:
            yield from _group_limits(GROUP_ROOT, group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _group_limits(GROUP_ROOT / "memory", group, "memory.limit_in_bytes")


def _group_limits(root: Path, group: str, name: str) -> Iterator[MemoryLimit]:
    inner = root / group.strip("/")
    for folder in (inner, *inner.parents):
        if not folder.is_relative_to(root):
            return
        try:
            yield MemoryLimit(int((folder / name).read_text(encoding="ascii")), "its control group")
        except (OSError, ValueError):  # no limit, or a path that only the host knows
            continue


def require_memory(
    subject: str, parts: dict[str, int], tensors: Iterable[tuple[str, int]] = ()
) -> None:
    """Raise MemoryLimitError if *subject* needs more memory than this process may still have.

    Args:
        subject: The name of the object that needs it.
        parts: The bytes by what they are for, without those that the process has already.
        tensors: Names and bytes of all tensors; the error tells the largest.
    """
    needed, limit = sum(parts.values()), memory_limit()
    if limit is None or needed <= limit.free_bytes:
        return
    shares = ", ".join(f"{what} {_bytes(size)}" for what, size in parts.items() if size)
    largest = sorted(tensors, key=lambda tensor: -tensor[1])[:_SHOWN_TENSORS]
    shown = ", ".join(f"{name} {_bytes(size)}" for name, size in largest)
    used = f", and uses {_bytes(limit.used_bytes)} of it already" if limit.used_bytes else ""
    raise MemoryLimitError(
        f"{subject}: it needs {_bytes(needed)} of memory ({shares}), but the process may use "
        f"{_bytes(limit.size_bytes)} ({limit.source}){used}; "
        f"{f'the largest tensors are {shown}; ' if shown else ''}"
        "use smaller sizes, or more memory"
    )


def require_run_memory(subject: str, parts: dict[str, int]) -> None:
    """Do what :func:`require_memory` does, but for runs, many of which take next to nothing."""
    if sum(parts.values()) >= CHECKED_BYTES:
        require_memory(subject, parts)


def out_of_memory(subject: str, error: MemoryError) -> MemoryLimitError:
    """Return the error that says that *subject* got no memory, *error* being the system's."""
    reason = f" ({error})" if str(error) else ""
    return MemoryLimitError(
        f"{subject}: the system gave no more memory{reason}; use smaller sizes, or more memory"
    )


class within_memory(ContextDecorator):  # noqa: N801 - reads like a function, with within_memory(...)
    """Run the body of the statement; a MemoryError in it becomes that of :func:`out_of_memory`.

    It is a class since each run of a device passes here: a generator would take microseconds.
    """

    def __init__(self, subject: str) -> None:
        """Raise MemoryLimitError about the *subject*."""
        self._subject = subject

    def __enter__(self) -> None:
        """Begin with the body."""

    def __exit__(self, _: object, cause: BaseException | None, __: object) -> None:
        """Raise the error of ours, if the body got no memory."""
        if isinstance(cause, MemoryError):
            raise out_of_memory(self._subject, cause) from cause


def _bytes(size: int) -> str:
    return f"{size} bytes ({size / 2**30:.2f} GiB)" if size >= 1 << 27 else f"{size} bytes"

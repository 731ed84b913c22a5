"""The right to use the tile registers of AMX, Intel's matrix unit.

Linux keeps these registers, 8 KiB of them, from a process that has not asked for them: the first
tile instruction would end it. A process asks once. All of its threads have the right then, those
that were started before among them, and so have children that it forks, but no other program that
it starts. Whatever may run tile instructions asks first: what compiles for this machine, and what
reads a network that was compiled for it.

The system refuses where it does not know these registers (before Linux 5.16), where a sandbox
filters the call, and where a thread has a signal stack too small for what a signal then saves.
A process that is refused plans kernels as for a processor without tiles.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable, Collection
from typing import NamedTuple

from glow_nb.base.errors import OptionError
from glow_nb.base.log import INFO, WARNING, log
from glow_nb.system.first_core import first_core

TILES_VARIABLE = "GLOW_NB_TILES"
"""The environment variable by which a user refuses the right: ``off``."""

TILE_FLAGS = frozenset({"amx_tile", "amx_bf16", "amx_int8"})
"""What Linux calls the registers, and their products of bfloat16 and of bytes."""

_ARCH_PRCTL = 158
_REQUEST_REGISTERS = 0x1023
_TILE_DATA = 18

_REASONS = {
    errno.EINVAL: "Linux does not know the right to tiles; 5.16 and later ones do",
    errno.ENOSYS: "the system, or a sandbox, does not know the call that asks for tiles",
    errno.EOPNOTSUPP: "Linux does not save tiles on this machine",
    errno.EPERM: "a sandbox forbids to ask for tiles",
    errno.EACCES: "a sandbox forbids to ask for tiles",
    errno.ENOSPC: "a thread has a signal stack (sigaltstack) that is too small for tiles",
}
"""Why the call fails, by its error."""


class TileRegisters(NamedTuple):
    """Whether this process may use tiles.

    Attributes:
        exist: Whether the processor has them, as far as the system tells.
        refusal: Why they may not be used; empty if they may.
    """

    exist: bool
    refusal: str

    @property
    def are_usable(self) -> bool:
        """Return whether code of this process may use them."""
        return not self.refusal

    @property
    def are_refused(self) -> bool:
        """Return whether they are there and may not be used."""
        return self.exist and not self.are_usable


@functools.cache
def tile_registers() -> TileRegisters:
    """Ask the system for the tile registers, once a process, and return the answer.

    A refusal on a processor that has them is one line in the log.

    Raises:
        OptionError: The environment variable has another value than ``on`` or ``off``.
    """
    is_wanted = _is_wanted()
    found = answered(first_core().get("flags", "").split(), is_wanted, _request)
    if found.are_refused:
        log(
            WARNING if is_wanted else INFO, "tiles of the processor are not used: %s", found.refusal
        )
    return found


def answered(flags: Collection[str], is_wanted: bool, request: Callable[[], int]) -> TileRegisters:
    """Return whether tiles may be used.

    Args:
        flags: The features of the processor, as Linux names them.
        is_wanted: Whether the user allows it.
        request: Asks the system; returns 0 or the number of an error.
    """
    if not set(flags) >= TILE_FLAGS:
        return TileRegisters(exist=False, refusal="the processor has none")
    if not is_wanted:
        return TileRegisters(exist=True, refusal=f"{TILES_VARIABLE}=off")
    failure = request()
    if not failure:
        return TileRegisters(exist=True, refusal="")
    reason = _REASONS.get(failure, "the system refuses tiles")
    return TileRegisters(exist=True, refusal=f"{reason} ({os.strerror(failure)})")


def _is_wanted() -> bool:
    chosen = os.environ.get(TILES_VARIABLE) or "on"
    if chosen not in ("on", "off"):
        raise OptionError(f"{TILES_VARIABLE}={chosen!r:.40}: give on or off")
    return chosen == "on"


def _request() -> int:
    """Ask Linux for the registers; return 0, or the number of its error."""
    system = os.uname()
    if (system.sysname, system.machine) != ("Linux", "x86_64") or sys.maxsize < 2**32:
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(_ARCH_PRCTL, _REQUEST_REGISTERS, _TILE_DATA) == 0:
        return 0
    return ctypes.get_errno()

"""A module of this package, run by this Python in a process of its own.

A plain subprocess and not ``multiprocessing``: it imports nothing of the program that started it,
so it works from a script without a main guard, a notebook and a daemon.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

_LAST_BYTES = 2000


def can_start() -> bool:
    """Return whether this interpreter can be started again.

    An application that embeds Python names itself as the interpreter, and must not be started.
    """
    return "py" in Path(sys.executable or "").name.lower() and not getattr(sys, "frozen", False)


class ChildProcess:
    """A process that runs a module, in a session of its own.

    An interrupt from the keyboard is for its parent to handle. What it prints is kept.

    Attributes:
        process: The process.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        pass_fds: tuple[int, ...] = (),
        stdin: int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start *module* with *arguments*; it keeps the descriptors *pass_fds*.

        Raises:
            OSError: The system does not start it.
        """
        self._output = _scratch_file()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=stdin,
                stdout=self._output or subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                env=_environment() | dict(environment or {}),
                start_new_session=True,
            )
        except OSError:
            self.close()
            raise

    def last_output(self) -> str:
        """Return the end of what it printed."""
        if self._output is None:
            return ""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _LAST_BYTES))
        return self._output.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Forget what it printed."""
        if self._output is not None:
            with contextlib.suppress(OSError):
                self._output.close()


def _scratch_file() -> IO[bytes] | None:
    try:
        return tempfile.TemporaryFile()
    except OSError:  # nowhere to write: what the process prints is lost, its work is not
        return None


def _environment() -> dict[str, str]:
    """Return an environment in which a process finds the modules that this process finds."""
    known = [str(Path(entry).absolute()) for entry in sys.path if entry]
    return os.environ | {"PYTHONPATH": os.pathsep.join(known), "PYTHONWARNINGS": "ignore"}

"""A shared library of the objects of a bundle, made by the system's C compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from glow_nb.base.errors import CompileError, OptionError, UnsupportedError
from glow_nb.bundle.processors import platform_like
from glow_nb.kernels.target import Target

COMPILER_VARIABLE = "CC"
"""The environment variable that names the C compiler."""

_SECONDS = 600


def c_compiler(target: Target) -> list[str]:
    """Return the command of a C compiler for *target*.

    Raises:
        OptionError: The environment names no command.
        UnsupportedError: There is none.
    """
    try:
        chosen = shlex.split(os.environ.get(COMPILER_VARIABLE, ""))
    except ValueError as error:
        raise OptionError(
            f"{COMPILER_VARIABLE}={os.environ[COMPILER_VARIABLE]!r:.60}: no command ({error}); "
            "give a C compiler and its options as a shell reads them"
        ) from error
    is_host = target.triple == Target.host().triple
    command = chosen or ["cc" if is_host else platform_like(target).compiler]
    if shutil.which(command[0]) is None:
        raise UnsupportedError(
            f"a shared library takes a C compiler, and there is no {command[0]!r:.60}; install one "
            f"or name another in the environment variable {COMPILER_VARIABLE}, or build an archive"
        )
    return command


def link_shared(command: Sequence[str], library: Path, objects: Sequence[Path]) -> None:
    """Let the C compiler *command* link *objects* to the shared *library*.

    Programs find it by the name of its file (``soname``), wherever it was when they were linked.

    Raises:
        CompileError: It fails, writes no library, or takes too long.
    """
    made = ["-shared", f"-Wl,-soname,{library.name}", "-o", os.fspath(library)]
    arguments = [*command, *made, *map(os.fspath, objects), "-lm"]
    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{command[0]}: it does not link the library: {error}") from error
    if done.returncode or not library.is_file():
        said = " ".join(done.stderr.split()) or f"it ends with {done.returncode} and says nothing"
        raise CompileError(f"{command[0]}: it does not link the library: {said:.400}")

"""The machine code of a network, for devices that run machine code alone."""

from __future__ import annotations

from glow_nb.base.errors import CompileError
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.deployable import Deployable


def native_of(network: Deployable) -> NativeProgram:
    """Return the machine code of *network*; raise CompileError if it is for the interpreter."""
    if isinstance(network.program, NativeProgram):
        return network.program
    raise CompileError(
        f"{network.name!r} is a program for the interpreter, the device runs machine code; "
        "compile it with the backend 'cpu', or use a device of the kind 'interpreter'"
    )

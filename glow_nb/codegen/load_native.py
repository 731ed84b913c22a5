"""A native program made to run in this process: checked, and its code linked.

Linking needs llvmlite; numba stays out of the process.
"""

from __future__ import annotations

from pathlib import Path

from glow_nb.base.errors import CompileError
from glow_nb.codegen.linked_code import LinkedCode
from glow_nb.codegen.loaded_code import LoadedCode
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.open_program import OpenProgram
from glow_nb.codegen.threads import Code
from glow_nb.kernels.target import TILE_FEATURES, Target


def load(native: NativeProgram, linked: Path | None = None) -> LoadedProgram:
    """Link the code of *native* into this process, ready to run.

    A debugger knows the code if it is mapped from a file that it was *linked* to.

    Raises:
        CompileError: The code is for another processor than this one, or its objects do not fit
            together.
        MemoryLimitError: A run needs more memory than the process may have.
    """
    _require_this_processor(native.target, uses_tiles=native.uses_tiles)
    native.layout.require_memory()
    code: Code
    if linked is None:
        code = LoadedCode(native.objects.values(), native.target)
    else:
        code = LinkedCode(linked)
    code.address(native.entry.symbol)  # raises if no object defines it
    made = LoadedProgram if native.open is None else OpenProgram
    return made(native.layout, code)


def _require_this_processor(target: Target, *, uses_tiles: bool) -> None:
    """Raise CompileError unless code for *target* runs here.

    Code that does not use tiles runs where a processor, or its system, gives none.
    """
    host = Target.host()
    if target.triple != host.triple:
        raise CompileError(
            f"native program: it is for {target.triple}, this machine is {host.triple}; compile "
            "the model again on this machine"
        )
    features = target.enabled_features - host.enabled_features
    absent = sorted(f for f in features if uses_tiles or not f.startswith(TILE_FEATURES))
    if absent:
        raise CompileError(
            f"native program: it is for the processor {target.cpu}, this one, {host.cpu}, is "
            f"without {', '.join(absent)}; compile the model again on this machine"
        )

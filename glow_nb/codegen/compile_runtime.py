"""The object of the functions that threads need (:mod:`glow_nb.codegen.runtime`)."""

from __future__ import annotations

from functools import lru_cache
from string import Template

import llvmlite.binding as llvm

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.codegen.runtime import TEAM, WORK, TeamField
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.target import Target

_PAUSES = {
    "x86_64": ("@llvm.x86.sse2.pause", "", ""),
    "aarch64": ("@llvm.aarch64.isb", "i32", "i32 15"),
    "arm64": ("@llvm.aarch64.isb", "i32", "i32 15"),
}
"""Name, parameter type and argument of the instruction that tells a core it only waits. On ARM it
is ``isb``, which takes some ten nanoseconds; ``yield`` takes none on cores of one hardware thread,
so that a count of pauses would be no time at all."""


@lru_cache(maxsize=4)
def compile_runtime(target: Target) -> bytes:
    """Return the object that defines the functions of a team."""
    architecture = target.triple.split("-")[0]
    name, parameter, argument = _PAUSES.get(architecture, ("", "", ""))
    text = Template(WORK + TEAM).substitute(
        {field.name: field.value for field in TeamField},
        LINE=CACHE_LINE_BYTES,
        PAUSE=f"call void {name}({argument})" if name else "",
    )
    text += f"declare void {name}({parameter})\n" if name else ""
    machine = target_machine(target)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    payload: bytes = machine.emit_object(module)
    return payload

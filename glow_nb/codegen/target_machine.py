"""LLVM set-up shared by everything that emits or loads machine code. Needs no numba."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from glow_nb.kernels.target import Target


@cache
def initialize_llvm() -> None:
    """Register this machine's code generator and assembler with LLVM, once per process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmparser()
    llvm.initialize_native_asmprinter()


@cache
def _initialize_all_processors() -> None:
    """Register every code generator that LLVM was built with, to compile for another machine."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(target: Target, speed: int = 3) -> Any:
    """Return a new LLVM target machine that emits position-independent code for *target*.

    Args:
        target: Processor to emit code for; it need not be this one.
        speed: Effort of the instruction selector and scheduler, 0 to 3.
    """
    initialize_llvm()
    if target.triple != llvm.get_process_triple():
        _initialize_all_processors()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=speed, reloc="pic", codemodel="default"
    )

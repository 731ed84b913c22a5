"""A pass of numba: lowering that notes for each instruction the line of the kernel's text.

Nothing else of the code changes. What numba itself does when it generates debug information
keeps variables in memory and calls apart, and makes another, slower program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from llvmlite import ir
from numba.core import debuginfo
from numba.core.compiler_machinery import register_pass
from typing_extensions import override

from glow_nb.base.types import ElementKind
from glow_nb.codegen.debugging.dwarf import DebugInfo
from glow_nb.codegen.kernel_lowering import KernelLower, KernelLowering
from glow_nb.simd.types import Pointer

_DESCRIBED = re.compile(r"^(!\d+) = distinct !DISubprogram\(", re.MULTILINE)


def with_debug_info(text: str, symbol: str) -> str:
    """Return the optimised LLVM module *text*, whose function *symbol* has got its debug info.

    It belonged to the function of numba's that was put in place of its call in *symbol*; a large
    one may not have been. Were it not handed on, debuggers would show two functions, one inlined
    in the other.
    """
    described = _DESCRIBED.search(text)
    if described is None or f" !dbg {described[1]} {{" in text:
        return text
    head = re.compile(rf"^(define [^\n]*@{symbol}\([^\n]*) \{{$", re.MULTILINE)
    return head.sub(rf"\1 !dbg {described[1]} {{", text)


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringWithLines(KernelLowering):
    """Lower a kernel to LLVM's instructions, each with its line."""

    _name = "native_lowering_with_lines"

    @property
    @override
    def lowering_class(self) -> type[_Lower]:
        return _Lower


class _Lower(KernelLower):
    @override
    def init(self) -> None:
        """Note lines; numba calls this at the end of the constructor."""
        super().init()
        place = self.func_ir.loc
        self.debuginfo = _Lines(self.module, Path(place.filename), place.line)


def _pointed_at(name: str, type: Any) -> ElementKind | Literal["memory", "number"]:
    """Return what the parameter *name* of a kernel, which is of numba's *type*, points to."""
    if not isinstance(type, Pointer):
        return "number"
    return "memory" if name == "scratch" else type.kind


class _Lines(debuginfo.AbstractDIBuilder):
    """The line numbers of numba, as debug information."""

    def __init__(self, module: ir.Module, file: Path, line: int) -> None:
        self._info = DebugInfo(module, file.name)
        self._symbol, self._line = file.stem, line
        self._function: Any = None
        self._arguments: list[tuple[Any, Any]] = []

    @override
    def initialize(self) -> None:
        """Do nothing: all is there."""

    @override
    def finalize(self) -> None:
        """Do nothing: all is written."""

    @override
    def mark_variable(self, *_: Any, **__: Any) -> None:
        """Leave a variable in registers, without a name."""

    @override
    def mark_subprogram(
        self,
        function: Any,
        qualname: str,
        argnames: Sequence[str],
        argtypes: Sequence[Any],
        line: int,
    ) -> None:
        """Begin the *function* of a kernel."""
        self._function = self._info.function(self._symbol, self._line)
        function.set_metadata("dbg", self._function)
        pairs = zip(argnames, argtypes, strict=True)
        parameters = [(name, _pointed_at(name, type)) for name, type in pairs]
        described = self._info.parameters(self._function, self._line, parameters)
        self._arguments = list(zip(function.args[-len(described) :], described, strict=True))

    @override
    def mark_location(self, builder: Any, line: int) -> None:
        """Let what *builder* emits next belong to *line*."""
        builder.debug_metadata = self._info.location(self._function, line)
        while self._arguments:
            self._info.say(builder, *self._arguments.pop(0))

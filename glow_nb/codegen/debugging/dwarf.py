"""Debug information as metadata of an LLVM module: functions of one file, their lines, parameters.

LLVM writes it into an object as DWARF. Paths would make an object depend on where it was compiled:
files are named without a folder, and the folder is ``SOURCE_FOLDER``, a relative path in whose
place the linker of shared objects writes the real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llvmlite import ir

from glow_nb.base.types import ElementKind
from glow_nb.codegen.debugging.debug_files import SOURCE_FOLDER

PRODUCER = "clang (glow_nb)"
"""Who wrote the code. A debugger skips the code that sets up a frame by lines only where it takes
that of clang or of gcc."""

_DWARF_VERSION = 4
"""The one whose strings lie in one section, where the linker finds that of the folder."""

_ENCODINGS: Mapping[str, str] = {
    "float": "DW_ATE_float",
    "bfloat": "DW_ATE_float",
    "int": "DW_ATE_signed",
    "uint": "DW_ATE_unsigned",
    "bool": "DW_ATE_boolean",
}
_NAMES = {ElementKind.BFLOAT16: "__bf16"}
"""What debuggers call kinds that they know by their name."""

_VALUE = "llvm.dbg.value"

Parameter = tuple[str, ElementKind | Literal["memory", "number"]]
"""The name of a parameter, and what it points to: elements of a kind, or memory for anything; or
that it is a number."""


class DebugInfo:
    """Debug information of the functions of one file."""

    def __init__(self, module: ir.Module, file_name: str) -> None:
        """Add the debug information of the file *file_name* to *module*."""
        self.module = module
        self._file = module.add_debug_info(
            "DIFile", {"filename": file_name, "directory": SOURCE_FOLDER}
        )
        unit = {
            "language": ir.DIToken("DW_LANG_C99"),  # there pointers are indexed, and print as data
            "file": self._file,
            "producer": PRODUCER,
            "isOptimized": True,
            "runtimeVersion": 0,
            "emissionKind": ir.DIToken("FullDebug"),
            "nameTableKind": ir.DIToken("None"),
        }
        self._unit = module.add_debug_info("DICompileUnit", unit, is_distinct=True)
        module.add_named_metadata("llvm.dbg.cu", self._unit)
        for name, value in (("Dwarf Version", _DWARF_VERSION), ("Debug Info Version", 3)):
            flag = [ir.IntType(32)(2), name, ir.IntType(32)(value)]
            module.add_named_metadata("llvm.module.flags", flag)

    def function(self, symbol: str, line: int) -> Any:
        """Return the debug information of the function *symbol*, which begins at *line*."""
        signature = self.module.add_debug_info(
            "DISubroutineType", {"types": self.module.add_metadata([None])}
        )
        return self.module.add_debug_info(
            "DISubprogram",
            {
                "name": symbol,
                "linkageName": symbol,
                "scope": self._file,
                "file": self._file,
                "line": line,
                "scopeLine": line,
                "type": signature,
                "isOptimized": True,
                "isDefinition": True,
                "unit": self._unit,
            },
            is_distinct=True,
        )

    def location(self, function: Any, line: int) -> Any:
        """Return the debug information of *line* of *function*."""
        return self.module.add_debug_info(
            "DILocation", {"line": line, "column": 1, "scope": function}
        )

    def parameters(self, function: Any, line: int, parameters: Sequence[Parameter]) -> list[Any]:
        """Return the debug information of each of the *parameters* of *function*."""
        return [
            self.module.add_debug_info(
                "DILocalVariable",
                {
                    "name": name,
                    "arg": number,
                    "scope": function,
                    "file": self._file,
                    "line": line,
                    "type": self._number() if kind == "number" else self._pointer(kind),
                },
            )
            for number, (name, kind) in enumerate(parameters, 1)
        ]

    def say(self, builder: ir.IRBuilder, value: Any, variable: Any) -> None:
        """Emit by *builder* that *variable* has this *value* from here on."""
        signature = ir.FunctionType(ir.VoidType(), [ir.MetaDataType()] * 3)
        known = self.module.globals.get(_VALUE)
        says = known or ir.Function(self.module, signature, _VALUE)
        builder.call(says, [value, variable, self.module.add_debug_info("DIExpression", {})])

    def _pointer(self, kind: ElementKind | Literal["memory"]) -> Any:
        tag, element = ir.DIToken("DW_TAG_pointer_type"), None
        if kind != "memory":
            element = self._element(kind)
        return self.module.add_debug_info(
            "DIDerivedType", {"tag": tag, "baseType": element, "size": 64}
        )

    def _element(self, kind: ElementKind) -> Any:
        if kind.is_storage:
            kind = ElementKind.UINT8
        encoding = _ENCODINGS[kind.value.rstrip("0123456789")]
        return self._basic(_NAMES.get(kind, kind.value), 8 * kind.size_bytes, encoding)

    def _number(self) -> Any:
        return self._basic("int64", 64, "DW_ATE_signed")

    def _basic(self, name: str, bits: int, encoding: str) -> Any:
        return self.module.add_debug_info(
            "DIBasicType", {"name": name, "size": bits, "encoding": ir.DIToken(encoding)}
        )

"""Reading the text of the low-level IR; errors name ``path:line:column`` and show the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glow_nb.base.attributes import check_attributes
from glow_nb.base.counted import read_counted
from glow_nb.base.schema import FieldSpec, closest, operand_specs
from glow_nb.base.size_text import read_symbols
from glow_nb.base.text import TokenReader
from glow_nb.base.tokens import Token
from glow_nb.base.types import Array
from glow_nb.hlir.parse import check_attribute_names, read_initializer
from glow_nb.llir.instructions.derived import find_instruction, known_instructions
from glow_nb.llir.program import (
    Activation,
    Alloc,
    Arena,
    Bound,
    Buffer,
    Dealloc,
    Instruction,
    Program,
    Register,
    StateBuffer,
    TensorView,
    View,
    Weight,
)
from glow_nb.llir.stack import StackInst
from glow_nb.llir.verify import verify


def parse_program(
    text: str, path: str = "<text>", constants: Mapping[str, Array] | None = None
) -> Program:
    """Parse *text*; *constants* holds the numbers of external weights and states by name.

    Raises:
        ParseError: The text is not well-formed or not well typed.
        VerifyError: A rule over the whole program is broken.
    """
    program = _Parser(text, path, constants or {}).parse()
    verify(program)
    return program


@dataclass(frozen=True)
class _ViewAttributes:
    """The attributes that a ``tensor_view`` is written with."""

    start: int
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        check_attributes(self)


class _Parser(TokenReader):
    """Recursive descent over the grammar in :mod:`glow_nb.llir.print`."""

    def __init__(self, text: str, path: str, constants: Mapping[str, Array]) -> None:
        super().__init__(text, path)
        self._payloads = constants
        self._buffers: dict[str, Buffer] = {}
        self._inputs: dict[str, Bound] = {}
        self._offsets: dict[Buffer, int] = {}

    def parse(self) -> Program:
        self.expect("declare")
        name = self.read_name("@")
        read_symbols(self)
        self.expect("{")
        declared: list[tuple[str, Buffer]] = []
        while not self.accept("}"):
            declared.append(self._parse_declaration())
        self.expect("program")
        sizes = self._parse_arena_header()
        self.expect("{")
        instructions: list[Instruction] = []
        while not self.accept("}"):
            instructions.append(self._parse_instruction(placed=sizes is not None))
        if self.token.kind != "end":
            raise self.error("expected the end of the text")
        return Program(
            name,
            tuple(b for _, b in declared if isinstance(b, Weight)),
            tuple(b for role, b in declared if role == "input" and isinstance(b, Bound)),
            tuple(b for role, b in declared if role == "output" and isinstance(b, Bound)),
            tuple(instructions),
            Arena(self._offsets, *sizes) if sizes else None,
            tuple(b for _, b in declared if isinstance(b, StateBuffer)),
        )

    def _parse_declaration(self) -> tuple[str, Buffer]:
        place = self.token
        name = self.read_name()
        self.expect("=")
        roles = "'weight', 'state', 'input' or 'output'"
        role = self.expect_kind("word", roles)
        if role.text not in ("weight", "state", "input", "output"):
            raise self.error(f"expected {roles}, found '{role.text}'", role)
        type = self.read_type()
        if role.text == "output" and name in self._inputs and self._inputs[name].type == type:
            return role.text, self._inputs.pop(name)  # it is read, and then written over
        if role.text in ("input", "output"):
            bound = Bound(name, type, counted=read_counted(self))
            if role.text == "input":
                self._inputs[name] = bound
            return role.text, self._define(place, bound)
        self.expect(",")
        payload = read_initializer(self, name, type, self._payloads)
        kind = Weight if role.text == "weight" else StateBuffer
        return role.text, self._define(place, kind(name, type, payload))

    def _define(self, place: Token, buffer: Buffer) -> Buffer:
        if buffer.name in self._buffers:
            raise self.error(f"'{place.text}' is defined already", place)
        self._buffers[buffer.name] = buffer
        return buffer

    def _parse_arena_header(self) -> tuple[int, int] | None:
        if not self.accept("arena"):
            return None
        size = self.read_int("the arena's bytes")
        self.expect("of")
        self.expect("at")
        self.expect("least")
        return size, self.read_int("the lower bound in bytes")

    def _parse_instruction(self, *, placed: bool) -> Instruction:
        if self.token.kind == "name":
            return self._parse_definition(placed=placed)
        opcode = self.expect_kind("word", "an instruction")
        if opcode.text == "dealloc":
            return self.guarded(opcode, lambda: Dealloc(self._read_buffer()))
        if opcode.text == "stack":
            return self._parse_stack(opcode)
        found = find_instruction(opcode.text)
        if found is None or found in (Alloc, TensorView):
            hint = closest(opcode.text, known_instructions())
            raise self.error(f"unknown instruction '{opcode.text}'{hint}", opcode)
        return self._parse_work(found, opcode)

    def _parse_stack(self, opcode: Token) -> StackInst:
        self.expect("{")
        body: list[Instruction] = []
        while not self.accept("}"):
            if self.token.kind == "name":
                self._parse_register()
            else:
                body.append(self._parse_instruction(placed=False))
        return self.guarded(opcode, lambda: StackInst.of(body))

    def _parse_register(self) -> None:
        place = self.token
        name = self.read_name()
        self.expect("=")
        self.expect("register")
        self._define(place, Register(name, self.read_type()))

    def _parse_definition(self, *, placed: bool) -> Instruction:
        place = self.token
        name = self.read_name()
        self.expect("=")
        if self.accept("alloc"):
            buffer = Activation(name, self.read_type())
            self._define(place, buffer)
            if placed:
                self.expect("at")
                self._offsets[buffer] = self.read_int("an offset in bytes")
            return Alloc(buffer)
        opcode = self.expect("tensor_view")
        base = self._read_buffer()
        attributes = self.read_attributes()
        check_attribute_names(self, _ViewAttributes, attributes, opcode, place)
        self.expect(":")
        start, steps = self._view_attributes(opcode, attributes)
        view = View(name, self.read_type(), base, start, steps)
        self._define(place, view)
        return self.guarded(opcode, lambda: TensorView(view))

    def _view_attributes(
        self, opcode: Token, attributes: dict[str, object]
    ) -> tuple[int, tuple[int, ...]]:
        checked = self.guarded(opcode, lambda: _ViewAttributes(**attributes))  # type: ignore[arg-type]
        return checked.start, checked.steps

    def _read_buffer(self) -> Buffer:
        place = self.token
        name = self.read_name()
        if name not in self._buffers:
            raise self.error(f"'{place.text}' is not defined{closest(name, self._buffers)}", place)
        return self._buffers[name]

    def _parse_work(self, cls: type[Instruction], opcode: Token) -> Instruction:
        fields: dict[str, Any] = {}
        for index, spec in enumerate(operand_specs(cls)):
            if index:
                self.expect(",")
            fields[spec.name] = self._parse_operand(spec, opcode)
        place = self.token
        attributes = self.read_attributes()
        check_attribute_names(self, cls, attributes, opcode, place)
        fields.update(attributes)
        if self.accept("if"):
            fields["predicate"] = self._read_buffer()
        fields["plan"] = self.read_plan()
        if self.accept("from"):
            fields["name"] = self.read_name()
            if self.accept("of"):
                fields["origins"] = self.read_names()
        return self.guarded(opcode, lambda: cls(**fields))

    def _parse_operand(self, spec: FieldSpec, opcode: Token) -> Buffer | tuple[Buffer, ...] | None:
        qualifier = self.read_name("@")
        wanted = spec.qualifier.name if spec.qualifier else "in"
        if qualifier != wanted:
            raise self.error(f"operand '{spec.name}' of '{opcode.text}' is @{wanted}")
        if spec.is_optional and self.accept("none"):
            return None
        if not spec.is_variadic:
            return self._read_buffer()
        self.expect("[")
        buffers: list[Buffer] = []
        while not self.accept("]"):
            buffers.append(self._read_buffer())
            if self.token.text != "]":
                self.expect(",")
        return tuple(buffers)

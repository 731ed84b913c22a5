"""Reading the text of the high-level IR; every error names ``path:line:column`` and shows the line.

Written types are checked against inferred ones, so text that parses is well typed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

import glow_nb.hlir.ops  # noqa: F401  registers them: a text may name any
from glow_nb.base.counted import read_counted
from glow_nb.base.errors import GlowError
from glow_nb.base.schema import attribute_specs, closest, operand_specs
from glow_nb.base.size_text import read_symbols
from glow_nb.base.text import TokenReader
from glow_nb.base.tokens import Token
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import NODES, Constant, Function, Node, Placeholder, State, Value
from glow_nb.hlir.module import Module
from glow_nb.hlir.print import MAX_INLINE_BYTES
from glow_nb.hlir.verify import verify, verify_module


def parse_module(
    text: str, path: str = "<text>", constants: Mapping[str, Array] | None = None
) -> Module:
    """Parse *text*; *constants* holds the numbers of external constants and states by name.

    Raises:
        ParseError: The text is not well-formed or not well typed.
        VerifyError: A rule over a whole function or module is broken.
    """
    module = _Parser(text, path, constants or {}).parse()
    verify_module(module)
    return module


def parse_function(
    text: str, path: str = "<text>", constants: Mapping[str, Array] | None = None
) -> Function:
    """Parse text that holds exactly one function."""
    module = parse_module(text, path, constants)
    if len(module.functions) != 1:
        names = [function.name for function in module.functions]
        raise GlowError(
            f"{path}: it has the functions {names}, and one is wanted; save that in a file of its "
            "own: glow_nb.save_text(glow_nb.load_module(path)[name], new_path)"
        )
    return module.functions[0]


def read_initializer(
    reader: TokenReader, name: str, type: TensorType, constants: Mapping[str, Array]
) -> Array | None:
    """Read ``dense [...]``, ``splat value`` or ``external`` for numbers of *type*."""
    token = reader.expect_kind("word", "'dense', 'splat' or 'external'")
    if token.text == "external":
        return _external(reader, token, name, type, constants)
    if token.text not in ("dense", "splat"):
        raise reader.error(f"expected 'dense', 'splat' or 'external', found '{token.text}'", token)
    if type.size_bytes > MAX_INLINE_BYTES:
        raise reader.error(f"{type} is too large to be written in text; make it external", token)
    place = reader.token
    literal = reader.read_literal()
    items = literal if isinstance(literal, tuple) else (literal,)
    wanted = 1 if token.text == "splat" else type.size
    if len(items) != wanted or (token.text == "splat") == isinstance(literal, tuple):
        raise reader.error(f"expected {wanted} value(s) for {type}, found {len(items)}", place)
    if not all(isinstance(item, int | float) for item in items):
        raise reader.error("expected numbers", place)
    return _make_array(reader, place, items, type)


def _make_array(
    reader: TokenReader, place: Token, items: tuple[Any, ...], type: TensorType
) -> Array:
    try:
        values = (
            np.array(items).astype(type.kind.dtype)
            if type.kind.is_float
            else (np.array(items, type.kind.dtype))
        )
    except (OverflowError, ValueError, TypeError) as error:
        raise reader.error(f"the value does not fit {type.kind.value}", place) from error
    if len(items) == type.size:
        return values.reshape(type.shape)
    return np.full(type.shape, values[0], type.kind.dtype)


def _external(
    reader: TokenReader,
    token: Token,
    name: str,
    type: TensorType,
    constants: Mapping[str, Array],
) -> Array | None:
    if name not in constants:
        return None
    array = constants[name]
    found = reader.guarded(token, lambda: TensorType.of(array))
    if found != TensorType(type.kind, type.shape):
        raise reader.error(f"the supplied numbers are {found}, the text says {type}", token)
    return array


class _Parser(TokenReader):
    """Recursive descent over the grammar in :mod:`glow_nb.hlir.print`."""

    def __init__(self, text: str, path: str, constants: Mapping[str, Array]) -> None:
        super().__init__(text, path)
        self._payloads = constants
        self._shared: dict[str, Constant | State] = {}  # by all functions of the module
        self._placeholders: dict[str, Placeholder] = {}
        self._nodes: dict[str, Node] = {}
        self._origins: dict[str, tuple[str, ...]] = {}

    def parse(self) -> Module:
        functions: list[Function] = []
        while self.token.kind != "end":
            if self.accept("constant"):
                self._parse_storage(Constant)
            elif self.accept("state"):
                self._parse_storage(State)
            else:
                functions.append(self._parse_function())
        if not functions:
            raise self.error("expected 'func @name(...) -> (...) { ... }'")
        return Module(tuple(functions))

    def _parse_storage(self, kind: type[Constant | State]) -> None:
        place = self.token
        name = self.read_name()
        self.expect(":")
        type = self.read_type()
        self.expect("=")
        payload = read_initializer(self, name, type, self._payloads)
        if name in self._shared:
            raise self.error(f"'{place.text}' is defined already", place)
        made = kind(name, type, payload=payload)
        if isinstance(made, Constant) and self.accept("fixed"):
            made = dataclasses.replace(made, is_weight=False)
        self._shared[name] = made

    def _parse_function(self) -> Function:
        self.expect("func")
        name = self.read_name("@")
        self._placeholders = {}
        read_symbols(self)
        inputs = self._parse_placeholders()
        self.expect("->")
        outputs = self._parse_placeholders()
        self.expect("{")
        self._nodes, self._origins = {}, {}
        nodes: list[Node] = []
        while not self.accept("}"):
            nodes.append(self._parse_node())
        self.symbols = {}  # what stands between functions has fixed sizes
        function = Function(name, inputs, outputs, tuple(nodes), self._origins)
        verify(function)
        return function

    def _parse_placeholders(self) -> tuple[Placeholder, ...]:
        self.expect("(")
        found: list[Placeholder] = []
        while not self.accept(")"):
            found.append(self._parse_placeholder())
            if self.token.text != ")":
                self.expect(",")
        return tuple(found)

    def _parse_placeholder(self) -> Placeholder:
        place = self.token
        name = self.read_name()
        self.expect(":")
        type = self.read_type()
        placeholder = Placeholder(name, type, read_counted(self))
        known = self._placeholders.setdefault(name, placeholder)  # an input may be an output
        if name in self._shared or known.type != type:
            other = self._shared.get(name, known)
            raise self.error(f"'{place.text}' is declared already as {other!r}", place)
        return known

    def _parse_node(self) -> Node:
        place = self.token
        name = self.read_name()
        if name in self._nodes or name in self._placeholders or name in self._shared:
            raise self.error(f"'{place.text}' is defined already", place)
        self.expect("=")
        opcode = self.expect_kind("word", "an operator")
        if opcode.text not in NODES:
            raise self.error(
                f"unknown operator '{opcode.text}'{closest(opcode.text, NODES)}", opcode
            )
        node_class = NODES[opcode.text]
        operands = self._parse_operands(node_class, opcode)
        attributes = self._parse_attributes(node_class, opcode)
        if self.accept("if"):
            attributes["predicate"] = self._parse_operand()
        attributes["plan"] = self.read_plan()
        node = self.guarded(opcode, lambda: node_class(**operands, **attributes, name=name))
        self._check_types(node)
        self._nodes[name] = node
        if self.accept("from"):
            self._origins[name] = self.read_names()
        return node

    def _check_types(self, node: Node) -> None:
        for index, inferred in enumerate(node.result_types):
            self.expect("," if index else ":")
            place = self.token
            written = self.read_type()
            if written != inferred:
                raise self.error(f"the written type differs from the inferred {inferred}", place)

    def _parse_operands(self, node_class: type[Node], opcode: Token) -> dict[str, Any]:
        operands: dict[str, Any] = {}
        self.expect("(")
        for index, spec in enumerate(operand_specs(node_class)):
            if index:
                self.expect(",")
            if spec.is_variadic:
                operands[spec.name] = self._parse_variadic()
            elif spec.is_optional and self.accept("none"):
                operands[spec.name] = None
            else:
                operands[spec.name] = self._parse_operand()
        if not self.accept(")"):
            wanted = ", ".join(spec.name for spec in operand_specs(node_class))
            raise self.error(f"'{opcode.text}' takes the operands ({wanted})")
        return operands

    def _parse_variadic(self) -> tuple[Value, ...]:
        self.expect("[")
        values: list[Value] = []
        while not self.accept("]"):
            values.append(self._parse_operand())
            if self.token.text != "]":
                self.expect(",")
        return tuple(values)

    def _parse_operand(self) -> Value:
        place = self.token
        name = self.read_name()
        storage = self._placeholders.get(name) or self._shared.get(name)
        if storage is not None:
            return storage
        if name not in self._nodes:
            known = (*self._placeholders, *self._shared, *self._nodes)
            raise self.error(f"'{place.text}' is not defined{closest(name, known)}", place)
        node = self._nodes[name]
        if not self.accept("#"):
            return node
        index = self.read_int("a result number")
        if not 0 <= index < len(node.result_types):
            raise self.error(f"'{place.text}' has {len(node.result_types)} results", place)
        return node.results[index]

    def _parse_attributes(self, node_class: type[Node], opcode: Token) -> dict[str, Any]:
        place = self.token
        attributes = self.read_attributes()
        check_attribute_names(self, node_class, attributes, opcode, place)
        return attributes


def check_attribute_names(
    reader: TokenReader, cls: type, attributes: Mapping[str, object], opcode: Token, place: Token
) -> None:
    """Raise ParseError for an unknown attribute of *cls*, or a missing one without default."""
    specs = {spec.name: spec for spec in attribute_specs(cls)}
    for name in attributes:
        if name not in specs:
            hint = closest(name, specs)
            raise reader.error(f"'{opcode.text}' has no attribute '{name}'{hint}", place)
    missing = [s.name for s in specs.values() if not s.has_default and s.name not in attributes]
    if missing:
        raise reader.error(f"'{opcode.text}' needs the attribute(s) {', '.join(missing)}", place)

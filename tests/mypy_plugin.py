"""What mypy has to know of instructions that are derived: they have the fields of their operators.

``MaxPoolInst = derive_instruction(nodes.MaxPool)`` is a class to mypy, then, with a buffer for each
operand of the operator and with its attributes (:mod:`glow_nb.llir.instructions.derived`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from mypy.nodes import (
    ARG_NAMED_OPT,
    ARG_OPT,
    ARG_POS,
    GDEF,
    ArgKind,
    Argument,
    CallExpr,
    Expression,
    RefExpr,
    StrExpr,
    SymbolTableNode,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.plugin import DynamicClassDefContext, Plugin
from mypy.plugins.common import add_attribute_to_class, add_method_to_class
from mypy.types import Instance, NoneType, ProperType, Type, UnionType, get_proper_type
from typing_extensions import override

_DERIVE = "glow_nb.llir.instructions.derived.derive_instruction"
_BASE = "glow_nb.llir.instructions.node_instruction.NodeInstruction"
_BUFFER = "glow_nb.llir.program.Buffer"
_INSTRUCTION = "glow_nb.llir.program.Instruction"
_VALUE = "glow_nb.hlir.values.Value"
_NODE = "glow_nb.hlir.graph.Node"


class DerivedInstructions(Plugin):
    """Makes a class of each name that a derived instruction is assigned to."""

    @override
    def get_dynamic_class_hook(
        self, fullname: str
    ) -> Callable[[DynamicClassDefContext], None] | None:
        return _derive if fullname == _DERIVE else None


def plugin(version: str) -> type[Plugin]:
    """Return the plugin, as mypy asks for it."""
    return DerivedInstructions


def _derive(ctx: DynamicClassDefContext) -> None:
    """Define the class of ``name = derive_instruction(operator, ...)``."""
    operator = ctx.call.args[0]
    node = operator.node if isinstance(operator, RefExpr) else None
    if not isinstance(node, TypeInfo):
        return  # an operator that is made when the program runs
    base, common, buffer = map(ctx.api.named_type_or_none, (_BASE, _INSTRUCTION, _BUFFER))
    fields = sorted(_fields(node, _NODE), key=lambda var: not _is_operand(var.type))
    if not (base and common and buffer) or any(var.type is None for var in fields):
        if not ctx.api.final_iteration:
            ctx.api.defer()
        return
    info = ctx.api.basic_new_typeinfo(ctx.name, base, ctx.call.line)
    results = [Var(name, buffer) for name in _results(ctx.call)]
    arguments = [_argument(var, buffer, ARG_POS) for var in results]
    for var in fields:
        arguments.append(_argument(var, buffer, ARG_OPT if var.has_explicit_value else ARG_POS))
    for argument in arguments:
        assert argument.type_annotation is not None
        add_attribute_to_class(ctx.api, info.defn, argument.variable.name, argument.type_annotation)
    keywords = [symbol.node for symbol in common.type.names.values() if _is_field(symbol)]
    arguments += [_argument(var, buffer, ARG_NAMED_OPT) for var in keywords if isinstance(var, Var)]
    add_method_to_class(ctx.api, info.defn, "__init__", arguments, NoneType())
    changes = [Argument(a.variable, a.type_annotation, None, ARG_NAMED_OPT) for a in arguments]
    add_method_to_class(
        ctx.api, info.defn, "__mypy-replace", changes, NoneType(), is_staticmethod=True
    )
    ctx.api.add_symbol_table_node(ctx.name, SymbolTableNode(GDEF, info))


def _fields(info: TypeInfo, root: str) -> Iterator[Var]:
    """Yield the fields that *info* and its bases below *root* declare, in their order."""
    seen = {name for base in info.mro if base.fullname == root for name in base.names}
    for base in reversed(info.mro):
        if base.has_base(root) and base.fullname != root:
            fields = {n: s.node for n, s in base.names.items() if _is_field(s) and n not in seen}
            seen |= fields.keys()
            for name in _in_order(base, fields):
                found = fields[name]
                assert isinstance(found, Var)
                yield found


def _in_order(info: TypeInfo, names: Collection[str]) -> list[str]:
    """Return *names* of fields as *info* declares them; what is read from a cache is sorted."""
    known = info.metadata.get("dataclass")
    if known is None:
        return list(names)
    return [each["name"] for each in known["attributes"] if each["name"] in names]


def _is_field(symbol: SymbolTableNode) -> bool:
    found = symbol.node
    return isinstance(found, Var) and not (found.is_classvar or found.name.startswith("_"))


def _is_operand(type: Type | None) -> bool:
    """Return whether a field of *type* holds values: such fields come before all attributes."""
    proper = get_proper_type(type)
    if isinstance(proper, UnionType):
        return any(map(_is_operand, proper.items))
    return isinstance(proper, Instance) and (
        proper.type.has_base(_VALUE) or any(map(_is_operand, proper.args))
    )


def _argument(var: Var, buffer: Instance, kind: ArgKind) -> Argument:
    """Return the argument of a constructor for a field like *var*."""
    assert var.type is not None
    type = _with_buffers(var.type, buffer)
    return Argument(Var(var.name, type), type, None, kind)


def _results(call: CallExpr) -> list[str]:
    """Return the names of the results: those given, or that of the only one."""
    given: dict[str | None, Expression] = dict(zip(call.arg_names, call.args, strict=True))
    match given.get("results"):
        case TupleExpr(items=items):
            return [item.value for item in items if isinstance(item, StrExpr)]
    return ["dest"]


def _with_buffers(type: Type, buffer: Instance) -> Type:
    """Return *type* with a buffer instead of each value."""
    proper: ProperType = get_proper_type(type)
    if isinstance(proper, Instance):
        if proper.type.has_base(_VALUE):
            return buffer
        return proper.copy_modified(args=[_with_buffers(a, buffer) for a in proper.args])
    if isinstance(proper, UnionType):
        return UnionType([_with_buffers(item, buffer) for item in proper.items])
    return type

"""The formula of one element (``scalar``) as nodes of the graph, where it is made of operators.

What stands for ``exp(...)``, ``a * b`` or ``where(...)`` is told by the formulas of the operators
themselves: ``exp(input)``, ``lhs * rhs``, ``where(condition, lhs, rhs)``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from glow_nb.base.schema import attribute_specs, attributes_of, operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import NODES, Node, Value
from glow_nb.hlir.ops.comparison import Select
from glow_nb.hlir.ops.families import BOOL, FLOATS, BinaryElementwise, UnaryElementwise
from glow_nb.hlir.rewrite import Rewriter

Word = str | type[ast.AST]
"""A function by its name, or an arithmetic operator by the class of its syntax."""


def has_known_formula(node_class: type[Node]) -> bool:
    """Return whether *node_class* has a formula of which every word is an operator of the graph."""
    return bool(node_class.scalar) and _is_known(node_class.scalar)


@cache
def _is_known(formula: str) -> bool:
    return all(word in _operators() for word in _words(ast.parse(formula)))


def emit_formula(node: Node, builder: Builder) -> Value:
    """Emit what the formula of *node* computes."""
    names = {spec.name: getattr(node, spec.name) for spec in operand_specs(type(node))}
    tree = ast.parse(node.scalar, mode="eval").body
    return _as_value(_emitted(tree, names | attributes_of(node), node, builder), node, builder)


def lower_by_formula(node: Node, rewriter: Rewriter) -> Value:
    """Express it by its formula."""
    return emit_formula(node, rewriter)


@cache
def _operators() -> Mapping[Word, type[Node]]:
    """Return the operators on floats and bools whose formula is one word, by that word."""
    found: dict[Word, type[Node]] = {}
    for node_class in list(NODES.values()):
        if not node_class.__module__.startswith("glow_nb.hlir.ops.") or not node_class.scalar:
            continue
        if issubclass(node_class, UnaryElementwise | BinaryElementwise):
            if not node_class.kinds & (FLOATS | BOOL) or attribute_specs(node_class):
                continue
        elif node_class is not Select:
            continue
        tree = ast.parse(node_class.scalar, mode="eval").body
        operands = [spec.name for spec in operand_specs(node_class)]
        if [ast.unparse(item) for item in _arguments(tree)] == operands:
            found.update((word, node_class) for word in _words(tree))
    return found


def _words(tree: ast.AST) -> Iterator[Word]:
    """Yield the functions and operators of *tree*; the tests of attributes are none."""
    if isinstance(tree, ast.IfExp) and _is_test(tree.test):
        yield from (*_words(tree.body), *_words(tree.orelse))
        return
    match tree:
        case ast.Call(func=ast.Name(id=name)):
            yield name
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            yield type(op)
        case ast.Compare(ops=[op]):
            yield type(op)
        case ast.Compare() | ast.IfExp():
            yield type(tree)  # several comparisons in a row, or another test: no operator is that
    for item in ast.iter_child_nodes(tree):
        yield from _words(item)


def _arguments(tree: ast.AST) -> list[ast.expr]:
    match tree:
        case ast.Call(args=args):
            return args
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
    return []


def _emitted(tree: ast.expr, names: Mapping[str, Any], node: Node, builder: Builder) -> Any:
    """Return what *tree* computes: a value, or a number or word that stands in it."""
    match tree:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _emitted(body if _holds(test, names) else orelse, names, node, builder)
    (word, *_) = _words(tree)
    arguments = (_emitted(item, names, node, builder) for item in _arguments(tree))
    operands = [_as_value(argument, node, builder) for argument in arguments]
    return builder.emit(_operators()[word](*operands))


def _is_test(test: ast.expr) -> bool:
    """True for ``flag`` and ``mode == 'word'``."""
    match test:
        case ast.Name() | ast.Compare(ast.Name(), [ast.Eq()], [ast.Constant()]):
            return True
    return False


def _holds(test: ast.expr, names: Mapping[str, Any]) -> bool:
    """Return the value of a test of an attribute."""
    match test:
        case ast.Compare(ast.Name(id=name), _, [ast.Constant(word)]):
            return bool(names[name] == word)
    assert isinstance(test, ast.Name)
    return bool(names[test.id])


def _as_value(item: Any, node: Node, builder: Builder) -> Value:
    """Return *item*, a number or bool as a constant that goes with *node*."""
    if isinstance(item, Value):
        return item
    is_bool = isinstance(item, bool)
    return builder.number(node.type.with_kind(ElementKind.BOOL) if is_bool else node.type, item)

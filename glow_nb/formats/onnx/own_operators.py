"""ONNX operators that a user adds: what imports them, and what writes them to a file.

It loads the importer only when something is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from glow_nb.base.errors import DefinitionError, PassError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import NODES, Node, Value, producer_of
from glow_nb.hlir.ops.formulas.terms import Term

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer.import_context import ImportContext
    from glow_nb.formats.onnx.importer.node import OnnxNode

    Rule = Callable[[ImportContext, OnnxNode], Value | tuple[Value | None, ...]]
    """Returns the value of the output, or those of several, None for one that nothing reads."""

NEWEST_VERSION = 2**63 - 1
"""The last version of an operator set that a file can name."""

N = TypeVar("N", bound=Node)
R = TypeVar("R", bound="Rule")


def imports(domain: str, *names: str, since: int = 1) -> Callable[[R], R]:
    """Register a function as the import rule of the ONNX operators *names* of a *domain*.

    The function gets an :class:`~glow_nb.extend.ImportContext`, which emits nodes, and the
    :class:`~glow_nb.extend.OnnxNode`, which has operands and attributes. It returns the value of
    the output, or a tuple of values for an operator with several outputs. ::

        @imports("my.domain", "Scaled")
        def scaled(context: ImportContext, node: OnnxNode) -> Value:
            return (context.term(node.operand(0)) * node.number("scale", 1.0)).value

    A rule goes before the body that a model brings for an operator (a function of the model). A
    rule that the same module registers again replaces the first, with a notice.

    Args:
        domain: The domain of the operators.
        names: Their names.
        since: The version of the domain's operator set from which on the rule holds.

    Raises:
        DefinitionError: Another module has a rule for an operator, as glow_nb has for those of
            ONNX; or ONNX defines the domain and has no such operator in it.
    """
    _check(domain, names, since)

    def register(rule: R) -> R:
        if not callable(rule):
            raise DefinitionError(
                f"import rule of {names[0]!r}: {rule!r:.80} is no function; write @imports(...) "
                "before one of a context and a node"
            )
        _register(domain, names, since, rule)
        return rule

    return register


def onnx_operator(domain: str, name: str, *, since: int = 1) -> Callable[[type[N]], type[N]]:
    """Make an operator class the ONNX operator *name* of a *domain* of your own.

    Models are imported with it, and ``export_onnx`` writes it. The operands are the operand fields
    of the class, in their order. The attributes are its other fields, with the same names: an
    ``int``, ``bool`` or ``ElementKind`` is an INT of ONNX, a ``float`` a FLOAT, rounded to 32 bits,
    a ``str`` a STRING; tuples of these are INTS, FLOATS and STRINGS. An attribute that a file
    leaves out is as by default. An attribute of another kind, an unknown one, a missing one without
    default, and operands that are too few or too many are errors with the name of the node. ::

        @onnx_operator("my.domain", "RowNormalize")
        @define_node("row_normalize")
        class RowNormalize(glow_nb.Node):
            input: glow_nb.Value
            epsilon: float = 1e-5

    :func:`imports` registers a rule for an ONNX operator that has other fields.

    Args:
        domain: The domain; it is none of ONNX.
        name: The name of the operator.
        since: The version of the domain's operator set that has brought the operator. Files are
            written with it, or with a later one that another operator in the file needs.

    Raises:
        DefinitionError: As of :func:`imports`; or a field is nothing that ONNX has, or the class
            is an ONNX operator already.
    """
    _check(domain, (name,), since)

    def register(node_class: type[N]) -> type[N]:
        from glow_nb.formats.onnx.exporter.by_fields import export_by_fields
        from glow_nb.formats.onnx.exporter.registry import EXPORTS, exports
        from glow_nb.formats.onnx.exporter.writer import Operator
        from glow_nb.formats.onnx.importer.by_fields import rule_by_fields
        from glow_nb.formats.onnx.importer.model import normal_domain
        from glow_nb.formats.onnx.importer.registry import RULES
        from glow_nb.formats.onnx.schema.schemas import onnx_domains

        if not (isinstance(node_class, type) and issubclass(node_class, Node)):
            raise DefinitionError(
                f"onnx_operator {name!r}: {node_class!r:.80} is no operator; write it before "
                "@define_node of a class"
            )
        if normal_domain(domain) in onnx_domains():
            raise DefinitionError(
                f"onnx_operator {name!r}: ONNX defines domain {domain!r}; choose a domain of your "
                f"own{_or_a_rule(domain, name)}"
            )
        if node_class not in NODES.values():
            raise DefinitionError(
                f"onnx_operator {name!r}: {node_class.__name__} is no operator yet; write "
                "@onnx_operator in the line before @define_node"
            )
        if node_class in EXPORTS:
            raise DefinitionError(
                f"onnx_operator {name!r}: {node_class.__name__} is written as an ONNX operator "
                "already; write a rule with glow_nb.extend.imports for another name"
            )
        _register(domain, (name,), since, rule_by_fields(node_class))
        operator = Operator(name, domain, since, versions=RULES[domain, name])
        exports(node_class)(export_by_fields(operator))
        return node_class

    return register


def _check(domain: object, names: tuple[object, ...], since: object) -> None:
    """Raise DefinitionError unless an operator can be called so."""
    words = (domain, *names)
    if not names or not all(isinstance(word, str) for word in words) or not all(names):
        raise DefinitionError(
            f"an ONNX operator is named by a domain and a name, {words!r:.160} is given; write "
            "@imports('my.domain', 'Name')"
        )
    if not isinstance(since, int) or isinstance(since, bool) or not 1 <= since <= NEWEST_VERSION:
        raise DefinitionError(
            f"since={since!r:.80}: operator sets have numbers from 1 to {NEWEST_VERSION}"
        )


def _or_a_rule(domain: str, name: str) -> str:
    """Return the advice to write an import rule, where :func:`imports` takes one; or nothing."""
    from glow_nb.formats.onnx.importer.model import normal_domain
    from glow_nb.formats.onnx.schema.schemas import is_defined

    known = normal_domain(domain)
    if _is_ours(known, name) or not is_defined(known, name):
        return ""
    return ", or write a rule with glow_nb.extend.imports"


def _is_ours(domain: str, name: str) -> bool:
    """Return whether glow_nb has the rule for an operator."""
    from glow_nb.formats.onnx.importer.registry import OWN, RULES

    return (domain, name) in RULES and (domain, name) not in OWN


def _register(domain: str, names: tuple[str, ...], since: int, rule: Rule) -> None:
    """Register *rule*, once those of glow_nb are there."""
    from glow_nb.formats.onnx.importer.model import normal_domain
    from glow_nb.formats.onnx.importer.registry import OWN, onnx_op
    from glow_nb.formats.onnx.schema.schemas import is_defined

    known = normal_domain(domain)
    for name in names:
        if not is_defined(known, name):
            raise DefinitionError(
                f"import rule of {name!r}: ONNX defines domain {domain!r}, and has no {name} in "
                "it; choose a domain of your own"
            )
        if _is_ours(known, name):
            raise DefinitionError(
                f"import rule of {name!r}: glow_nb has a rule for this operator of domain "
                f"{domain!r}; choose another name or domain"
            )
    onnx_op(*names, since=since, domain=known)(_guarded(rule))
    OWN.update((known, name) for name in names)


def _guarded(rule: Rule) -> Rule:
    """Return *rule* with errors that name it, for what it raises and for what it returns."""

    @wraps(rule)
    def guarded(context: ImportContext, node: OnnxNode) -> Value | tuple[Value | None, ...]:
        subject = f"{node.place}: import rule {name_of(rule)!r}"
        with foreign(PassError, subject):
            result = rule(context, node)
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, Term):
                raise PassError(f"{subject}: it returns a Term; return its .value")
            is_absent = value is None and isinstance(result, tuple)
            if not isinstance(value, Value) and not is_absent:
                raise PassError(
                    f"{subject}: it returns {value!r:.80}; return the value of the output, or a "
                    "tuple of values"
                )
        left_out = next(_not_emitted(result), None)
        if left_out is not None:
            raise PassError(
                f"{subject}: it has made a node {left_out.opcode} and not emitted it; write "
                "context.emit(node), or context.emit_all(node) for one with several results"
            )
        return result

    return guarded


def _not_emitted(result: Value | tuple[Value | None, ...]) -> Iterator[Node]:
    """Yield what a rule should have emitted of its *result*: one node may be left to its caller."""
    for value in result if isinstance(result, tuple) else (result,):
        node = None if value is None else producer_of(value)
        if node is None:
            continue
        made = map(producer_of, operands_of(node))
        for each in made if value is result and node is value else (node, *made):
            if each is not None and not each.name:  # the builder gives it one
                yield each

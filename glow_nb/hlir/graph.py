"""The high-level IR (paper 3): typed nodes and functions over values, all immutable.

A :class:`Function` is a tuple of frozen nodes, each defined before it is used. Passes do not edit
it, they return a new one (:mod:`glow_nb.hlir.rewrite`). A node infers its types when it is built,
so a badly typed node cannot exist.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from typing_extensions import override

from glow_nb.base.attributes import check_attributes
from glow_nb.base.costs import Cost
from glow_nb.base.errors import GlowError, UnsupportedError, VerifyError
from glow_nb.base.pattern import has_patterns, pattern_of
from glow_nb.base.plan import Plan
from glow_nb.base.schema import (
    Registry,
    as_dataclass,
    attributes_of,
    changed_operands,
    operands_of,
)
from glow_nb.base.size import Guard, Symbol, symbols_in
from glow_nb.base.text import Printable, format_name
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.values import Constant as Constant
from glow_nb.hlir.values import Placeholder as Placeholder
from glow_nb.hlir.values import State as State
from glow_nb.hlir.values import Value as Value

_NUMBERS = itertools.count(1)
"""Numbers that distinguish nodes without a name in texts, such as errors about their operands."""

NODES: Registry[str, type[Node]] = Registry("operator")


@dataclass(frozen=True, eq=False, repr=False)
class Node(Value):
    """Base of all high-level operators; subclasses declare operands and attributes.

    Attributes:
        predicate: A bool vector of the batch's length; where it is false the results for that
            sample are arbitrary (paper 3.3).
        name: Unique in the function.
        plan: The plan of its kernel; None if no pass has chosen one.
        result_types: The types of the results, inferred.
        type: The type of the first result; of the stored value for a node without results.
        type_transparent: It moves or selects elements: if operands have a quantized type, the
            results have that type, and the integers are moved like real numbers.
        commutes: It is commutative: patterns match its two operands in both orders.
    """

    opcode: ClassVar[str]
    scalar: ClassVar[str] = ""
    data_parallel: ClassVar[bool]
    has_side_effects: ClassVar[bool] = False
    type_transparent: ClassVar[bool] = False
    commutes: ClassVar[bool] = False
    _: KW_ONLY
    predicate: Value | None = None
    name: str = ""
    plan: Plan | None = None
    type: TensorType = field(init=False)
    result_types: tuple[TensorType, ...] = field(init=False)

    def __new__(cls, *values: object, **fields: object) -> Self:
        """Return a new node; with patterns among its operands, the pattern of one."""
        if has_patterns(values) or (fields and has_patterns(fields.values())):
            found: Self = pattern_of(cls, values, fields)
            return found
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_attributes(self)
        for operand in operands_of(self):
            self._check_operand(operand)
        types = self.infer_types()
        object.__setattr__(self, "result_types", types)
        object.__setattr__(self, "type", types[0] if types else operands_of(self)[0].type)
        if self.predicate is not None:
            batch = self.type.shape[:1]
            self.require(
                self.predicate.type == TensorType(ElementKind.BOOL, batch),
                f"the predicate must be a bool vector of the batch's length {list(batch)}, "
                f"got {self.predicate.type}",
            )

    def _check_operand(self, operand: object) -> None:
        if not isinstance(operand, Value):
            is_term = isinstance(getattr(operand, "value", None), Value)
            hint = "; give its .value" if is_term else ""
            raise VerifyError(self, f"operand {operand!r:.80} is not an IR value{hint}")
        if isinstance(operand, Node) and len(operand.result_types) != 1:
            count = len(operand.result_types)
            raise VerifyError(
                self, f"operand {operand} has {count} results; use one of its .results"
            )

    def map_operands(self, function: Callable[[Any], Any]) -> Self:
        """Return this node with every operand replaced by ``function(operand)``."""
        changes = changed_operands(self, function)
        if not changes:
            return self
        if all(_fits_as_well(getattr(self, name), new) for name, new in changes.items()):
            return self.copied(**changes)
        return dataclasses.replace(self, **changes)

    def copied(self, **changes: Any) -> Self:
        """Return a copy with *changes* that cannot make it invalid, without inferring its types
        again.

        These are another name and operands of the same types.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        copy.__dict__.pop("operands_of()", None)  # which it may have others of
        return copy

    def infer_type(self) -> TensorType:
        """Return the type of the only result, or raise :class:`VerifyError`."""
        raise NotImplementedError(type(self).__name__)

    def infer_types(self) -> tuple[TensorType, ...]:
        """Return the types of all results; override for a node with several or none."""
        return (self.infer_type(),)

    def evaluate(self, *operands: Any) -> Any:  # noqa: ARG002
        """Compute the result with NumPy: the meaning of the operator.

        Takes one array per operand field (None for an absent one, a tuple for a variadic one) and
        returns one array, or a tuple of arrays for several results. It reads nothing of ``self``
        but attributes and :attr:`result_types`.
        """
        raise UnsupportedError(f"{self}: no NumPy rule; add evaluate() to {type(self).__name__}")

    def cost(self) -> Cost:
        """Return the nominal arithmetic: one operation for each result if data parallel, otherwise
        none.

        Operators with more arithmetic override this. The cpu backend estimates from it whether
        threads should share a kernel.
        """
        return Cost(others=self.type.size) if self.data_parallel else Cost()

    def executed_cost(self) -> Cost:
        """Return the arithmetic that a kernel of this very operator carries out.

        It is the nominal one, except for operators that use another algorithm, such as a
        convolution in Winograd's form.
        """
        return self.cost()

    @property
    def results(self) -> tuple[Value, ...]:
        """The values this node defines: the node itself, or one :class:`Result` for each."""
        if len(self.result_types) == 1:
            return (self,)
        return tuple(Result(self, index) for index in range(len(self.result_types)))

    @property
    def decides(self) -> Symbol | None:
        """The size that a node makes known: the number that its operand holds."""
        return None

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in the types of its results and in its attributes."""
        shapes = (type.shape for type in self.result_types if type.is_open)
        return symbols_in((*shapes, *attributes_of(self).values()))

    @property
    def updates_state(self) -> bool:
        """Return whether it sets the next value of a state."""
        return False

    def require(self, condition: bool, message: str) -> None:
        """Raise :class:`VerifyError` about this node unless *condition* holds."""
        if not condition:
            raise VerifyError(self, message)

    @cached_property
    def _number(self) -> int:
        return next(_NUMBERS)

    @property
    @override
    def shown_name(self) -> str:
        """The name; ``relu.1`` for a node that has none yet, with numbers in the order of first
        use.
        """
        return self.name or f"{self.opcode}.{self._number}"

    @override
    def __repr__(self) -> str:
        return f"{self.opcode} %{format_name(self.shown_name)}"


def _fits_as_well(old: Any, new: Any) -> bool:
    """Return whether *new* may replace *old* everywhere, as far as its type is concerned."""
    if isinstance(old, tuple):
        return all(map(_fits_as_well, old, new))
    if isinstance(old, Placeholder) or not isinstance(new, Value):
        return False  # a save insists on a placeholder
    is_alike = new.type is old.type or new.type == old.type
    return is_alike and (not isinstance(new, Node) or len(new.result_types) == 1)


@dataclass(frozen=True, repr=False)
class Result(Value):
    """One result of a node that has several; printed ``%node#index``."""

    node: Node
    index: int

    @property
    @override
    def name(self) -> str:  # type: ignore[override]
        """The node's name and the index."""
        return f"{self.node.name}#{self.index}"

    @property
    @override
    def type(self) -> TensorType:  # type: ignore[override]
        """The type of this result."""
        return self.node.result_types[self.index]

    @override
    def __repr__(self) -> str:
        return f"%{format_name(self.node.shown_name)}#{self.index} : {self.type}"


N = TypeVar("N", bound=Node)


@dataclass_transform(eq_default=False, frozen_default=True)
def define_node(
    opcode: str,
    *,
    scalar: str = "",
    data_parallel: bool | None = None,
    commutes: bool = False,
) -> Callable[[type[N]], type[N]]:
    """Make a class a node: a frozen dataclass, registered under *opcode*.

    ``data_parallel`` says that each element of the result depends only on the elements of the
    operands at the same (broadcast) place. ``scalar`` implies this, unless ``data_parallel`` is
    False, as for an operator with a table: it is the expression of one element over the names of
    operands and attributes (:mod:`glow_nb.llir.scalar`). Instruction and kernel follow from it.
    ``commutes`` says that the operator is commutative: patterns match its two operands in both
    orders.
    """

    def define(cls: type[N]) -> type[N]:
        cls = as_dataclass(cls)
        cls.opcode, cls.scalar = opcode, scalar
        cls.data_parallel = bool(scalar) if data_parallel is None else data_parallel
        cls.commutes = commutes
        NODES.add(opcode, cls)
        return cls

    return define


def producer_of(value: Value) -> Node | None:
    """Return the node that computes *value*, or None for storage."""
    if isinstance(value, Result):
        return value.node
    return value if isinstance(value, Node) else None


def updates_last(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return *nodes* with those that update states after all others, which read the old values."""
    return tuple(sorted(nodes, key=lambda node: node.updates_state))


@dataclass(frozen=True, eq=False)
class Function(Printable):
    """A graph: nodes in an order where each is defined before it is used.

    Attributes:
        name: Unique in the module.
        inputs: Placeholders that the caller binds, in signature order; unused ones are kept.
        outputs: Placeholders that ``save`` nodes write, in signature order.
        nodes: The nodes, ``save`` nodes included.
        origins: The names of the imported nodes that each node was made from, by its name; a node
            that is not mentioned was made from itself (:mod:`glow_nb.hlir.provenance`).
    """

    name: str
    inputs: tuple[Placeholder, ...]
    outputs: tuple[Placeholder, ...]
    nodes: tuple[Node, ...]
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def use_counts(self) -> Mapping[Value, int]:
        """The number of operands that read each value that is read, in order of first use."""
        return Counter(itertools.chain.from_iterable(map(operands_of, self.nodes)))

    @cached_property
    def _classes(self) -> frozenset[type[Node]]:
        return frozenset(map(type, self.nodes))

    def classes_of(self, bases: tuple[type[Node], ...]) -> frozenset[type[Node]]:
        """Return the classes of its nodes that are *bases* or derived from these."""
        return frozenset(cls for cls in self._classes if issubclass(cls, bases))

    @cached_property
    def sizes(self) -> tuple[Symbol, ...]:
        """The symbols of its open sizes, with their ranges and hints."""
        shapes = (value.type.shape for value in self.placeholders if value.type.is_open)
        symbols = (symbol for node in self.nodes for symbol in node.symbols)
        return tuple(dict.fromkeys([*symbols_in(shapes), *symbols]))

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The comparisons of sizes for which it is valid, except those that follow from ranges."""
        sizes = set(self.sizes)  # a symbol may be in other functions, too, beside other symbols
        noted = (guard for symbol in self.sizes for guard in symbol.guards)
        return tuple(guard for guard in dict.fromkeys(noted) if sizes.issuperset(guard.symbols))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants that nodes read, in order of first use."""
        return tuple(value for value in self.use_counts if isinstance(value, Constant))

    @property
    def state(self) -> tuple[State, ...]:
        """The states that nodes read or save, in order of first use."""
        return tuple(value for value in self.use_counts if isinstance(value, State))

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """Inputs and outputs, each once."""
        return tuple(dict.fromkeys((*self.inputs, *self.outputs)))

    @property
    def storage(self) -> tuple[Value, ...]:
        """Inputs, outputs, states and constants, each once."""
        return (*self.placeholders, *self.state, *self.constants)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of nodes and storage."""
        return frozenset(value.name for value in (*self.storage, *self.nodes))

    def __getitem__(self, name: str) -> Node:
        """Return the node called *name*; raise GlowError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise GlowError(f"function {self.name!r} has no node {name!r}")

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def origins_of(self, node: Node) -> tuple[str, ...]:
        """Return the names of the imported nodes that *node* computes."""
        return self.origins.get(node.name, (node.name,))

    def with_nodes(
        self, nodes: Iterable[Node], origins: Mapping[str, tuple[str, ...]] | None = None
    ) -> Function:
        """Return this function with other *nodes* and, if given, other *origins*.

        The saves of states move after all other nodes: a rule may make a reader of an old value at
        any place.
        """
        nodes = updates_last(nodes)
        names = {node.name for node in nodes}
        known = self.origins if origins is None else origins
        kept = {name: found for name, found in known.items() if name in names}
        return dataclasses.replace(self, nodes=nodes, origins=kept)

    def users(self) -> dict[Value, list[Node]]:
        """Return the nodes that read each value, in order."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for operand in operands_of(node):
                users.setdefault(operand, []).append(node)
        return users

    @override
    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"func @{format_name(self.name)}({inputs}) -> ({outputs}), {len(self.nodes)} nodes"

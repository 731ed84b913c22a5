"""Building functions node by node, by hand or inside a pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar

import numpy as np

from glow_nb.base.arguments import array_of_numbers
from glow_nb.base.errors import GlowError
from glow_nb.base.text import TokenReader
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import (
    Constant,
    Function,
    Node,
    Placeholder,
    State,
    Value,
    updates_last,
)
from glow_nb.hlir.save import Save

N = TypeVar("N", bound=Node)


class Emitter(Protocol):
    """An object that takes nodes with one result, such as a :class:`Builder`."""

    def emit(self, node: Node, /) -> Value:
        """Append *node* and return its value."""

    def number(self, type: TensorType, number: float, /) -> Value:
        """Return a constant of one element that broadcasts to *type*."""


class Builder:
    """Collects the nodes of a function under construction and keeps names unique.

    Example::

        b = Builder("main")
        x = b.input("x", "float32<8 x 144>")
        w = b.constant("w", weights)
        b.save(b.emit(Relu(b.emit(MatMul(x, w)))), "y")
        function = b.function()
    """

    def __init__(self, name: str = "main", taken: Iterable[str] = ()) -> None:
        """Begin a function called *name*; names in *taken* are not given to new values."""
        self.name = name
        self.nodes: list[Node] = []
        self.inputs: list[Placeholder] = []
        self.outputs: list[Placeholder] = []
        self.origins: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[tuple[ElementKind, int, str], Constant] = {}
        self._taken_before = frozenset(taken)
        # Every new name with the one that was wished for, in the order in which they were taken.
        self._taken: dict[str, str] = {}
        self._suffixes: dict[str, int] = {}

    @classmethod
    def continuing(cls, function: Function, taken: Iterable[str] = ()) -> Self:
        """Return a builder that holds *function* and takes more nodes, inputs and outputs."""
        builder = cls(function.name, function.names.union(taken))
        builder.nodes += function.nodes
        builder.inputs += function.inputs
        builder.outputs += function.outputs
        builder.origins.update(function.origins)
        return builder

    def unique_name(self, name: str) -> str:
        """Return *name*, or ``name_1``, ``name_2`` ... if it is taken, and take it.

        Raises:
            GlowError: It is no text.
        """
        if not isinstance(name, str):
            raise GlowError(f"the name {name!r:.80} is a {type(name).__name__}; give text")
        unique = name
        while unique in self._taken or unique in self._taken_before:
            suffix = self._suffixes.get(name, 0) + 1
            self._suffixes[name] = suffix
            unique = f"{name}_{suffix}"
        self._taken[unique] = name
        return unique

    def mark(self) -> tuple[int, int]:
        """Return a mark to which :meth:`reset` can go back."""
        return len(self.nodes), len(self._taken)

    def reset(self, mark: tuple[int, int]) -> None:
        """Forget the nodes emitted and the names taken since *mark*."""
        nodes, names = mark
        del self.nodes[nodes:]
        while len(self._taken) > names:
            unique, name = self._taken.popitem()
            if unique != name:
                self._suffixes[name] -= 1
        kept = self._numbers.items()
        self._numbers = {key: number for key, number in kept if number.name in self._taken}

    def input(self, name: str, type: TensorType | str) -> Placeholder:
        """Add an input; *type* may be text such as ``"float32<8 x 3>"``."""
        placeholder = Placeholder(self.unique_name(name), as_type(type))
        self.inputs.append(placeholder)
        return placeholder

    def constant(self, name: str, array: Array, *, is_weight: bool = True) -> Constant:
        """Return a constant that holds *array*; it belongs to the function once a node reads it.

        A writable array is copied: later changes of it change no function. Training changes
        weights; a number of a formula is not a weight, ``is_weight=False``. A pass that computes a
        constant from others passes ``Constant.is_weight`` on, or emits nodes: ``fold_constants``
        folds them into constants that keep it.
        """
        numbers = _kept(f"constant {name!r}", array)
        return Constant.of(self.unique_name(name), numbers, is_weight=is_weight)

    def number(self, type: TensorType, number: float) -> Constant:
        """Return a constant of one element that broadcasts to *type*; each is made once."""
        key = (type.kind, type.rank, repr(number))  # in which -0.0 is not 0.0
        if key not in self._numbers:
            array = np.full((1,) * type.rank, number, type.kind.dtype)
            self._numbers[key] = self.constant("number", array, is_weight=False)
        return self._numbers[key]

    def state(self, name: str, array: Array) -> State:
        """Return a tensor that survives runs and begins as *array* is now; see :meth:`update`.

        It belongs to the function once a node reads it or it is updated. Functions whose nodes read
        the same state share it, if they are compiled as one module.
        """
        return State.of(self.unique_name(name), _kept(f"state {name!r}", array))

    def update(self, state: State, value: Value) -> Save:
        """Let the next run begin with *value* in *state*, at most once in a function.

        Nodes that read *state* get its old value, also those that are emitted later.

        Raises:
            GlowError: The state is updated already.
        """
        for node in self.nodes:
            if isinstance(node, Save) and node.output is state:
                raise GlowError(
                    f"state {state!r} of function {self.name!r}: {node} updates it already; "
                    "compute the value of the next run in one piece"
                )
        return self.emit(Save(value, state), name=f"{state.name}_save")

    def emit(self, node: N, name: str | None = None) -> N:
        """Append *node* under a unique name, by default after its opcode, and return it.

        Raises:
            GlowError: It is no node.
        """
        if not isinstance(node, Node):
            raise GlowError(
                f"{node!r:.80} is a {type(node).__name__}, not a node; emit() takes one such as "
                "Relu(x)"
            )
        named = node.copied(name=self.unique_name(name or node.name or node.opcode))
        self.nodes.append(named)
        return named

    def save(self, value: Value, name: str) -> Placeholder:
        """Make *value* an output called *name*; one value may be several, under different names.

        Raises:
            GlowError: An input or another output has this name, or *value* is none.
        """
        if not isinstance(value, Value):
            raise GlowError(
                f"output {name!r:.80} of function {self.name!r}: {value!r:.80} is a "
                f"{type(value).__name__}, not a value of the function"
            )
        for role, others in (("input", self.inputs), ("output", self.outputs)):
            if any(other.name == name for other in others):
                raise GlowError(
                    f"output {name!r} of function {self.name!r}: there is an {role} of this name; "
                    "choose another one"
                )
        output = Placeholder(self.unique_name(name), value.type)
        self.outputs.append(output)
        self.emit(Save(value, output), name=f"{output.name}_save")
        return output

    def function(self) -> Function:
        """Return the function built so far, its updates of states last."""
        nodes = updates_last(self.nodes)
        if not any(isinstance(node, Save) for node in nodes):
            raise GlowError(
                f"function {self.name!r} has no output; call save() for each result, or update() "
                "for a state"
            )
        return Function(self.name, tuple(self.inputs), tuple(self.outputs), nodes, self.origins)


def _kept(subject: str, array: Array) -> Array:
    """Return *array*, or a copy of one that can be written; raise GlowError if it is none."""
    numbers = array_of_numbers(GlowError, subject, array)
    return numbers.copy() if numbers.flags.writeable else numbers


def as_type(type: TensorType | str) -> TensorType:
    """Return *type*, parsed if it is text.

    Raises:
        GlowError: *type* is neither a type nor text.
        ParseError: The text is no type, or goes on after it.
    """
    if isinstance(type, TensorType):
        return type
    if not isinstance(type, str):
        raise GlowError(
            f"{type!r:.80} is neither a TensorType nor text; give one such as 'float32<8 x 3>'"
        )
    reader = TokenReader(type, "<type>")
    read = reader.read_type()
    reader.expect_kind("end", "the end of the text")
    return read

"""The operands of nodes: values, and the storage of tensors, all immutable (paper 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from typing_extensions import override

from glow_nb.base.arguments import array_of_numbers
from glow_nb.base.counted import Counted
from glow_nb.base.errors import GlowError
from glow_nb.base.payload import HasPayload, Payload
from glow_nb.base.text import format_name
from glow_nb.base.types import Array, TensorType


class Value:
    """Anything a node may read: storage, a node with one result, or one result of a node."""

    is_ir_value: ClassVar[bool] = True
    name: str
    type: TensorType

    @property
    def shown_name(self) -> str:
        """The name, or what text calls the value if it has none."""
        return self.name

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        """Return the value itself: it is immutable, and the graph below it may be deep."""
        return self

    @override
    def __repr__(self) -> str:
        return f"%{format_name(self.shown_name)} : {self.type}"


@dataclass(frozen=True, eq=False, repr=False)
class Placeholder(Value):
    """A tensor bound at run time, whose contents the optimizer cannot see (paper 3.1).

    Attributes:
        name: Unique in the module.
        type: Element kind and shape.
        counted: For an output with a data-dependent size, which part of it is valid.
    """

    name: str
    type: TensorType
    counted: Counted | None = None


@dataclass(frozen=True, eq=False, repr=False)
class State(HasPayload, Placeholder):
    """A tensor that survives runs, such as a weight that is trained (paper 3.1: it is mutable).

    A node that reads it gets its value at the beginning of the run. A ``save`` gives it the value
    that the next run begins with; all saves of states take place together, at the end of the run.
    The functions of a module share it.

    Attributes:
        payload: The value before the first run, or what makes it; it may be None as that of a
            :class:`Constant`.
    """

    payload: Payload = None

    @classmethod
    def of(cls, name: str, array: Array) -> State:
        """Return a state that begins as a read-only view of *array*."""
        constant = Constant.of(name, array)
        return cls(name, constant.type, payload=constant.payload)


@dataclass(frozen=True, eq=False, repr=False)
class Constant(HasPayload, Value):
    """A tensor known at compile time, which the optimizer may read and replace (paper 3.1).

    ``array`` holds the numbers. They may come from a recipe, and are then computed at first use.
    ``payload`` is None when the constant was read from text without its numbers; such a function
    verifies and prints but cannot be evaluated or compiled.

    Attributes:
        name: Unique in the function.
        type: The type of the numbers.
        payload: The numbers, or the recipe that makes them.
        is_weight: Training changes it, if it holds floats. False for numbers of a formula, which an
            importer or a rule emits; the text marks them ``fixed``.
    """

    name: str
    type: TensorType
    payload: Payload = None
    is_weight: bool = True

    @classmethod
    def of(cls, name: str, array: Array, *, is_weight: bool = True) -> Constant:
        """Return a constant that holds a read-only view of *array*."""
        view = array_of_numbers(GlowError, f"constant {name!r}", array).view()
        view.flags.writeable = False
        return cls(name, TensorType.of(view), view, is_weight)

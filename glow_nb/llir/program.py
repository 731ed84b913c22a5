"""The low-level IR (paper 3.5): a list of instructions over buffers, which are regions of memory.

A :class:`Program` has two parts, as in the paper's Figure 3. ``declare`` holds the regions that
live as long as the program: weights, whose contents are known, states, whose contents stay from run
to run, and the inputs and outputs that the caller binds. ``program`` is the list of instructions;
``alloc`` and ``dealloc`` mark the lifetimes of activations, and a ``tensor_view`` is a typed,
strided window on another buffer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Self, TypeVar, dataclass_transform

from typing_extensions import override

from glow_nb.base.attributes import check_attributes
from glow_nb.base.counted import Counted
from glow_nb.base.errors import VerifyError
from glow_nb.base.pattern import has_patterns, pattern_of
from glow_nb.base.payload import HasPayload, Payload
from glow_nb.base.plan import Plan
from glow_nb.base.schema import (
    Qualifier,
    Registry,
    as_dataclass,
    map_fields,
    operand_specs,
    per_item,
    qualified_operands_of,
)
from glow_nb.base.size import surely
from glow_nb.base.text import Printable, format_name
from glow_nb.base.types import TensorType
from glow_nb.llir.strides import contiguous_strides, interval

INSTRUCTIONS: Registry[str, type[Instruction]] = Registry("instruction")


@dataclass(frozen=True, eq=False, repr=False)
class Buffer:
    """A typed region of memory; compared by identity.

    Attributes:
        name: Unique in the program.
        type: Element kind and shape.
    """

    is_ir_value: ClassVar[bool] = True
    name: str
    type: TensorType

    @property
    def root(self) -> Buffer:
        """The region whose memory this one lies in; itself unless it is a view."""
        return self

    @property
    def offset(self) -> int:
        """Elements from the beginning of :attr:`root` to the first element."""
        return 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements to step over for one step along each dimension."""
        return contiguous_strides(self.type.shape)

    @cached_property
    def is_contiguous(self) -> bool:
        """Return whether the elements lie row-major without gaps."""
        wanted = contiguous_strides(self.type.shape)
        return all(
            size == 1 or stride == want
            for size, stride, want in zip(self.type.shape, self.strides, wanted, strict=True)
        )

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        """Return the buffer itself: it is immutable, and a chain of views may be long."""
        return self

    @override
    def __repr__(self) -> str:
        return f"%{format_name(self.name)}"


@dataclass(frozen=True, eq=False, repr=False)
class Weight(HasPayload, Buffer):
    """A region whose contents are known at compile time: those of a graph's ``Constant``.

    Attributes:
        payload: The numbers, or what makes them; None if they are not supplied.
    """

    payload: Payload = None


@dataclass(frozen=True, eq=False, repr=False)
class StateBuffer(HasPayload, Buffer):
    """A region that keeps its contents from run to run: a graph's ``State``.

    Instructions read the value of the last
    run; the instruction that writes the next value, each element exactly once, comes after them.

    Attributes:
        payload: The numbers before the first run, or what makes them.
    """

    payload: Payload = None


@dataclass(frozen=True, eq=False, repr=False)
class Bound(Buffer):
    """A region that the caller binds at run time: an input or an output of the program.

    Attributes:
        counted: For an output with a data-dependent size, which part of it is valid.
    """

    counted: Counted | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Activation(Buffer):
    """A region that lives from its ``alloc`` to its ``dealloc``, somewhere in the arena."""


@dataclass(frozen=True, eq=False, repr=False)
class Register(Buffer):
    """A value inside of a stack: it lives in the registers of a kernel, never in memory."""


@dataclass(frozen=True, eq=False, repr=False)
class View(Buffer):
    """A typed window on *base*: element ``i`` lies at ``start + sum(i[d] * steps[d])`` of it.

    Attributes:
        base: The buffer that it is a window on, possibly a view itself.
        start: Elements from the first element of *base*.
        steps: Elements per step along each dimension, counted in the memory of *base*.
    """

    base: Buffer
    start: int = 0
    steps: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        # Computed here, so that no code walks down a long chain of views by recursion.
        self.__dict__.update(root=self.base.root, offset=self.base.offset + self.start)

    @cached_property
    @override
    def root(self) -> Buffer:
        """The region that the chain of views ends in."""
        return self.base.root

    @cached_property
    @override
    def offset(self) -> int:
        """Elements from the beginning of :attr:`root`."""
        return self.base.offset + self.start

    @property
    @override
    def strides(self) -> tuple[int, ...]:
        """The view's own steps; contiguous if none were given."""
        return contiguous_strides(self.type.shape) if self.steps is None else self.steps


In = Annotated[Buffer, Qualifier("in")]
Out = Annotated[Buffer, Qualifier("out")]
InOut = Annotated[Buffer, Qualifier("inout")]
OptionalIn = Annotated[Buffer | None, Qualifier("in")]
ManyIn = Annotated[tuple[Buffer, ...], Qualifier("in")]
ManyOut = Annotated[tuple[Buffer, ...], Qualifier("out")]


@dataclass(frozen=True, eq=False, repr=False)
class Instruction:
    """Base of all instructions; operand annotations carry ``@in``, ``@out`` or ``@inout``.

    Attributes:
        opcode: The name in text.
        scalar: For a data-parallel instruction, the Python expression for one element over operand
            and attribute names; empty otherwise.
        inplace: Pairs (out, in) of operand names that may have exactly the same memory.
        node_class: The high-level operator that IRGen makes it from by equal field names.
        predicate: A bool vector of the batch's length; results of false samples are arbitrary.
        name: The high-level node that it was made from, for display; not unique.
        origins: The imported nodes that this node was made from, if not only from itself.
        plan: The plan of its kernel; None if none is chosen yet, or there is no choice.
    """

    opcode: ClassVar[str]
    scalar: ClassVar[str]
    inplace: ClassVar[tuple[tuple[str, str], ...]]
    node_class: ClassVar[type | None]
    _: KW_ONLY
    predicate: Buffer | None = None
    name: str = ""
    origins: tuple[str, ...] = ()
    plan: Plan | None = None

    def __new__(cls, *values: object, **fields: object) -> Self:
        """Return a new instruction; with patterns among its operands, the pattern of one."""
        if has_patterns(values) or (fields and has_patterns(fields.values())):
            found: Self = pattern_of(cls, values, fields)
            return found
        return object.__new__(cls)

    def __post_init__(self) -> None:
        check_attributes(self)
        self.verify()

    @property
    def imported_names(self) -> tuple[str, ...]:
        """The names of the imported nodes that this instruction computes."""
        return self.origins or ((self.name,) if self.name else ())

    def verify(self) -> None:
        """Raise :class:`VerifyError` if the operands do not fit each other."""

    def map_operands(self, function: Callable[[Buffer], Buffer]) -> Self:
        """Return this instruction with ``function`` of each operand, itself if none changed."""
        return map_fields(self, function)

    def require(self, condition: bool, message: str) -> None:
        """Raise :class:`VerifyError` about this instruction unless *condition* holds."""
        if not condition:
            raise VerifyError(self, message)

    @override
    def __repr__(self) -> str:
        operands = ", ".join(f"@{q} {b!r}" for q, b in qualified_operands_of(self))
        return f"{self.opcode} {operands}"


I = TypeVar("I", bound=Instruction)  # noqa: E741


@dataclass_transform(eq_default=False, frozen_default=True)
def define_instruction(
    opcode: str,
    *,
    scalar: str = "",
    inplace: tuple[tuple[str, str], ...] = (),
    node: type | None = None,
) -> Callable[[type[I]], type[I]]:
    """Make a class an instruction: a frozen dataclass, registered under *opcode*.

    With *node*, IRGen makes it from that operator automatically: the results go to the ``@out``
    operands in order, the operands to ``@in`` fields of the same names, attributes likewise.
    """

    def define(cls: type[I]) -> type[I]:
        cls = as_dataclass(cls)
        cls.opcode, cls.scalar, cls.inplace, cls.node_class = opcode, scalar, inplace, node
        INSTRUCTIONS.add(opcode, cls)
        return cls

    return define


def kernel_operands(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the operands in the order of a kernel's arguments: declared, absent ones left out."""
    found: list[Buffer] = []
    for spec in operand_specs(type(instruction)):
        value = getattr(instruction, spec.name)
        if spec.is_variadic:
            found += value
        elif value is not None:
            found.append(value)
    return tuple(found)


@define_instruction("alloc")
class Alloc(Instruction):
    """Begin the lifetime of *dest*; the allocator decides where it lies. Moves no memory."""

    dest: Out

    @override
    def verify(self) -> None:
        self.require(isinstance(self.dest, Activation), f"{self.dest} is not an activation")


@define_instruction("dealloc")
class Dealloc(Instruction):
    """End the lifetime of *dest*."""

    dest: Out

    @override
    def verify(self) -> None:
        self.require(isinstance(self.dest, Activation), f"{self.dest} is not an activation")


@define_instruction("tensor_view")
class TensorView(Instruction):
    """Declare the window *dest* on its base; it takes no time in a run."""

    dest: Out

    @override
    def verify(self) -> None:
        view = self.dest
        self.require(isinstance(view, View), f"{view} is not a view")
        assert isinstance(view, View)
        shape, strides = view.type.shape, view.strides
        self.require(
            len(shape) == len(strides), f"{len(shape)} dimensions but {len(strides)} strides"
        )
        self.require(
            view.type.kind == view.base.type.kind,
            f"view {view.type} and base {view.base.type} differ in kind",
        )
        if surely(view.type.size, "==", 0):
            return
        first, last = interval(view.offset, shape, strides)
        is_outside = surely(first, "<", 0) or surely(last, ">=", view.root.type.size)
        self.require(
            not is_outside,
            f"elements {first} to {last} lie outside of {view.root!r} : {view.root.type}",
        )


@dataclass(frozen=True)
class Arena:
    """Where the activations of a program lie in its one memory block.

    Attributes:
        offsets: Bytes from the beginning of the arena, for each activation.
        size_bytes: Size of the block.
        lower_bound_bytes: The largest sum of sizes live at one time; no placement is smaller.
    """

    offsets: Mapping[Buffer, int]
    size_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True, eq=False)
class Program(Printable):
    """A function as instructions over memory.

    Attributes:
        name: The function's name.
        weights: Regions with known contents.
        inputs: Regions the caller binds and the program reads, in signature order.
        outputs: Regions the caller binds and the program writes, in signature order.
        instructions: In execution order.
        arena: The placement of the activations, once allocated.
        state: Regions whose contents stay for the next run.
    """

    name: str
    weights: tuple[Weight, ...]
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]
    instructions: tuple[Instruction, ...]
    arena: Arena | None = None
    state: tuple[StateBuffer, ...] = ()

    @property
    def declared(self) -> tuple[Buffer, ...]:
        """The regions that live as long as the program, each once."""
        declared: tuple[Buffer, ...]
        declared = (*self.weights, *self.state, *self.inputs, *self.outputs)
        return tuple(dict.fromkeys(declared))

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The activations in order of allocation."""
        allocs = (i.dest for i in self.instructions if isinstance(i, Alloc))
        return tuple(b for b in allocs if isinstance(b, Activation))

    @property
    def work(self) -> tuple[Instruction, ...]:
        """The instructions that compute: all but alloc, dealloc and tensor_view."""
        return tuple(i for i in self.instructions if not is_marker(i))

    def with_instructions(self, instructions: Iterable[Instruction]) -> Program:
        """Return this program with other *instructions*, not allocated."""
        return dataclasses.replace(self, instructions=tuple(instructions), arena=None)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    @override
    def __repr__(self) -> str:
        arena = f", arena {self.arena.size_bytes} bytes" if self.arena else ""
        return f"program @{format_name(self.name)}, {len(self.work)} instructions{arena}"


def is_marker(instruction: Instruction) -> bool:
    """True for alloc, dealloc and tensor_view, which compute nothing."""
    return isinstance(instruction, Alloc | Dealloc | TensorView)


@per_item
def mutated(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the operands that *instruction* writes (``@out`` and ``@inout``)."""
    return tuple(b for q, b in qualified_operands_of(instruction) if q != "in")


@per_item
def read(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the operands that *instruction* reads (``@in`` and ``@inout``)."""
    return tuple(b for q, b in qualified_operands_of(instruction) if q != "out")

"""Nodes of any registered operator, drawn from nothing but its declaration.

The annotations of the fields say what to draw, and the operator's own ``infer_type`` judges it.
Arguments that it refuses are changed, one field at a time, until it takes them:

- Arguments are as good as the place of the complaint about them: a later one is progress.
- An operand whose type was compared with another one may take that type: so filters, biases and
  statistics get the shapes that fit the rest.

A new operator is drawn without a line here. Sizes are small, so that shapes agree often and what is
drawn is cheap to compute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from random import Random
from traceback import walk_tb
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from glow_nb.base.conversion import converted
from glow_nb.base.dot_instruction import DOTS
from glow_nb.base.errors import GlowError
from glow_nb.base.plan import Plan
from glow_nb.base.schema import FieldSpec, fields_of, map_operands
from glow_nb.base.types import QUANTIZED, Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value
from glow_nb.kernels.operators.channel_wise import ChannelWiseConvolution
from tests.property.asked_types import Memory, asked

KINDS = tuple(ElementKind)
QUANTIZATIONS = ((0.25, 0), (0.5, 3), (1.0, 1), (2.0, 0))
"""Scales and offsets of drawn quantized types: exact in every order of evaluation."""

SIZES = (1, 2, 3, 4, 5)
MAX_ELEMENTS = 4096
"""Of a drawn operand or result: programs are interpreted, and one example must not take seconds."""

PATIENCE = 200
"""Changes of one field without progress before drawing begins anew; each time some more."""

STARTS = 40
"""Beginnings before an operator counts as one that cannot be drawn."""

Arguments = dict[str, Any]
"""What is drawn for each field: for an operand its type, None, or a tuple of types."""


Judge = Callable[[Node], None]
"""Raises a :class:`GlowError` about a node that is not wanted."""


def no_judge(node: Node) -> None:
    """Take every node."""


GROUPED_DOTS = sorted(name for name, dot in DOTS.items() if dot.group > 1 and not dot.is_block)
"""Instructions of which the plan of a convolution of single channels names one."""


class NotDrawnError(Exception):
    """No arguments were found that the operator takes."""


GOOD = (inf,)
"""The place of no complaint."""


@dataclass(frozen=True)
class Verdict:
    """What an operator says to arguments.

    Attributes:
        place: Where it complains: the line of each function under way, the outermost first, and how
            much it had asked until then.
        wishes: Fields, and what they might be instead of what was given.
    """

    place: tuple[float, ...]
    wishes: tuple[tuple[str, Any], ...] = ()

    @property
    def is_good(self) -> bool:
        """True if there is no complaint."""
        return self.place == GOOD


class Drawer:
    """Draws arguments for one operator, by a random source that makes the draws repeatable."""

    def __init__(
        self, node_class: type[Node], random: Random, judge: Judge, sizes: Sequence[int] = SIZES
    ) -> None:
        """Draw for *node_class* what *judge* takes, too, with axes of *sizes*."""
        self.node_class, self.random, self.judge = node_class, random, judge
        self.all_sizes = sizes
        self.kind, self.rank, self.sizes = KINDS[0], 0, list(sizes)

    def arguments(self) -> Arguments:
        """Return arguments that the operator takes; raise NotDrawnError if none are found."""
        for start in range(STARTS):
            found = self._search(PATIENCE + start * PATIENCE // 4)
            if found is not None:
                return found
        raise NotDrawnError(f"{self.node_class.opcode}: nothing that was drawn fits it")

    def _search(self, patience: int) -> Arguments | None:
        kinds = (ElementKind.FLOAT32, self.random.choice(KINDS))
        self.kind, self.rank = self.random.choice(kinds), self.random.randrange(4)
        self.sizes = self.random.sample(self.all_sizes, 2)
        specs = fields_of(self.node_class)
        drawn: Arguments = {}
        if self.node_class is ChannelWiseConvolution:
            drawn["plan"] = Plan.of("channel_wise", dot=self.random.choice(GROUPED_DOTS))
        for spec in specs:
            drawn[spec.name] = self._field(spec, drawn)
        best, verdict = self._fulfilled(drawn)
        steps = 0
        while not verdict.is_good and steps < patience:
            spec = self.random.choice(specs)
            changed, found = self._fulfilled(best | {spec.name: self._changed(spec, best)})
            steps = 0 if found.place > verdict.place else steps + 1
            if found.place >= verdict.place:
                best, verdict = changed, found
        return best if verdict.is_good else None

    def _fulfilled(self, arguments: Arguments) -> tuple[Arguments, Verdict]:
        """Return *arguments*, or others that give operands the types that they should have."""
        verdict = judged(self.node_class, arguments, self.judge)
        for _ in arguments:
            if verdict.is_good or not verdict.wishes:
                break
            name, wish = self.random.choice(verdict.wishes)
            found = judged(self.node_class, arguments | {name: wish}, self.judge)
            if found.place < verdict.place:
                break
            arguments, verdict = arguments | {name: wish}, found
        return arguments, verdict

    def _changed(self, spec: FieldSpec, others: Arguments) -> Any:
        """Return another argument for a field: anew or in part."""
        old, new = others[spec.name], self._field(spec, others)
        if isinstance(old, TensorType) and isinstance(new, TensorType):
            parts = (new.with_shape(old.shape), old.with_shape(new.shape), self._resized(old))
            return self.random.choice((new, *parts))
        return new

    def _resized(self, type: TensorType) -> TensorType:
        """Return *type* with another size of one axis."""
        shape = list(type.shape)
        if shape:
            shape[self.random.randrange(len(shape))] = self.random.choice(self.all_sizes)
        return type.with_shape(tuple(shape))

    def _field(self, spec: FieldSpec, others: Arguments) -> Any:
        if spec.is_operand:
            return self._operand(spec, others)
        if spec.has_default and not self.random.randrange(4):
            return default_of(self.node_class, spec)
        return self._attribute(spec.annotation, spec, others)

    def _operand(self, spec: FieldSpec, others: Arguments) -> Any:
        if spec.is_optional and self.random.randrange(2):
            return None
        if spec.is_variadic:
            first = self._type(others)
            count = self.random.randint(1, 3)
            return (first, *(self._like(first) for _ in range(count - 1)))
        return self._type(others)

    def _type(self, others: Arguments) -> TensorType:
        """Return a type, half of the time one of the same kind or rank as another operand."""
        known = [t for value in others.values() for t in types_in(value)]
        if known and not self.random.randrange(3):
            return self._like(self.random.choice(known))
        rank = self.random.choice((self.rank, self.rank + 2, self.random.randrange(6)))
        shape = tuple(self.random.choice(self.sizes) for _ in range(rank))
        kinds = (self.kind, self.kind, ElementKind.INT64, self.random.choice(KINDS))
        kind = self.random.choice(kinds)
        if kind in QUANTIZED and self.random.randrange(2):
            return TensorType(kind, shape, *self.random.choice(QUANTIZATIONS))
        return TensorType(kind, shape)

    def _like(self, type: TensorType) -> TensorType:
        """Return a type like *type*, of which each size is kept or becomes 1 or another one."""
        sizes = (self.random.choice((n, n, n, 1, *self.sizes)) for n in type.shape)
        return type.with_shape(tuple(sizes))

    def _attribute(self, annotation: Any, spec: FieldSpec, others: Arguments) -> Any:
        items = get_args(annotation)
        if items and items[-1] is ...:
            return self._row(items[0], spec, others)
        if items:
            return tuple(self._attribute(item, spec, others) for item in items)
        if annotation is int:
            return self._integer(others)
        if annotation is float:
            return self.random.choice((0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 0.0, -0.5, -1.0, inf, -inf))
        if annotation is bool:
            return bool(self.random.randrange(2))
        if annotation is ElementKind:
            return self.random.choice(KINDS)
        return self.random.choice(spec.words or ("",))

    def _integer(self, others: Arguments) -> int:
        sizes = [n for value in others.values() for t in types_in(value) for n in t.shape]
        return self.random.choice((-1, 0, 0, 1, 1, 2, 3, 4, 8, 16, *sizes[:4]))

    def _row(self, item: Any, spec: FieldSpec, others: Arguments) -> tuple[Any, ...]:
        """Return a tuple of any length; most numbers go with the rank of an operand.

        There is one for each axis or each spatial axis, or two, or they name axes, or are sizes.
        """
        known = [t.shape for value in others.values() for t in types_in(value)] or [()]
        shape = self.random.choice(known)
        rank = self.random.choice((len(shape), self.rank, self.rank))
        length = self.random.choice((rank, 2 * rank))
        if item is not int:
            return tuple(self._attribute(item, spec, others) for _ in range(length))
        if self.random.randrange(3):
            least, span = self.random.choice((-1, 0, 0, 1, 1)), self.random.randrange(1, 4)
            return tuple(self.random.randint(least, least + span) for _ in range(length))
        return self.random.choice((self._axes, self._sizes, self._cut))(shape)

    def _axes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        axes = self.random.sample(range(len(shape)), len(shape))
        return tuple(axes[: self.random.choice((len(shape), self.random.randint(0, len(shape))))])

    def _sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return sizes of as many elements as *shape* has, or of those it broadcasts to."""
        if self.random.randrange(2):
            return tuple(self.random.choice(self.sizes) if n == 1 else n for n in shape)
        sizes = self.random.sample(shape, len(shape))
        if len(sizes) > 1 and self.random.randrange(2):
            sizes[:2] = [prod(sizes[:2])]
        elif self.random.randrange(2):
            sizes.append(1)
        return tuple(sizes)

    def _cut(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of the pieces of one axis."""
        size = self.random.choice(shape) if shape else 0
        cuts = sorted(self.random.randint(0, size) for _ in range(self.random.randrange(3)))
        return tuple(b - a for a, b in zip((0, *cuts), (*cuts, size), strict=True))


def is_row(value: Any) -> bool:
    """True of an attribute that is a tuple."""
    return isinstance(value, tuple) and not types_in(value)


def types_in(value: Any) -> list[TensorType]:
    """Return the types of an operand field; none of an attribute or an absent operand."""
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, TensorType)]


def default_of(node_class: type[Node], spec: FieldSpec) -> Any:
    """Return the default of a field that has one."""
    return getattr(node_class, spec.name)


def judged(node_class: type[Node], arguments: Arguments, judge: Judge) -> Verdict:
    """Return what the operator, and then *judge*, say to *arguments*.

    What is not a :class:`GlowError` is a mistake of the operator and raised.
    """
    seen = {name: Memory() for name in arguments}
    values = {name: _asking(value, seen[name]) for name, value in arguments.items()}
    try:
        node = node_class(**values)
        if max((type.size for type in node.result_types), default=0) > MAX_ELEMENTS:
            return Verdict((0,))
        judge(node)
    except GlowError as error:
        lines = (line for _, line in walk_tb(error.__traceback__))
        questions = sum(memory.questions for memory in seen.values())
        wishes = (
            (name, wish)
            for name, memory in seen.items()
            for wish in _wishes(arguments[name], memory.others)
        )
        return Verdict((*lines, questions), tuple(wishes))
    return Verdict(GOOD)


def _asking(value: Any, memory: Memory) -> Any:
    """Return the placeholders for an operand field of the types *value*; an attribute as it is."""
    if isinstance(value, TensorType):
        return Placeholder("x", asked(value, memory))
    return tuple(_asking(item, memory) for item in value) if types_in(value) else value


def _wishes(value: Any, types: list[TensorType]) -> list[Any]:
    if not isinstance(value, tuple):
        return list(types)
    return [(*value[:i], type, *value[i + 1 :]) for type in types for i in range(len(value))]


def draw_arguments(
    node_class: type[Node], seed: int, judge: Judge = no_judge, sizes: Sequence[int] = SIZES
) -> Mapping[str, Any]:
    """Return arguments that *node_class* and *judge* take: the same for the same *seed*.

    They are those that are drawn without *judge*, if it takes them: several tests begin with equal
    seeds, and some operators are found after thousands of others.
    """
    key: Any = node_class  # whose hash mypy does not see
    unjudged = _arguments(key, seed, no_judge, sizes)
    is_taken = judge is no_judge or judged(node_class, dict(unjudged), judge).is_good
    return unjudged if is_taken else _arguments(key, seed, judge, sizes)


@lru_cache(maxsize=1024)
def _arguments(node_class: Any, seed: int, judge: Judge, sizes: Sequence[int]) -> Mapping[str, Any]:
    return MappingProxyType(Drawer(node_class, Random(seed), judge, sizes).arguments())


@dataclass(frozen=True)
class DrawnGraph:
    """A function of drawn nodes whose results are all saved, and what to feed it."""

    function: Function
    feeds: dict[str, Array]


def draw_graph(
    node_classes: Sequence[type[Node]], seed: int, judge: Judge = no_judge
) -> DrawnGraph:
    """Return a function with one node of each class; operands are inputs or constants."""
    builder, feeds, random = Builder(), dict[str, Array](), Random(seed)

    def constant_or_input(type: TensorType) -> Value:
        if random.randrange(3):
            return Placeholder("x", type)
        return dataclasses.replace(Constant.of("c", draw_numbers(type, random)), type=type)

    def named(value: Value) -> Value:
        if isinstance(value, Constant):
            return dataclasses.replace(value, name=builder.unique_name("c"))
        made = builder.input("x", value.type)
        feeds[made.name] = draw_numbers(value.type, random)
        return made

    for node_class in node_classes:
        arguments = draw_arguments(node_class, seed, judge)
        try:
            node = node_class(**{n: made(a, constant_or_input) for n, a in arguments.items()})
        except GlowError:  # it has looked at the numbers of a constant
            node = node_class(**{n: made(a, _as_input) for n, a in arguments.items()})
        node = builder.emit(map_operands(node, named))
        for index, result in enumerate(node.results):
            builder.save(result, f"{node.name}_{index}")
    return DrawnGraph(builder.function(), feeds)


def _as_input(type: TensorType) -> Value:
    return Placeholder("x", type)


def made(value: Any, operand: Callable[[TensorType], Value]) -> Any:
    """Return what *operand* makes of each type of a field; an attribute as it is."""
    if isinstance(value, TensorType):
        return operand(value)
    return tuple(map(operand, value)) if types_in(value) else value


def draw_numbers(type: TensorType, random: Random) -> Array:
    """Return quarters between -2 and 2 of a float kind, and small whole numbers of another.

    Every order of evaluation computes with these alike, so that what jumps can be compared, too.
    """
    rng = np.random.default_rng(random.randrange(2**32))
    if type.kind.is_signed:
        numbers = rng.integers(-8, 9, type.shape)
    else:
        numbers = rng.integers(0, 2 if type.kind is ElementKind.BOOL else 9, type.shape)
    if type.kind.is_float:
        return (numbers / 4).astype(type.kind.dtype)
    return converted(numbers, type.kind)

"""Random well-typed graphs: small, of many operators, with numbers that keep comparisons fair.

Operators that jump (comparisons, rounding) read only *exact* values: quarters, which every order of
evaluation computes alike. Everything else may differ in the last bits, and is compared so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from hypothesis import strategies as st

from glow_nb.base.distance import distance
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, State, Value
from tests.property.channel_patterns import CHANNEL_PATTERNS
from tests.property.patterns import PATTERNS
from tests.property.product_patterns import PRODUCT_PATTERNS

Draw = Callable[[st.SearchStrategy[int]], int]

CONTINUOUS: tuple[Callable[[Value], Node], ...] = (
    ops.Tanh,
    ops.Sigmoid,
    ops.Erf,
    ops.Softplus,
    ops.HardSwish,
    ops.Swish,
    lambda x: ops.Swish(x, alpha=0.5),
    ops.Sin,
    ops.Cos,
    lambda x: ops.Gelu(x, approximate="none"),
    lambda x: ops.Gelu(x, approximate="tanh"),
    lambda x: ops.Elu(x, alpha=0.75),
    lambda x: ops.HardSigmoid(x, alpha=0.25, beta=0.5),
)
EXACT: tuple[Callable[[Value], Node], ...] = (
    ops.Relu,
    ops.Neg,
    ops.Abs,
    lambda x: ops.Clip(x, minimum=-1.0, maximum=1.5),
    lambda x: ops.LeakyRelu(x, alpha=0.5),
)
JUMPING: tuple[Callable[[Value], Node], ...] = (ops.Floor, ops.Ceil, ops.Round, ops.Sign)
BINARY = (ops.Add, ops.Sub, ops.Maximum, ops.Minimum, ops.Mul)
COMPARISONS = (ops.Less, ops.LessEqual, ops.Greater, ops.GreaterEqual, ops.Equal)
REDUCTIONS = (ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin)


@dataclass
class GraphMaker:
    """Draws one graph, node by node, over a pool of the values made so far."""

    draw: Draw
    builder: Builder = field(default_factory=Builder)
    pool: list[Value] = field(default_factory=list)
    exact: set[Value] = field(default_factory=set)

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number from *low* to *high*, both included."""
        return self.draw(st.integers(low, high))

    def pick(self, items: list[Value]) -> Value:
        """Draw one of *items*."""
        return items[self.integer(0, len(items) - 1)]

    def numbers(self, *shape: int) -> Array:
        """Return quarters between -2 and 2, from a drawn seed."""
        rng = np.random.default_rng(self.integer(0, 2**16))
        return (rng.integers(-8, 9, shape) / 4).astype(np.float32)

    def add(self, node: Node, *, exact: bool) -> None:
        """Emit *node* and put its results into the pool."""
        for value in self.builder.emit(node).results:
            self.pool.append(value)
            if exact:
                self.exact.add(value)

    def grow(self) -> None:
        """Add one random operator that fits a value of the pool."""
        makers: tuple[Callable[[], None], ...] = (
            self.unary,
            self.jump,
            self.binary,
            self.select,
            self.reduce,
            self.move,
            self.scatter,
            self.reshape,
            self.split,
            self.window,
            self.product,
            self.normalize,
            self.layout_island,
            *(
                partial(pattern, self)
                for pattern in (*PATTERNS, *CHANNEL_PATTERNS, *PRODUCT_PATTERNS)
            ),
        )
        makers[self.integer(0, len(makers) - 1)]()

    def unary(self) -> None:
        value = self.pick(self.pool)
        if self.integer(0, 1):
            self.add(EXACT[self.integer(0, len(EXACT) - 1)](value), exact=value in self.exact)
        else:
            self.add(CONTINUOUS[self.integer(0, len(CONTINUOUS) - 1)](value), exact=False)

    def jump(self) -> None:
        candidates = [v for v in self.pool if v in self.exact]
        if candidates:
            value = self.pick(candidates)
            choice = self.integer(0, len(JUMPING) + 1)
            if choice < len(JUMPING):
                self.add(JUMPING[choice](value), exact=True)
            else:
                self.add(self.there_and_back(value, is_bit_cast=choice > len(JUMPING)), exact=True)

    def there_and_back(self, value: Value, *, is_bit_cast: bool) -> Node:
        """Return *value* after its bits were an integer's, or its elements of 8 bits."""
        convert = ops.BitCast if is_bit_cast else ops.ConvertTo
        kind = ElementKind.INT32 if is_bit_cast else ElementKind.FLOAT8E4M3FN
        return convert(self.builder.emit(convert(value, kind)), ElementKind.FLOAT32)

    def partner(self, value: Value) -> Value:
        """Return a value of the same shape from the pool, or a constant that broadcasts to it."""
        same = [v for v in self.pool if v.type == value.type]
        if self.integer(0, 1):
            return self.pick(same)
        shape = tuple(n if self.integer(0, 1) else 1 for n in value.type.shape)
        constant = self.builder.constant("c", self.numbers(*shape))
        self.exact.add(constant)
        return constant

    def binary(self) -> None:
        lhs = self.pick(self.pool)
        rhs = self.partner(lhs)
        kind = BINARY[self.integer(0, len(BINARY) - 1)]
        pair = (lhs, rhs) if self.integer(0, 1) else (rhs, lhs)
        both_exact = lhs in self.exact and rhs in self.exact
        self.add(kind(*pair), exact=both_exact and kind is not ops.Mul)

    def select(self) -> None:
        candidates = [v for v in self.pool if v in self.exact]
        if not candidates:
            return
        value = self.pick(candidates)
        rhs = self.partner(value)
        if rhs not in self.exact:
            return
        kind = COMPARISONS[self.integer(0, len(COMPARISONS) - 1)]
        condition = self.builder.emit(kind(value, rhs))
        if self.integer(0, 1):
            node: Node = ops.Select(condition, value, self.partner(value))
        else:
            node = ops.ConvertTo(condition, kind=ElementKind.FLOAT32)
        exact = isinstance(node, ops.ConvertTo) or node.rhs in self.exact  # type: ignore[attr-defined]
        self.add(node, exact=exact)

    def reduce(self) -> None:
        value = self.pick(self.pool)
        axes = tuple(a for a in range(value.type.rank) if self.integer(0, 1))
        if axes:
            kind = REDUCTIONS[self.integer(0, len(REDUCTIONS) - 1)]
            keep = bool(self.integer(0, 1))
            exact = value in self.exact and kind in (ops.ReduceMax, ops.ReduceMin)
            self.add(kind(value, axes=axes, keep_dims=keep), exact=exact)

    def permutation(self, rank: int) -> tuple[int, ...]:
        axes = list(range(rank))
        return tuple(axes.pop(self.integer(0, len(axes) - 1)) for _ in range(rank))

    def move(self) -> None:
        value = self.pick(self.pool)
        rank, shape, exact = value.type.rank, value.type.shape, value in self.exact
        if rank == 0:
            return
        axis = self.integer(0, rank - 1)
        choice = self.integer(0, 5)
        if choice == 0:
            self.add(ops.Transpose(value, permutation=self.permutation(rank)), exact=exact)
        elif choice == 1:
            same = [v for v in self.pool if v.type == value.type]
            other = self.pick(same)
            self.add(ops.Concat((value, other), axis=axis), exact=exact and other in self.exact)
        elif choice == 2:
            starts = tuple(self.integer(0, n - 1) for n in shape)
            steps = tuple(self.integer(1, 2) for _ in shape)
            self.add(ops.Slice(value, starts=starts, stops=shape, steps=steps), exact=exact)
        elif choice == 3:
            pads = tuple(self.integer(0, 2) for _ in range(2 * rank))
            self.add(ops.Pad(value, pads=pads, mode="constant", value=0.5), exact=exact)
        elif choice == 4:
            repeats = tuple(2 if a == axis else 1 for a in range(rank))
            self.add(ops.Tile(value, repeats=repeats), exact=exact)
        else:
            count = self.integer(1, 3)
            rng = np.random.default_rng(self.integer(0, 2**16))
            indices = self.builder.constant("i", rng.integers(-shape[axis], shape[axis], count))
            self.add(ops.Gather(value, indices, axis=axis), exact=exact)

    def scatter(self) -> None:
        """Write a part of a value, or a constant, over it or into it, at indices that repeat."""
        value = self.pick(self.pool)
        if value.type.rank == 0:
            return
        reduction = ("none", "add", "max")[self.integer(0, 2)]
        shape, axis = value.type.shape, self.integer(0, value.type.rank - 1)
        depth, count = self.integer(1, value.type.rank), self.integer(1, 4)
        rng = np.random.default_rng(self.integer(0, 2**16))
        if self.integer(0, 1):
            wanted = tuple(count if a == axis else n for a, n in enumerate(shape))
            places = rng.integers(-shape[axis], shape[axis], wanted)
            kind: Callable[..., Node] = partial(ops.ScatterElements, axis=axis)
        else:
            wanted = (count, *shape[depth:])
            places = rng.integers(0, shape[:depth], (count, depth))
            kind = ops.ScatterND
        indices = self.builder.constant("i", places)
        updates: Value = self.builder.constant("u", self.numbers(*wanted))
        if self.integer(0, 1):
            updates = self.builder.emit(ops.Relu(updates))
        exact = value in self.exact and reduction != "add"
        self.add(kind(value, indices, updates, reduction=reduction), exact=exact)

    def reshape(self) -> None:
        value = self.pick(self.pool)
        shape = list(value.type.shape)
        if self.integer(0, 1) and len(shape) >= 2:
            axis = self.integer(0, len(shape) - 2)
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif len(shape) < 5:
            shape.insert(self.integer(0, len(shape)), 1)
        self.add(ops.Reshape(value, shape=tuple(shape)), exact=value in self.exact)

    def split(self) -> None:
        candidates = [v for v in self.pool if any(n > 1 for n in v.type.shape)]
        if candidates:
            value = self.pick(candidates)
            axis = max(range(value.type.rank), key=lambda a: value.type.shape[a])
            first = self.integer(1, value.type.shape[axis] - 1)
            sizes = (first, value.type.shape[axis] - first)
            self.add(ops.Split(value, axis=axis, sizes=sizes), exact=value in self.exact)

    def window(self) -> None:
        candidates = [v for v in self.pool if v.type.rank == 4 and min(v.type.shape[1:3]) >= 2]
        if not candidates:
            return
        value = self.pick(candidates)
        kernel, stride = (2, self.integer(1, 2)), (self.integer(1, 2), 1)
        pads = (self.integer(0, 1), 0, 0, self.integer(0, 1))
        where = {"kernel": kernel, "stride": stride, "pads": pads, "dilation": (1, 1)}
        choice = self.integer(0, 2)
        if choice == 0:
            self.add(ops.MaxPool(value, **where), exact=value in self.exact)  # type: ignore[arg-type]
        elif choice == 1:
            count = bool(self.integer(0, 1))
            self.add(ops.AvgPool(value, **where, count_padding=count), exact=False)  # type: ignore[arg-type]
        else:
            channels = value.type.shape[3]
            group = channels if self.integer(0, 1) else 1
            depth = group * self.integer(1, 3)
            filter = self.builder.constant("w", self.numbers(depth, *kernel, channels // group))
            bias = self.builder.constant("b", self.numbers(depth))
            self.add(ops.Convolution(value, filter, bias, **where, group=group), exact=False)  # type: ignore[arg-type]

    def product(self) -> None:
        candidates = [v for v in self.pool if v.type.rank >= 2]
        if candidates:
            lhs = self.pick(candidates)
            inner, depth = lhs.type.shape[-1], self.integer(1, 9)
            batch = lhs.type.shape[:-2] if self.integer(0, 1) else ()
            rhs = self.builder.constant("m", self.numbers(*batch, inner, depth))
            self.add(ops.MatMul(lhs, rhs), exact=False)

    def normalize(self) -> None:
        candidates = [v for v in self.pool if v.type.rank >= 1]
        if not candidates:
            return
        value = self.pick(candidates)
        axis = self.integer(0, value.type.rank - 1)
        size = value.type.shape[axis]
        choice = self.integer(0, 2)
        if choice == 0:
            self.add(ops.Softmax(value, axis=axis), exact=False)
        elif choice == 1:
            self.add(ops.LogSoftmax(value, axis=axis), exact=False)
        else:
            self.add(self.batch_normalization(value, size, axis), exact=False)

    def batch_normalization(self, value: Value, size: int, axis: int) -> ops.BatchNormalization:
        scale, bias, mean, variance = (
            self.builder.constant("n", np.abs(self.numbers(size))) for _ in range(4)
        )
        return ops.BatchNormalization(
            value, scale, bias, mean, variance, epsilon=0.5, channel_axis=axis
        )

    def layout_island(self) -> None:
        """A convolution between transposes, as the importer makes it of an NCHW one."""
        candidates = [v for v in self.pool if v.type.rank == 4]
        if not candidates:
            return
        value = self.pick(candidates)
        inner = self.builder.emit(ops.Transpose(value, permutation=(0, 2, 3, 1)))
        channels, depth = value.type.shape[1], self.integer(1, 5)
        filter = self.builder.constant("w", self.numbers(depth, 1, 1, channels))
        bias = self.builder.constant("b", self.numbers(depth))
        convolution = self.builder.emit(
            ops.Convolution(
                inner,
                filter,
                bias,
                kernel=(1, 1),
                stride=(1, 1),
                pads=(0, 0, 0, 0),
                dilation=(1, 1),
                group=1,
            )
        )
        self.add(ops.Transpose(convolution, permutation=(0, 3, 1, 2)), exact=False)


def add_states(maker: GraphMaker, count: int) -> list[State]:
    """Put *count* states like values of the pool into it; their numbers are not exact."""
    states = []
    for index in range(count):
        array = maker.numbers(*maker.pick(maker.pool).type.shape)
        states.append(maker.builder.state(f"state{index}", array))
        maker.pool.append(states[-1])
    return states


def update_states(maker: GraphMaker, states: list[State]) -> None:
    """Give most *states* a next value: one of the pool, or one that is made from the old value."""
    for state in states:
        choice = maker.integer(0, 4)
        value = maker.pick([v for v in maker.pool if v.type == state.type])
        if choice >= 3:
            step = maker.builder.emit(BINARY[maker.integer(0, 3)](state, value))
            value = maker.builder.emit(ops.Tanh(step)) if choice == 3 else step
        if choice:
            maker.builder.update(state, value)


@st.composite
def functions(draw: st.DrawFn, max_nodes: int = 10, max_states: int = 2) -> Function:
    """Draw a function with one or two inputs of rank 2 to 4 and up to *max_nodes* random operators.

    What nothing reads becomes an output, up to four of them. Half of the functions have states, up
    to *max_states* of them.
    """
    maker = GraphMaker(lambda strategy: draw(strategy))
    for index in range(draw(st.integers(1, 2))):
        rank = draw(st.integers(2, 4))
        shape = tuple(draw(st.integers(1, 6)) for _ in range(rank))
        value = maker.builder.input(f"x{index}", TensorType(ElementKind.FLOAT32, shape))
        maker.pool.append(value)
        maker.exact.add(value)
    states = add_states(maker, max(0, draw(st.integers(-max_states, max_states))))
    for _ in range(draw(st.integers(1, max_nodes))):
        if maker.pool[-1].type.size <= 4096:
            maker.grow()
    update_states(maker, states)
    used = {operand for node in maker.builder.nodes for operand in _operands(node)}
    leaves = [v for v in maker.pool if v not in used] or maker.pool[-1:]
    for index, leaf in enumerate(leaves[-4:]):
        maker.builder.save(leaf, f"y{index}")
    return maker.builder.function()


def _operands(node: Node) -> list[Value]:
    from glow_nb.base.schema import operands_of

    return list(operands_of(node))


def feeds_of(function: Function, seed: int = 0) -> dict[str, Array]:
    """Return quarters between -2 and 2 for every input of *function*."""
    rng = np.random.default_rng(seed)
    return {
        p.name: (rng.integers(-8, 9, p.type.shape) / 4).astype(p.type.kind.dtype)
        for p in function.inputs
    }


def check_same(
    actual: dict[str, Array], expected: dict[str, Array], tolerance: float = 2e-5
) -> None:
    """Assert that outputs agree to *tolerance* of the largest number of each, NaNs included."""
    assert list(actual) == list(expected)
    for name, want in expected.items():
        got = actual[name]
        assert got.dtype == want.dtype, name
        assert got.shape == want.shape, name
        apart = distance(want, got, least=1.0)
        assert apart <= tolerance, f"{name} is off by {apart}: {got} instead of {want}"

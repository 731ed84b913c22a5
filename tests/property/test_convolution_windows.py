"""Convolutions and pools that read channels of a wider tensor, and write into one, without a copy.

The input is a part of the channels of a tensor, the result goes into a concat, and what is added to
it is a part of a third tensor. All of them stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.distance import distance
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Concat, Convolution, MaxPool, Slice
from glow_nb.hlir.ops.windows import Window
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Program, Register
from glow_nb.llir.stack import members_of

pytestmark = pytest.mark.jit

KINDS = (ElementKind.FLOAT32, ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.FLOAT16)
TOLERANCES = {ElementKind.FLOAT32: 2e-5, ElementKind.FLOAT64: 1e-12, ElementKind.FLOAT16: 2e-3}


@dataclass(frozen=True)
class Case:
    """A window operator and what lies around its operands.

    Attributes:
        operator: "dense", "depthwise", "grouped" or "pool".
        kind: Of all elements.
        batch: Images.
        sizes: Spatial sizes of the input.
        kernel, stride, dilation, pads: Of the window.
        channels: Input channels of the operator.
        depth: Output channels.
        group: Groups of channels.
        beside: Channels that lie before and after the input, the addend and the result.
        adds: Something is added to the result.
    """

    operator: str
    kind: ElementKind
    batch: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]
    channels: int
    depth: int
    group: int
    beside: tuple[int, int]
    adds: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    operator = draw(st.sampled_from(("dense", "dense", "depthwise", "grouped", "pool")))
    rank = draw(st.integers(1, 3))
    is_plain = draw(st.booleans())  # what Winograd's form is for

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel = tuple(
        draw(st.sampled_from((1, 3, 3, 2, 5)[: 3 if is_plain else 5])) for _ in each(1, 1)
    )
    ones = (1,) * rank
    stride, dilation = (ones, ones) if is_plain else (each(1, 2), each(1, 2))
    if max(kernel) == 1 and operator == "pool":  # nothing but another name
        kernel = (2, *kernel[1:])
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    pads = tuple(min(draw(st.integers(0, 2)), r - 1) for r in (*reach, *reach))
    sizes = tuple(r + extra for r, extra in zip(reach, each(0, 9 - 2 * rank), strict=True))
    group = {"depthwise": draw(st.integers(2, 37)), "grouped": draw(st.integers(2, 4))}.get(
        operator, 1
    )
    channels = group * (1 if operator == "depthwise" else draw(st.integers(1, 20)))
    many = 3 if operator == "depthwise" else 20
    depth = channels if operator == "pool" else group * draw(st.integers(1, many))
    return Case(
        operator, draw(st.sampled_from(KINDS)), draw(st.integers(1, 2)), sizes, kernel, stride,
        dilation, pads, channels, depth, group,
        (draw(st.integers(0, 9)), draw(st.integers(1, 9))), draw(st.booleans()),
    )  # fmt: skip


def build(case: Case) -> Function:
    b, random = Builder(), np.random.default_rng(0)
    before, behind = case.beside

    def constant(name: str, *shape: int) -> Value:
        numbers = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:], initial=1))
        return b.constant(name, numbers.astype(case.kind.dtype))

    def part(name: str, sizes: tuple[int, ...], channels: int) -> Value:
        """Return *channels* channels of an input that has others before and after them."""
        shape = (case.batch, *sizes, channels)
        whole = b.input(name, TensorType(case.kind, (*shape[:-1], before + channels + behind)))
        starts, stops = (*(0 for _ in shape[1:]), before), (*shape[:-1], before + channels)
        return b.emit(Slice(whole, starts, stops, (1,) * len(shape)))

    x = part("x", case.sizes, case.channels)
    window = Window(case.kernel, case.stride, case.pads, case.dilation).attributes
    if case.operator == "pool":
        y: Value = b.emit(MaxPool(x, **window))
    else:
        filter = constant("w", case.depth, *case.kernel, case.channels // case.group)
        bias = constant("b", case.depth)
        y = b.emit(Convolution(x, filter, bias, **window, group=case.group))
    if case.adds:
        y = b.emit(Add(y, part("addend", y.type.shape[1:-1], case.depth)))
    beside = b.input("beside", TensorType(case.kind, (*y.type.shape[:-1], behind)))
    b.save(b.emit(Concat((y, beside), y.type.rank - 1)), "y")
    return b.function()


def feeds_of(function: Function) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {
        value.name: random.standard_normal(value.type.shape).astype(value.type.kind.dtype)
        for value in function.inputs
    }


@given(cases(), st.integers(1, 3))
@settings(max_examples=settings().max_examples // 8)
def test_windows_keep_their_meaning_without_copies(case: Case, threads: int) -> None:
    function = build(case)
    feeds = feeds_of(function)
    net = glow_nb.compile(function, threads=threads)
    expected = glow_nb.evaluate(function, feeds)["y"]
    found = net.run(feeds)["y"]
    assert distance(expected, found, least=1.0) <= TOLERANCES[case.kind]
    assert isinstance(net.program, Program)
    members = [member for i in net.program.work for member in members_of(i)]
    copies = [i for i in members if isinstance(i, CopyInst)]
    from_memory = [i for i in copies if not any(isinstance(b, Register) for b in operands_of(i))]
    assert len(from_memory) == 1, net.program  # what lies beside the result


@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 2), st.integers(0, 2), st.booleans())
@settings(max_examples=max(1, settings().max_examples // 20))
def test_dilated_lines_keep_their_meaning(
    dilation: int, length: int, begin: int, end: int, adds: bool
) -> None:
    """A line whose sizes are multiples of the dilation is convolved as an image."""
    length = max(length, 3 - begin - end)
    case = Case(
        "dense", ElementKind.FLOAT32, 2, (length * dilation,), (3,), (1,), (dilation,),
        (begin * dilation, end * dilation), 128, 128, 1, (3, 5), adds,
    )  # fmt: skip
    function = build(case)
    feeds = feeds_of(function)
    net = glow_nb.compile(function, threads=2)
    expected = glow_nb.evaluate(function, feeds)["y"]
    assert distance(expected, net.run(feeds)["y"], least=1.0) <= TOLERANCES[case.kind]
    (convolution,) = (k for k in net.kernels if k.family in ("winograd", "convolution"))
    assert length < 12 or convolution.family == "winograd"

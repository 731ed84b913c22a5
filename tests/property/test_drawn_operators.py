"""Every registered operator keeps its meaning through text, lowering, interpreter and machine code.

The operators are drawn from their declarations, so that a new one is tested without a line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from typing_extensions import override

import glow_nb
import glow_nb.kernels.operators  # registers operators
from glow_nb.backends import backend_named
from glow_nb.base.distance import distance
from glow_nb.base.errors import GlowError
from glow_nb.base.schema import OneOf, map_operands, operands_of, structural_key
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import NODES, Function, Node, Value, define_node
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.families import FLOATS, fitted, require_kind, splat
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.hlir.rules import LOWERINGS, lowers
from glow_nb.hlir.save import Save
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.generate import generate, is_supported
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights, print_program
from glow_nb.llir.program import INSTRUCTIONS
from glow_nb.network import compilation as compiler
from tests.in_turn import marked
from tests.property import drawn_operators
from tests.property.asked_types import plain
from tests.property.drawn_operators import DrawnGraph, NotDrawnError, draw_graph

PAIRED = "its order is made of its weights; test_paired_convolution draws these"
NOT_DRAWN = {
    "save": "it writes an output, and every drawn graph has some",
    "paired_convolution": PAIRED,
    "decide_size": "its operand must be a certain number; test_decided_sizes draws these",
}
"""Operators that are not drawn on their own, and why."""

NOT_GENERATED = {
    "stack": "the pass stack_instructions makes it of others; test_stacks draws these",
    "paired_convolution": PAIRED,
}
"""Instructions that no drawn node becomes, and why."""

OPERATORS = sorted(
    name
    for name, node_class in NODES.items()
    if node_class.__module__.startswith("glow_nb.") and name not in NOT_DRAWN
)
ROUNDING = {
    ElementKind.FLOAT16: 2.0**-8,
    ElementKind.BFLOAT16: 2.0**-5,
    ElementKind.FLOAT32: 2e-5,
    ElementKind.FLOAT64: 1e-12,
}
"""What counts as rounding, of the largest number of a result, for each kind."""

PART = max(1, settings().max_examples // 60)
SEEDS = st.integers(0, 2**32 - 1)


def check_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    """Check that results differ by no more than rounding.

    Which of NaN and the infinities stands for what is not finite depends on the order of the
    arithmetic, so that only its place is compared.
    """
    assert list(found) == list(expected)
    for name, want in expected.items():
        got, kind = found[name], ElementKind.of(want.dtype)
        assert got.dtype == want.dtype, name
        assert got.shape == want.shape, name
        if not kind.is_float:
            bits = np.uint8 if kind.is_storage else want.dtype
            np.testing.assert_array_equal(got.view(bits), want.view(bits), err_msg=name)
            continue
        got, want = got.astype(np.float64), want.astype(np.float64)
        odd = ~np.isfinite(want)
        np.testing.assert_array_equal(~np.isfinite(got), odd, err_msg=name)
        apart = distance(np.where(odd, 0, want), np.where(odd, 0, got), least=1.0)
        assert apart <= ROUNDING[kind], f"{name} is off by {apart}: {got} instead of {want}"


def check_operator(node_class: type[Node], seed: int) -> None:
    """Check one drawn node of *node_class* in all that can be done without machine code."""
    drawn = draw_graph([node_class], seed)
    function, expected = drawn.function, evaluate(drawn.function, drawn.feeds)
    check_quantized_types(function)
    check_text(drawn)
    check_cloning(function)
    check_close(evaluate(lower(function), drawn.feeds), expected)
    net = glow_nb.compile(function, backend="interpreter", threads=1)
    check_close(net.run(drawn.feeds), expected)


def check_quantized_types(function: Function) -> None:
    """Check that an operator takes quantized types only if it knows them or moves elements."""
    for node in function.nodes:
        types = {
            value.type.with_shape(()) for value in operands_of(node) if value.type.is_quantized
        }
        if isinstance(node, Save) or not types or "quant" in type(node).__module__:
            continue
        assert node.type_transparent, node
        kept = {t.with_shape(()) for t in node.result_types if t.is_quantized}
        assert kept == types, node


def check_text(drawn: DrawnGraph) -> None:
    """Check that graph and program read back as they were printed, and mean the same."""
    function, feeds = drawn.function, drawn.feeds
    text = print_function(function)
    again = parse_function(text, constants=external_constants(function))
    assert print_function(again) == text
    check_close(evaluate(again, feeds), evaluate(function, feeds))
    interpreter = backend_named("interpreter")
    program = compiler.build_program(compiler.lower_for(function, interpreter), interpreter)
    text = print_program(program)
    assert print_program(parse_program(text, constants=external_weights(program))) == text


def check_cloning(function: Function) -> None:
    """Check that what changes nothing gives the same object, and that a copy computes the same."""
    assert rewrite(function, lambda node, rewriter: None) is function
    for node in function.nodes:
        assert map_operands(node, lambda operand: operand) is node
        assert structural_key(dataclasses.replace(node)) == structural_key(node)


LONG_DRAWN = ("quantized_convolution", "quantized_transposed_convolution")
"""Operators for the slow run: seconds pass until operands of fitting types are drawn; the tests of
quantized islands have both in the default run."""


SLOWLY_DRAWN = (
    *LONG_DRAWN,
    *("non_max_suppression", "quantized_fully_connected", "quantized_mat_mul"),
    *("recurrence", "recurrence_gradient", "recurrent_layer", "transposed_convolution"),
)
"""Operators that take half of the time of drawing all."""


@pytest.mark.parametrize("name", marked(OPERATORS, slow=LONG_DRAWN))
@given(SEEDS)
@settings(max_examples=PART)
def test_every_operator_keeps_its_meaning(name: str, seed: int) -> None:
    check_operator(NODES[name], seed)


def is_arbitrary_below_zero(node: ops.ConvertTo) -> bool:
    """True of a conversion of floats to unsigned integers."""
    has_fractions = "float" in node.input.type.kind.value  # kinds of 8 bits and less, too
    return has_fractions and node.kind.value.startswith("uint")


def has_kernels(node: Node) -> None:
    """Raise a GlowError about a node that has no kernel where others of its class have one.

    Or whose results are arbitrary: floats below zero as unsigned integers.
    """
    if isinstance(node, ops.ConvertTo) and is_arbitrary_below_zero(node):
        raise GlowError(f"{node}: what does not fit is arbitrary")
    if CPU_KERNELS.has_kernel(type(node)):
        builder = glow_nb.Builder()
        copy = builder.emit(node.map_operands(lambda value: builder.input("x", plain(value.type))))
        for index, result in enumerate(copy.results):
            builder.save(result, f"y{index}")
        for instruction in generate(builder.function()).work:
            generate_kernel(instruction, Target.host())


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
@given(SEEDS, st.integers(1, 3))
@settings(
    max_examples=max(1, settings().max_examples // 100),
    phases=set(Phase) - {Phase.shrink},  # a smaller seed is no smaller case, and costs minutes
)
def test_machine_code_of_operators_keeps_their_meaning(share: int, seed: int, threads: int) -> None:
    """The default run compiles every fourth operator; each has tests of its kernel besides."""
    drawn = draw_graph([NODES[name] for name in OPERATORS[share::4]], seed, has_kernels)
    found = glow_nb.compile(drawn.function, threads=threads).run(drawn.feeds)
    check_close(found, evaluate(drawn.function, drawn.feeds))


@pytest.mark.parametrize("starts", marked([10, drawn_operators.STARTS], only=[10]))
def test_what_counts_as_not_drawn_cannot_be_drawn(
    starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow run looks for arguments as long as where there are some."""
    monkeypatch.setattr(drawn_operators, "STARTS", starts)
    assert set(NOT_DRAWN) <= set(NODES)
    for name in NOT_DRAWN:
        with pytest.raises((NotDrawnError, GlowError)):
            check_operator(NODES[name], 0)


@pytest.fixture
def mixture() -> Iterator[type[Node]]:
    """Define an operator as a user would, and forget it again."""

    @define_node("mixture_for_the_test")
    class Mixture(Node):
        """``share`` of one tensor and the rest of the middle of others, with a bias or without."""

        input: Value
        others: tuple[Value, ...]
        bias: Value | None
        axes: tuple[int, ...]
        share: float = 0.5
        side: Annotated[str, OneOf("left", "right")] = "left"

        @override
        def infer_type(self) -> TensorType:
            type = self.input.type
            require_kind(self, "input", type, FLOATS)
            self.require(len(self.axes) == type.rank == len(set(self.axes)), "one axis each")
            for value in self.others:
                self.require(value.type == type, f"{value} must be {type}")
            wanted = type.with_shape((1,) * type.rank)
            self.require(self.bias is None or self.bias.type == wanted, f"not {wanted}")
            return type

        @override
        def evaluate(self, input: Array, others: tuple[Array, ...], bias: Array | None) -> Array:
            first, *rest = (input, *others) if self.side == "left" else (*others[::-1], input)
            mixed = first * self.share + sum(rest, np.zeros_like(input))
            return fitted(mixed if bias is None else mixed + bias, self.type)

    @lowers(Mixture)
    def lower_mixture(node: Mixture, rewriter: Rewriter) -> Value:
        values = (node.input, *node.others)
        first, *rest = values if node.side == "left" else values[::-1]
        share = splat(rewriter, node.type, node.share, "share")
        result: Value = rewriter.emit(ops.Mul(first, share))
        for value in (*rest, *(() if node.bias is None else (node.bias,))):
            result = rewriter.emit(ops.Add(result, value))
        return result

    yield Mixture
    del NODES[Mixture.opcode], LOWERINGS[Mixture]


def test_an_operator_of_a_user_is_drawn(mixture: type[Node]) -> None:
    drawn = [draw_graph([mixture], seed).function.nodes[0] for seed in range(8)]
    for name in ("others", "bias", "axes", "share", "side", "type"):
        assert len({str(getattr(node, name)) for node in drawn}) > 1, name
    for seed in range(8):
        check_operator(mixture, seed)


def test_a_wrong_lowering_of_a_user_is_found(mixture: type[Node]) -> None:
    del LOWERINGS[mixture]

    @lowers(mixture)
    def forget_the_others(node: Any, rewriter: Rewriter) -> Value:
        return rewriter.emit(ops.Abs(node.input))

    with pytest.raises(AssertionError, match="is off by"):
        for seed in range(8):
            check_operator(mixture, seed)


def generated(names: Collection[str]) -> set[str]:
    """Return the opcodes of the instructions that drawn nodes of operators *names* become."""
    function = draw_graph([NODES[name] for name in names], 0).function
    supported = lower(function, lambda node: not is_supported(type(node)))
    programs = map(generate, (supported, lower(function)))
    return {i.opcode for program in programs for i in program.instructions}


@pytest.mark.parametrize("left_out", marked([SLOWLY_DRAWN, ()], slow=[()]))
def test_every_instruction_is_drawn_through_its_node(left_out: tuple[str, ...]) -> None:
    """The slow run has all; the default one draws what it leaves out in the test of meaning."""
    defined = {
        name
        for name, instruction in INSTRUCTIONS.items()
        if instruction.__module__.startswith("glow_nb.")
    }
    missing = defined - generated([name for name in OPERATORS if name not in left_out])
    assert missing - set(left_out) == set(NOT_GENERATED)

"""Rules on programs: what fits, what is written, and memory that is written in between."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import DefinitionError, GlowError
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.extend import (
    ANY,
    Rewrite,
    Rules,
    any_of,
    is_constant,
    number,
    rule,
    used_here,
    wildcard,
    wildcards,
)
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.ops import (
    Abs,
    Add,
    Clip,
    Concat,
    Exp,
    MatMul,
    Maximum,
    MaxPool,
    Mul,
    Neg,
    ReduceSum,
    Relu,
    Reshape,
    Sub,
    Tanh,
    Transpose,
)
from glow_nb.llir.generate import generate
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.optimize.share_buffers import share_buffers
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Activation, Program
from glow_nb.llir.traits import KernelTraits
from glow_nb.llir.verify import verify
from glow_nb.types import ElementKind, TensorType

x, y, z, d = wildcards("x y z d")
POSITIVE = Rewrite(Relu(Neg(x)), Abs(x), name="positive")


def program_of(text: str, *, outputs: str = "%y = output float32<4>") -> Program:
    """Return the program of the instructions *text*, over an input and *outputs* of four floats."""
    program = parse_program(
        f"declare @main {{\n%x = input float32<4>\n{outputs}\n}}\nprogram {{\n{text}\n}}\n"
    )
    verify(program)
    return program


def lines(program: Program) -> list[str]:
    """Return the instructions without markers, without where they come from."""
    verify(program)
    return [repr(instruction) for instruction in program.work]


def chain(*kinds: Any, shape: str = "float32<4>") -> Program:
    b = Builder()
    value: Any = b.input("x", shape)
    for kind in kinds:
        value = b.emit(kind(value))
    b.save(value, "y")
    return generate(b.function())


def test_what_comes_instead_writes_where_the_root_wrote() -> None:
    program = POSITIVE(chain(Neg, Relu))
    assert lines(program) == ["abs @out %y, @in %x"]
    assert program.work[0].imported_names == ("neg", "relu")
    assert POSITIVE(program) is program


def test_the_same_rule_works_on_graphs_and_programs() -> None:
    signless = Rewrite(Abs(Neg(x)), Abs(x), name="signless")
    feed = np.array([-1, 2, -3, 4], np.float32)
    for passes in ({"pipeline": (signless,)}, {"pipeline": (), "program_pipeline": (signless,)}):
        net = glow_nb.compile(_graph(Neg, Abs), backend="interpreter", **passes)
        assert len(net.kernels) == 1
        np.testing.assert_array_equal(net.run(feed)["y"], np.abs(feed))
        assert "signless" in repr(net.pipeline)


def _graph(*kinds: Any) -> glow_nb.Function:
    b = Builder()
    value: Any = b.input("x", "float32<4>")
    for kind in kinds:
        value = b.emit(kind(value))
    b.save(value, "y")
    return b.function()


def test_a_rule_is_applied_until_it_fits_no_more_and_dead_stores_go() -> None:
    assert lines(Rewrite(Relu(Relu(x)), Relu(x))(chain(Relu, Relu, Relu))) == [
        "relu @out %y, @in %x"
    ]
    assert lines(Rewrite(Relu(Relu(x)), x)(chain(Relu, Relu))) == ["copy @out %y, @in %x"]


def test_operands_of_operators_that_commute_are_looked_for_in_both_orders() -> None:
    b = Builder()
    left, right = b.input("x", "float32<4>"), b.input("z", "float32<4>")
    b.save(b.emit(Add(b.emit(Neg(left)), right)), "y")
    assert lines(Rewrite(Add(x, Neg(y)), Sub(x, y))(generate(b.function()))) == [
        "sub @out %y, @in %z, @in %x"
    ]


def test_operands_of_a_replacement_get_memory_of_their_own() -> None:
    program = Rewrite(Relu(x), Maximum(Mul(x, number(2)), number(0)))(chain(Exp, Relu))
    assert lines(program) == [
        "exp @out %exp, @in %x",
        "mul @out %relu_mul, @in %exp, @in %number",
        "maximum @out %y, @in %relu_mul, @in %number_1",
    ]
    (two, zero) = program.weights
    assert (two.type, two.array.item(), zero.array.item()) == (
        TensorType(ElementKind.FLOAT32, (1,)),
        2.0,
        0.0,
    )
    twice = Rewrite(Mul(x, number(2)), Add(x, x))(program)
    assert "add @out %relu_mul, @in %exp, @in %exp" in lines(twice)


def test_an_operand_that_is_written_in_between_is_another_one() -> None:
    written = program_of(
        """
        %a = alloc float32<4>
        %b = alloc float32<4>
        exp @out %a, @in %x
        neg @out %b, @in %a
        tanh @out %a, @in %x
        relu @out %y, @in %b
        copy @out %z, @in %a
        dealloc %b
        dealloc %a
        """,
        outputs="%y = output float32<4>\n%z = output float32<4>",
    )
    assert POSITIVE(written) is written
    moved = program_of(
        """
        %a = alloc float32<4>
        %b = alloc float32<4>
        exp @out %a, @in %x
        neg @out %b, @in %a
        relu @out %y, @in %b
        tanh @out %a, @in %x
        copy @out %z, @in %a
        dealloc %b
        dealloc %a
        """,
        outputs="%y = output float32<4>\n%z = output float32<4>",
    )
    assert "abs @out %y, @in %a" in lines(POSITIVE(moved))


WRITTEN_OVER = {
    "all of it": "exp @out %a, @in %x",
    "a part": """
        %part = tensor_view %a {start = 2, steps = [1]} : float32<2>
        %half = tensor_view %x {start = 0, steps = [1]} : float32<2>
        exp @out %part, @in %half
        """,
}


@pytest.mark.parametrize("what", WRITTEN_OVER)
def test_a_value_that_is_written_over_before_it_is_read_is_not_found(what: str) -> None:
    program = program_of(
        f"""
        %a = alloc float32<4>
        neg @out %a, @in %x
        {WRITTEN_OVER[what]}
        relu @out %y, @in %a
        dealloc %a
        """
    )
    assert POSITIVE(program) is program


def test_a_part_of_a_value_is_another_value() -> None:
    program = program_of(
        """
        %a = alloc float32<4>
        %part = tensor_view %a {start = 2, steps = [1]} : float32<2>
        neg @out %a, @in %x
        relu @out %y, @in %part
        dealloc %a
        """,
        outputs="%y = output float32<2>",
    )
    assert POSITIVE(program) is program


def test_an_operand_that_was_computed_over_is_gone() -> None:
    in_place = share_buffers(chain(Exp, Neg, Tanh, Relu))
    wanted = Rewrite(Tanh(Neg(x)), Neg(Tanh(x)))
    assert wanted(in_place) is in_place
    assert lines(wanted(chain(Exp, Neg, Tanh, Relu)))[1:3] == [
        "tanh @out %tanh_tanh, @in %exp",
        "neg @out %tanh, @in %tanh_tanh",
    ]


def test_a_wildcard_that_is_there_twice_is_one_value_and_not_just_one_memory() -> None:
    gated = Rewrite(Mul(x, Neg(x)), Tanh(x))
    same = program_of(
        """
        %a = alloc float32<4>
        neg @out %a, @in %x
        mul @out %y, @in %a, @in %x
        dealloc %a
        """
    )
    assert lines(gated(same)) == ["tanh @out %y, @in %x"]
    other = program_of(
        """
        %a = alloc float32<4>
        %b = alloc float32<4>
        exp @out %a, @in %x
        neg @out %b, @in %a
        tanh @out %a, @in %x
        mul @out %y, @in %b, @in %a
        dealloc %b
        dealloc %a
        """
    )
    assert Rewrite(Mul(x, Neg(x)), lambda: 3)(other) is other


def test_results_that_lie_on_an_operand_stay_only_where_the_instruction_may() -> None:
    program = program_of(
        """
        %a = alloc float32<4>
        %b = alloc float32<4>
        exp @out %a, @in %x
        neg @out %b, @in %a
        relu @out %a, @in %b
        copy @out %y, @in %a
        dealloc %b
        dealloc %a
        """
    )
    assert "abs @out %a, @in %a" in lines(POSITIVE(program))
    moved = Rewrite(Relu(Neg(x)), Transpose(x, permutation=(0,)))
    assert moved(program) is program
    assert lines(moved(chain(Neg, Relu))) == ["transpose @out %y, @in %x"]


@pytest.mark.parametrize("reader", ["exp @out %z, @in %a", "copy @out %z, @in %x"])
def test_a_value_that_something_else_reads_is_not_used_here(reader: str) -> None:
    text = """
        %a = alloc float32<4>
        neg @out %a, @in %x
        relu @out %y, @in %a
        READER
        dealloc %a
        """
    both = "%y = output float32<4>\n%z = output float32<4>"
    program = program_of(text.replace("READER", reader), outputs=both)
    alone = Rewrite(Relu(used_here(Neg(x))), Abs(x))
    assert ("abs @out %y, @in %x" in lines(alone(program))) is ("%a" not in reader)
    assert "abs @out %y, @in %x" in lines(POSITIVE(program))
    assert len(lines(POSITIVE(program))) == (3 if "%a" in reader else 2)


def test_a_value_that_the_caller_reads_is_not_used_here() -> None:
    both = "%y = output float32<4>\n%z = output float32<4>"
    program = program_of("neg @out %z, @in %x\nrelu @out %y, @in %z", outputs=both)
    assert Rewrite(Relu(used_here(Neg(x))), Abs(x))(program) is program
    assert lines(POSITIVE(program)) == ["neg @out %z, @in %x", "abs @out %y, @in %x"]


def test_memory_that_is_used_again_does_not_count_as_a_reader() -> None:
    program = program_of(
        """
        %a = alloc float32<4>
        neg @out %a, @in %x
        relu @out %y, @in %a
        exp @out %a, @in %x
        copy @out %z, @in %a
        dealloc %a
        """,
        outputs="%y = output float32<4>\n%z = output float32<4>",
    )
    alone = Rewrite(Relu(used_here(Neg(x))), Abs(x))
    assert lines(alone(program))[0] == "abs @out %y, @in %x"


def test_kernels_get_operands_with_gaps_only_if_they_can_take_them() -> None:
    text = """
        %a = alloc float32<1 x 4 x 4 x 8>
        %b = alloc float32<1 x 4 x 4 x 4>
        %part = tensor_view %a {start = 0, steps = [128, 32, 8, 1]} : float32<1 x 4 x 4 x 4>
        exp @out %a, @in %x
        relu @out %b, @in %part
        max_pool @out %y, @in %b {
            kernel = [2, 2], stride = [2, 2], pads = [0, 0, 0, 0], dilation = [1, 1]
        }
        dealloc %b
        dealloc %a
        """
    program = parse_program(
        "declare @main {\n%x = input float32<1 x 4 x 4 x 8>\n"
        f"%y = output float32<1 x 2 x 2 x 4>\n}}\nprogram {{{text}}}\n"
    )
    pool = program.work[-1]
    attributes = dict.fromkeys(("kernel", "stride", "pads", "dilation"), ANY)

    def below(node: Any, x: Any) -> Any:
        return Relu(MaxPool(x, **{name: getattr(node, name) for name in attributes}))

    sink = Rewrite(MaxPool(Relu(x), **attributes), below, name="sink")
    assert sink(program) is program
    strided = {type(pool): KernelTraits(strided=("input",))}
    assert lines(sink(program, traits=strided))[1].startswith("max_pool @out %max_pool_max_pool")
    told = PROGRAM_PASSES.with_options((sink,), {"traits": strided})
    assert PROGRAM_PASSES.run(program, told) is not program


def test_a_stack_is_not_looked_into() -> None:
    stacked = PROGRAM_PASSES.run(chain(Neg, Relu), ("stack_instructions",))
    assert len(stacked.work) == 1
    assert POSITIVE(stacked) is stacked


def test_rules_may_be_about_instructions() -> None:
    b = Builder()
    left, right = b.input("x", "float32<4>"), b.input("z", "float32<4>")
    b.save(b.emit(Concat((b.emit(Relu(left)), right), axis=0)), "y")
    program = generate(b.function())

    relu: Any = Relu(x)

    @rule(CopyInst(d, used_here(relu)))
    def written_there(d: Any, x: Any) -> Any:
        return Relu(x)

    assert lines(written_there(program))[0] == "relu @out %concat_0, @in %x"
    copies = Rewrite(CopyInst(d, x), lambda node, x: [CopyInst(node.dest, x.value)])
    with pytest.raises(GlowError, match="comes to no end"):
        copies(program)
    any_copy = Rewrite(any_of(CopyInst, src=Relu(ANY)), lambda node: None)
    assert any_copy(program) is program


def test_functions_may_return_several_instructions() -> None:
    def doubled(node: Any, x: Any, rewriter: Any) -> Any:
        place = rewriter.buffers.activation("aside", x.type)
        return [type(node)(place, x.value), CopyInst(node.dest, place)]

    once = Rewrite(Neg(x), doubled, when=lambda node: node.name and "aside" not in repr(node))
    assert lines(once(chain(Neg))) == ["neg @out %aside, @in %x", "copy @out %y, @in %aside"]


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        (lambda x: 3, "its replacement of relu .* is 3; it must be an operator"),
        (lambda x: ReduceSum(x, axes=(0,), keep_dims=True), "makes float32<4>, by .* float32<1>"),
        (lambda x: Reshape(x, shape=(4,)), "operator 'reshape' has no instruction"),
        (lambda x: MatMul(x, x), "the replacement of relu .* does not fit: .*must be matrices"),
        (lambda x: CopyInst(x.value, x), r"writes %x, and must write %y"),
        (lambda x: Add(number(1), number(2)), "has no operand except numbers"),
        (lambda x: Neg(CopyInst(src=x)), "is an operand of another instruction"),  # type: ignore[call-arg, arg-type]
        (lambda x: x.nothing, "AttributeError: .*nothing"),
        (lambda: Neg(y), "y cannot be built.* is passed to the parameter of its name"),
        (lambda x: Maximum(x, Neg(Clip(x, minimum=y))), "y cannot be built"),
        (lambda x: any_of(Neg, Abs, input=x), "it must be an operator"),
        (lambda x: Neg(any_of(Neg, Abs, input=x)), "cannot be built"),
        (lambda x: Add(x, number(1e300)), r"float32 cannot represent 1e\+300"),
    ],
)
def test_what_a_rule_makes_must_fit(replacement: Any, message: str) -> None:
    with pytest.raises(GlowError, match=message):
        Rewrite(Relu(x), replacement, name="mine")(chain(Relu))


def test_rules_that_do_not_end_are_named() -> None:
    there = Rewrite(Relu(x), Maximum(x, number(0)), name="there")
    back = Rewrite(Maximum(x, number(0)), Relu(x), name="back")
    with pytest.raises(GlowError, match=r"rules 'there', 'back' come to no end.*as it was before"):
        Rules("both", there, back)(chain(Relu))
    with pytest.raises(GlowError, match=r"rule 'grows' comes to no end"):
        Rewrite(Relu(x), Relu(Neg(x)), name="grows")(chain(Relu))


def test_a_pattern_has_wildcards_for_what_is_written() -> None:
    with pytest.raises(DefinitionError, match=re.escape("copy.dest: it is written")):
        Rewrite(CopyInst(Relu(x), y), y)  # type: ignore[arg-type]


def test_states_are_read_before_they_are_written() -> None:
    b = Builder()
    state = b.state("state", np.ones(4, np.float32))
    b.save(b.emit(Relu(b.emit(Neg(state)))), "y")
    b.update(state, b.emit(Exp(state)))
    program = generate(b.function())
    changed = POSITIVE(program)
    assert "abs @out %y, @in %state" in lines(changed)


def test_new_names_are_unique() -> None:
    program = program_of(
        """
        %relu_neg = alloc float32<4>
        exp @out %relu_neg, @in %x
        relu @out %y, @in %relu_neg from %relu
        dealloc %relu_neg
        """
    )
    changed = Rewrite(Relu(x), Abs(Neg(x)))(program)
    assert [b.name for b in changed.activations] == ["relu_neg", "relu_neg_1"]
    assert all(isinstance(b, Activation) for b in changed.activations)
    assert lines(Rewrite(Exp(x), Tanh(x))(changed))[0] == "tanh @out %relu_neg, @in %x"


def test_a_wildcard_for_constants_stands_for_weights() -> None:
    known = wildcard("w", is_constant)
    for is_weight in (True, False):
        b = Builder()
        image = b.input("x", "float32<4>")
        other = b.constant("w", np.ones(4, np.float32)) if is_weight else b.input("w", "float32<4>")
        b.save(b.emit(Mul(image, other)), "y")
        text = lines(Rewrite(Mul(x, known), Add(x, known))(generate(b.function())))
        assert text == [f"{'add' if is_weight else 'mul'} @out %y, @in %x, @in %w"]

"""What a stack may be: the rules that its text is held to."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import print_program
from glow_nb.llir.stack import StackInst

STACK = """declare @main {
  %x = input float32<4>
  %y = output float32<4>
}
program {
  stack {
    %a = register float32<4>
    tanh @out %a, @in %x
    neg @out %y, @in %a
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@in %a", "@in %b", "'%b' is not defined"),
        ("tanh @out %a, @in %x", "tanh @out %a, @in %a", "%a is read before it is written"),
        ("    %a = register float32<4>\n", "", "'%a' is not defined"),
    ],
)
def test_broken_stacks_are_refused(old: str, new: str, message: str) -> None:
    parse_program(STACK)
    with pytest.raises(GlowError, match=message) as error:
        parse_program(STACK.replace(old, new))
    assert isinstance(error.value, VerifyError) or "<text>:" in str(error.value)


DRAWN = """declare @main {
  %wide = input float32<4 x 2>
  %x = input float32<4 x 8>
  %z = input float32<4 x 8>
  %y = output float32<4 x 8>
  %row = output float32<4 x 2>
}
program {
  copy @out %row, @in %wide
  %m = alloc float32<4 x 8>
  stack {
    tanh @out %m, @in %x
    %s = register float32<4 x 8>
    softmax @out %s, @in %m {axis = 1}
    add @out %y, @in %s, @in %z
  }
  dealloc %m
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("add @out %y, @in %s, @in %z", "add @out %y, @in %s, @in %m", "from before the head"),
        ("softmax @out %s, @in %m", "softmax @out %s, @in %x", "it reads none"),
        ("add @out %y, @in %s, @in %z", "softmax @out %y, @in %s {axis = 0}", "not data parallel"),
        ("add @out %y, @in %s, @in %z", "add @out %m, @in %s, @in %z", "%m is written twice"),
        ("tanh @out %m, @in %x", "tanh @out %m, @in %x\n    abs @out %row, @in %wide",
         "abs .* has shape"),
        ("add @out %y, @in %s, @in %z", "add @out %y, @in %s, @in %z\n    abs @out %row, @in %wide",
         "abs .* has shape"),
    ],
)  # fmt: skip
def test_broken_producers_are_refused(old: str, new: str, message: str) -> None:
    program = parse_program(DRAWN)
    assert print_program(program) == DRAWN
    with pytest.raises(GlowError, match=message):
        parse_program(DRAWN.replace(old, new))


SQUARE = """declare @main {
  %x = input float32<4 x 4>
  %y = output float32<4 x 4>
}
program {
  stack {
    %a = register float32<4 x 4>
    tanh @out %a, @in %x
    mat_mul @out %y, @in %a, @in %x
  }
}
"""


def test_a_head_of_any_kind_reads_one_operand_that_producers_make() -> None:
    (stack,) = parse_program(SQUARE).work
    assert isinstance(stack, StackInst)
    assert stack.fused_operand is not None
    assert stack.fused_operand.name == "a"
    with pytest.raises(GlowError, match="must read one operand .* it reads %a, %a"):
        parse_program(SQUARE.replace("@in %a, @in %x", "@in %a, @in %a"))


def test_a_register_before_the_head_may_not_lie_upon_what_is_read_late() -> None:
    text = DRAWN.replace("%m = alloc", "%a = alloc").replace("dealloc %m", "dealloc %a")
    text = text.replace("  stack {", "  copy @out %a, @in %x\n  %m = tensor_view %a "
                        "{start = 0, steps = [8, 1]} : float32<4 x 8>\n  stack {")  # fmt: skip
    text = text.replace("@out %m, @in %x", "@out %m, @in %a")
    parse_program(text)  # the head reads only what has replaced it
    with pytest.raises(VerifyError, match="shares memory"):
        parse_program(text.replace("@in %s, @in %z", "@in %s, @in %a"))


LOOKED_UP = """declare @main {
  %x = input uint8<256>
  %t = input uint8<256>
  %y = output uint8<256>
}
program {
  stack {
    %a = register uint8<256>
    add @out %a, @in %x, @in %x
    int_lookup_table @out %y, @in %a, @in %t {scale = 1.0, offset = 0}
  }
}
"""


def test_a_table_is_made_before_the_stack() -> None:
    parse_program(LOOKED_UP)
    with pytest.raises(GlowError, match="table %a is made in the same stack"):
        parse_program(LOOKED_UP.replace("@in %a, @in %t", "@in %x, @in %a"))


def test_a_table_has_an_element_for_each_byte() -> None:
    with pytest.raises(GlowError, match="must be uint8<256>"):
        parse_program(LOOKED_UP.replace("%t = input uint8<256>", "%t = input uint8<255>"))

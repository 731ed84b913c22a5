"""Every rule of which instruction must come before which: leave it out, and one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.llir.dependences import dependences
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.parse import parse_program
from glow_nb.llir.program import Activation, Buffer, Instruction, View, Weight, mutated, read
from glow_nb.llir.verify import may_overlap

BIAS = Weight("bias", TensorType(ElementKind.FLOAT32, (1, 1)))

HEADER = """declare @main {
  %w = weight float32<2 x 3>, splat 2.0
  %x = input float32<2 x 3>
  %mask = input bool<2>
  %end = output float32<2 x 3>
}
program {
  %y = alloc float32<2 x 3>
  %z = alloc float32<2 x 3>
  %a = alloc float32<2 x 3>
  %b = alloc float32<2 x 6>
  %left = tensor_view %b {start = 0, steps = [6, 1]} : float32<2 x 3>
  %right = tensor_view %b {start = 3, steps = [6, 1]} : float32<2 x 3>
  %middle = tensor_view %b {start = 2, steps = [6, 1]} : float32<2 x 3>
"""
FOOTER = """
  copy @out %end, @in %w
  dealloc %y
  dealloc %z
  dealloc %a
  dealloc %b
}
"""


def found(text: str) -> list[list[int]]:
    """Return what comes right before each instruction but the last, which is in every program."""
    return dependences(parse_program(text).work)[:-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "relu @out %a, @in %x\n relu @out %y, @in %a", [[], [0]], id="read what was written"
        ),
        pytest.param(
            "relu @out %a, @in %x\n relu @out %y, @in %a\n neg @out %a, @in %x",
            [[], [0], [1]],
            id="write what was read",
        ),
        pytest.param(
            "relu @out %a, @in %x\n neg @out %a, @in %x", [[], [0]], id="write what was written"
        ),
        pytest.param(
            "relu @out %y, @in %x\n neg @out %z, @in %x\n", [[], []], id="read what is read"
        ),
        pytest.param(
            "relu @out %left, @in %x\n relu @out %right, @in %x\n relu @out %y, @in %left",
            [[], [], [0]],
            id="windows with no common element",
        ),
        pytest.param(
            "relu @out %left, @in %x\n relu @out %middle, @in %x\n relu @out %y, @in %right",
            [[], [0], [1]],
            id="windows that overlap",
        ),
        pytest.param(
            "relu @out %left, @in %x\n neg @out %right, @in %x\n"
            " reduce_sum @out %a, @in %b {axes = [0], keep_dims = true}",
            None,
            id="the region of windows",
        ),
        pytest.param(
            "relu @out %a, @in %x\n relu @out %y, @in %a\n relu @out %a, @in %y\n"
            " relu @out %z, @in %a",
            [[], [0], [1], [2]],
            id="what comes before anyway is left out",
        ),
        pytest.param(
            "copy @out %y, @in %w\n copy @out %z, @in %w", [[], []], id="weights are only read"
        ),
    ],
)
def test_what_comes_right_before(body: str, expected: list[list[int]] | None) -> None:
    if expected is None:
        body, expected = body.replace("%a, @in %b", "%sums, @in %b"), [[], [], [0, 1]]
        body = body.replace("reduce_sum", "%sums = alloc float32<1 x 6>\n reduce_sum")
        body += "\n dealloc %sums"
    assert found(HEADER + body + FOOTER) == expected


def test_a_condition_is_read() -> None:
    program = (
        HEADER.replace("%a = alloc", "%chosen = alloc bool<2>\n  %a = alloc")
        + "not @out %chosen, @in %mask\n relu @out %a, @in %x if %chosen\n"
        "  relu @out %y, @in %a\n  not @out %chosen, @in %mask\n  dealloc %chosen" + FOOTER
    )
    assert found(program) == [[], [0], [1], [1]]


def test_a_stack_reads_and_writes_what_its_members_do() -> None:
    stack = """relu @out %a, @in %x
  stack {
    %r = register float32<2 x 3>
    neg @out %r, @in %a
    exp @out %left, @in %r
  }
  relu @out %y, @in %left
  tanh @out %a, @in %x"""
    assert found(HEADER + stack + FOOTER) == [[], [0], [1], [1]]


def before_by_all_pairs(work: Sequence[Instruction]) -> list[list[int]]:
    """Return what comes right before each instruction, by the definition."""
    anyway: list[set[int]] = []
    before = []
    for number, new in enumerate(work):
        right: list[int] = []
        known: set[int] = set()
        for old in reversed(range(number)):
            pairs = [
                *product(mutated(work[old]), (*read(new), *mutated(new))),
                *product(read(work[old]), mutated(new)),
            ]
            if old not in known and any(may_overlap(a, b) for a, b in pairs):
                right.append(old)
                known |= anyway[old] | {old}
        anyway.append(known)
        before.append(right[::-1])
    return before


@given(st.data())
def test_all_pairs_give_the_same(data: st.DataObject) -> None:
    """Copies between windows of few regions, as they may follow each other."""
    kind = ElementKind.FLOAT32
    roots = [Activation(name, TensorType(kind, (6, 8))) for name in "ab"]

    def window() -> Buffer:
        row, column, step = (data.draw(st.integers(0, n)) for n in (4, 6, 1))
        base = data.draw(st.sampled_from(roots))
        steps = (8 if step else -8, 1)
        start = 8 * (row if step else row + 1) + column
        return View("window", TensorType(kind, (2, 2)), base, start, steps)

    count = data.draw(st.integers(0, 12))
    work = [CopyInst(window(), window()) for _ in range(count)]
    assert dependences(work) == before_by_all_pairs(work)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_parts_of_one_tensor_are_not_compared_in_pairs(
    along: str, compared: list[tuple[Buffer, Buffer]]
) -> None:
    """Writes of many parts, a read of each, and one of the whole: as many pairs as depend."""
    count = 500
    shape = (8 * count, 2) if along == "rows" else (2, 8 * count)
    part = (8, 2) if along == "rows" else (2, 8)
    step = 8 * (2 if along == "rows" else 1)
    whole = Activation("whole", TensorType(ElementKind.FLOAT32, shape))
    parts = [
        View("part", TensorType(ElementKind.FLOAT32, part), whole, step * n, (shape[1], 1))
        for n in range(count)
    ]
    made = [Activation("made", TensorType(ElementKind.FLOAT32, part)) for _ in parts]
    work = [
        *(CopyInst(part, BIAS) for part in parts),
        *(CopyInst(value, part) for value, part in zip(made, parts, strict=True)),
        CopyInst(Activation("copy", whole.type), whole),
    ]
    before = dependences(work)
    assert before[count : 2 * count] == [[n] for n in range(count)]
    assert before[-1] == list(range(count))
    assert len(compared) <= 10 * count

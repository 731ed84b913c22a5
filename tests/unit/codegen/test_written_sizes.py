"""Open sizes as plain data: the same come back, and what is damaged is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import CompileError, GlowError
from glow_nb.base.placement_order import PlacementOrder
from glow_nb.base.size import Guard, Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.container import read_container, write_container
from glow_nb.codegen.load_native import load
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.open_sizes import OpenSizes, Window
from glow_nb.codegen.written_sizes import open_from_plain, open_to_plain, written
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from tests.open_programs import compiled

BATCH, LENGTH = Symbol("batch", 4, 0, 8), Symbol("length", 128)
B, N = BATCH.size, LENGTH.size
HALF = (N + 1) // 2

OPENED = OpenSizes(
    symbols=(BATCH, LENGTH),
    guards=(Guard(B * N, "<=", 4096), Guard(N, "!=", 3 * B + 7)),
    words=(LENGTH, BATCH, LENGTH),
    scratch_bytes=(0, 64 * HALF),
    placement=PlacementOrder((4 * B * N, 256, 4 * HALF * B), (2, 0, 1), ((), (2,), (2, 0))),
    windows=(
        Window("activation", 2, 4 * N),
        Window("constants", 0, 64),
        Window("binding", 1, HALF),
    ),
)


def plain() -> Any:
    return json.loads(json.dumps(open_to_plain(OPENED)))


def test_there_and_back_through_json() -> None:
    again, sizes = open_from_plain(plain())
    assert again == OPENED
    assert sizes.read(written(HALF - B)) == HALF - B and sizes.read(7) == 7
    at = {"batch": 3, "length": 33}
    assert again.placement.at(at) == OPENED.placement.at(at)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sizes", "<batch in 9..8>", "9..8"),
        ("sizes", "<batch> more", "unexpected text after the sizes"),
        ("guards", [["batch", "=>", 5]], "no open sizes of a program: '=>'"),
        ("guards", [["batch", "<="]], "no open sizes"),
        ("sizes", 3, "no open sizes"),
        ("words", ["rows"], "no open sizes of a program: 'rows'"),
        ("scratch", ["rows"], "unknown size 'rows'"),
        ("scratch", ["length length"], "unexpected text after the size"),
        ("scratch", [1.5], "1.5 stands where a size should be"),
        ("before", 3, "no open sizes"),
        ("windows", [["heap", 0, 0]], "no open sizes"),
        ("windows", [["binding", 0]], "no open sizes"),
    ],
)
def test_what_is_no_size_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(GlowError, match=message):
        open_from_plain(plain() | {name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("windows", [["binding", 6, 0]], "there is no such memory"),
        ("windows", [["activation", 3, 0]], "there is no such memory"),
        ("order", [2, 0], "an order of 2 activations, of which there are 3"),
        ("order", [2, 0, 2], "an order of 2 activations"),
        ("before", [[], [1], []], "by others that come after it"),
    ],
)
def test_numbers_of_what_is_not_there_are_refused(name: str, value: object, message: str) -> None:
    opened, _ = open_from_plain(plain() | {name: value})
    OPENED.check_numbers(6)
    with pytest.raises(CompileError, match=message):
        opened.check_numbers(6)


def native() -> NativeProgram:
    builder = Builder("sums")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (B + 1, 3)))
    twice = builder.emit(ops.Concat((x, x), axis=0))
    builder.save(builder.emit(ops.Softmax(builder.emit(ops.Transpose(twice, (1, 0))), axis=1)), "y")
    return compiled(builder.function()).native


def test_a_native_program_is_written_with_its_open_sizes() -> None:
    program = native()
    again = NativeProgram.from_bytes(program.to_bytes())
    assert again.open == program.open is not None
    assert again.inputs == program.inputs and again.outputs == program.outputs
    first, second = load(program), load(again)
    for rows in (1, 9):
        x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(second.run([x])[0], first.run([x])[0])
    with pytest.raises(GlowError, match=r"says 9, which is outside its range 0\.\.8"):
        second.run([np.zeros((10, 3), np.float32)])


def test_damage_below_a_right_checksum_is_read_or_refused() -> None:
    texts, pieces = read_container(native().to_bytes())
    rng, refused = random.Random(0), 0
    for name in ("open", "program"):
        for _ in range(150):
            damaged = bytearray(texts[name].encode())
            damaged[rng.randrange(len(damaged))] = rng.randrange(32, 127)
            try:
                NativeProgram.from_bytes(write_container(texts | {name: damaged.decode()}, pieces))
            except CompileError:
                refused += 1
    assert refused > 150

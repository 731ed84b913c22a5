"""Bytes are looked up in tables alone, in loops with others, and in the kernels of products."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Instruction, mutated
from glow_nb.llir.stack import StackInst, tables_in
from tests.in_turn import in_turn
from tests.unit.kernels.cases import check, instruction_of

pytestmark = pytest.mark.jit
INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8
LookUpInst = instruction_for(ops.IntLookupTable)

SHUFFLES = {"+ssse3": 4, "+ssse3,+avx,+avx2": 8, "+ssse3,+avx,+avx2,+avx512f,+avx512bw": 16}
PERMUTES = "+ssse3,+avx,+avx2,+avx512f,+avx512bw,+avx512vbmi"


def looked_up(kind: ElementKind, result: ElementKind, *shape: int) -> Instruction:
    return instruction_of(LookUpInst, [TensorType(kind, shape), TensorType(result, (256,))])


@pytest.mark.parametrize(("lanes", "kind"), in_turn(LANE_COUNTS, [INT8, UINT8]))
def test_every_byte_is_looked_up(kind: ElementKind, lanes: int) -> None:
    low, high = kind.limits
    bytes = np.arange(low, high + 1).astype(kind.dtype).reshape(2, 128)
    table = np.random.default_rng(0).permutation(256).astype(np.uint8)
    check(looked_up(kind, UINT8, 2, 128), Target.host(lanes), operands=[bytes, table])


@settings(max_examples=settings().max_examples // 4)
@given(
    st.sampled_from([INT8, UINT8]),
    st.sampled_from([k for k in ElementKind if not k.is_storage]),
    st.integers(0, 200),
    st.sampled_from(LANE_COUNTS),
)
def test_tables_of_any_kind_and_rows_of_any_length(
    kind: ElementKind, result: ElementKind, length: int, lanes: int
) -> None:
    check(looked_up(kind, result, 3, length), Target.host(lanes))


@pytest.mark.parametrize(("features", "lanes"), [*SHUFFLES.items(), (PERMUTES, 16)])
def test_a_vector_is_looked_up_without_a_load_for_each_byte(features: str, lanes: int) -> None:
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    assembly = compile_assembly(generate_kernel(looked_up(INT8, UINT8, 4096), target), target)
    wanted = "vpermi2b" if "vbmi" in features else "pshufb"
    other = "vpermt2b" if "vbmi" in features else "pshufb"
    assert wanted in assembly or other in assembly
    assert "pinsrb" not in assembly


@pytest.mark.parametrize("name", ["avx", "avx2,+avx512f"])
def test_other_processors_load_single_bytes(name: str) -> None:
    target = replace(Target.host(4), cpu="x86-64", features=f"+{name},-ssse3")
    assembly = compile_assembly(generate_kernel(looked_up(INT8, UINT8, 64), target), target)
    assert "pshufb" not in assembly


def network(channels: int, pixels: int, *, is_table_fed: bool = False) -> Function:
    """Return a product of bytes whose sums are rounded to bytes, looked up, and added to some."""
    b, random = Builder(), np.random.default_rng(channels)

    def fixed(name: str, kind: type, *shape: int) -> glow_nb.hlir.graph.Value:
        low, high = (-99, 99) if kind is np.int32 else (np.iinfo(kind).min, np.iinfo(kind).max)
        return b.constant(name, random.integers(low, high, shape, kind, endpoint=True))

    x = b.input("x", f"uint8<{pixels} x 19>")
    weights, bias = fixed("w", np.int8, 19, channels), fixed("b", np.int32, channels)
    sums = b.emit(ops.FullyConnected(x, weights, bias))
    multiplier = b.constant("m", np.full((1, 1), 2**-8, np.float32))
    offset = b.constant("o", np.full((1, 1), 3, np.int8))
    bytes = b.emit(ops.Requantize(sums, multiplier, offset, kind=INT8))
    table = b.input("t", "int8<256>") if is_table_fed else fixed("t", np.int8, 256)
    found = b.emit(ops.IntLookupTable(bytes, table))
    b.save(b.emit(ops.Add(found, b.input("y", found.type))), "z")
    return b.function()


@settings(max_examples=max(1, settings().max_examples // 20))
@given(st.sampled_from([1, 8, 16, 37, 64, 256]), st.integers(1, 40), st.booleans())
def test_tables_join_the_kernel_of_a_product(channels: int, pixels: int, is_fed: bool) -> None:
    function = network(channels, pixels, is_table_fed=is_fed)
    random = np.random.default_rng(pixels)
    feeds = {
        p.name: random.integers(*p.type.kind.limits, p.type.shape, p.type.kind.dtype, endpoint=True)
        for p in function.inputs
    }
    (wanted,) = evaluate(function, feeds).values()
    net = glow_nb.compile(function, threads=2)
    (stack,) = (i for i in net.program.work if isinstance(i, StackInst) and i.head)
    assert "int_lookup_table" in [member.opcode for member in stack.epilogue]
    (found,) = net.run(feeds).values()
    np.testing.assert_array_equal(found, wanted)


def test_a_table_that_is_computed_is_whole_before_it_is_read() -> None:
    b = Builder()
    x, y = b.input("x", "uint8<256>"), b.input("y", "uint8<256>")
    table = b.emit(ops.Add(x, y))
    b.save(b.emit(ops.IntLookupTable(b.emit(ops.Sub(x, y)), table)), "z")
    function, random = b.function(), np.random.default_rng(0)
    feeds = {name: random.integers(0, 256, 256, np.uint8) for name in "xy"}
    (wanted,) = evaluate(function, feeds).values()
    for backend in ("interpreter", "cpu"):
        net = glow_nb.compile(function, backend=backend, threads=1)
        np.testing.assert_array_equal(net.run(feeds)["z"], wanted)


def test_a_table_is_not_written_over_while_it_is_read() -> None:
    b = Builder()
    bytes, entries = b.input("x", "uint8<256>"), b.input("y", "uint8<256>")
    table = b.emit(ops.Add(entries, entries))
    b.save(b.emit(ops.IntLookupTable(bytes, table)), "z")
    program = glow_nb.compile(b.function(), threads=1).program
    (buffer,) = tables_in(program.work[-1])
    assert buffer.root not in {result.root for result in mutated(program.work[-1])}

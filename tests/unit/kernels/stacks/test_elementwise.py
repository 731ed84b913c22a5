"""Every data-parallel instruction, compiled, against its operator."""

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import operand_specs
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.compile import compile_kernel
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel
from glow_nb.kernels.stacks.elementwise import live_vectors, loop_source
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for, known_instructions
from glow_nb.llir.program import Buffer, Instruction
from tests.in_turn import each_with_one_width, in_turn, left_out, marked, one_in
from tests.unit.kernels.cases import assert_close, check, instruction_of, random_array
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact
from tests.unit.kernels.stacks.buffers import BOOL, FLOAT32, INT64, TARGETS, buffer_of
from tests.unit.storage_numbers import UNFIT

AddInst = instruction_for(ops.Add)
ConvertToInst = instruction_for(ops.ConvertTo)
LessInst = instruction_for(ops.Less)
MulInst = instruction_for(ops.Mul)
ReluInst = instruction_for(ops.Relu)
SelectInst = instruction_for(ops.Select)
SubInst = instruction_for(ops.Sub)
TanhInst = instruction_for(ops.Tanh)

HOST = Target.host()

ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "leaky_relu": [{"alpha": 0.3}],
    "clip": [{"minimum": -1.0, "maximum": 6.0}, {"minimum": 0.0}],
    "gelu": [{"approximate": "none"}, {"approximate": "tanh"}],
    "modulo": [{"fmod": False}, {"fmod": True}],
    "bit_shift": [{"direction": "left"}, {"direction": "right"}],
    "is_inf": [{"positive": True, "negative": False}, {}],
}
OPERAND_KINDS: dict[str, dict[str, ElementKind]] = {
    "quantize_linear": {"input": FLOAT32, "scale": FLOAT32},
    "quantize_by_reciprocal": {"input": FLOAT32, "high": FLOAT32, "low": FLOAT32},
    "requantize": {"input": ElementKind.INT32, "multiplier": FLOAT32},
    "dequantize_linear": {"scale": FLOAT32},
    "select": {"condition": BOOL},
}
"""The kinds of operands that do not have the kind of the others."""

ROUNDING = ("quantize_linear", "quantize_by_reciprocal", "requantize")
"""Instructions whose kind is that of the bytes that they round to."""

LOOSE: dict[str, dict[str, Any]] = {
    "gelu": {"absolute": 1e-3},
    "softplus": {"ulp": 8},
    "erf": {"absolute": 1e-9},
}


def _other_kind_of_the_bits(kind: ElementKind) -> ElementKind:
    return next(k for k in reversed(ElementKind) if k.bits == kind.bits and k is not kind)


def _cases() -> list[tuple[type[Instruction], ElementKind, dict[str, Any]]]:
    """Return each data-parallel instruction with each kind and attributes that it takes."""
    cases = []
    for opcode, instruction_class in known_instructions().items():
        if not instruction_class.scalar or instruction_class.node_class is None:
            continue
        for attributes in ATTRIBUTES.get(opcode, [{}]):
            for kind in ElementKind:
                if opcode == "convert_to":
                    attributes = {"kind": FLOAT32}
                if opcode == "bit_cast":
                    attributes = {"kind": _other_kind_of_the_bits(kind)}
                if opcode in ROUNDING:
                    attributes = {"kind": kind}
                try:
                    _instruction(instruction_class, kind, (2, 3), attributes)
                except VerifyError:
                    continue
                cases.append((instruction_class, kind, attributes))
    return cases


def _instruction(
    instruction_class: type[Instruction],
    kind: ElementKind,
    shape: tuple[int, ...],
    attributes: dict[str, Any],
) -> Instruction:
    """Return an instruction whose last operand is one row, repeated, or a table."""
    assert instruction_class.node_class is not None
    names = [spec.name for spec in operand_specs(instruction_class.node_class)]
    kinds = OPERAND_KINDS.get(instruction_class.opcode, {})
    types = [TensorType(kinds.get(name, kind), shape) for name in names]
    if len(types) > 1:
        types[-1] = types[-1].with_shape((256,) if names[-1] == "table" else (1, *shape[1:]))
    return instruction_of(instruction_class, types, **attributes)


CASES = _cases()
NAMES = [f"{case[0].opcode}-{case[1].value}" for case in CASES]


def test_every_data_parallel_instruction_has_a_kernel() -> None:
    assert all(CPU_KERNELS.maker_of(cls) for cls in known_instructions().values() if cls.scalar)


def _check(case: tuple[type[Instruction], ElementKind, dict[str, Any]], target: Target) -> None:
    instruction_class, kind, attributes = case
    instruction = _instruction(instruction_class, kind, (3, 45), attributes)
    loose = LOOSE.get(instruction_class.opcode, {})
    specials = instruction_class.opcode not in ("pow",)
    check(instruction, target, specials=specials, **loose)


def _is_sample(case: tuple[type[Instruction], ElementKind, dict[str, Any]]) -> bool:
    is_quantization = case[0].opcode in (*ROUNDING, "dequantize_linear")
    return case[1] in (
        (ElementKind.INT8, ElementKind.UINT16) if is_quantization else (FLOAT32, INT64)
    )


SAMPLES = [case for case in CASES if _is_sample(case)]
FLOATS = [case for case in SAMPLES if case[1] is FLOAT32]
"""Every second one is for the slow run; the interpreter's tests have all formulas."""
_WITH_FLOATS = [case[0] for case in FLOATS]
LIKE_FLOATS = [case for case in SAMPLES if case[1] is INT64 and case[0] in _WITH_FLOATS]
"""Integers in instructions that have floats as well: most of them are for the slow run."""
LIKE_BYTES = [case for case in SAMPLES if case[1] is ElementKind.UINT16]
"""Conversions of 16 bits for the slow run; those of 8 bits are in both."""


@pytest.mark.jit
@pytest.mark.parametrize(
    "case",
    marked(SAMPLES, slow=left_out(2, FLOATS) + left_out(12, LIKE_FLOATS) + LIKE_BYTES),
    ids=str,
)
def test_instruction_gives_what_its_operator_gives(case: Any) -> None:
    _check(case, Target.host())


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_instruction_of_every_kind_and_width(case: Any, target: Target) -> None:
    _check(case, target)


SHAPES = [
    ((4, 1, 9), (4, 6, 9)),  # broadcast in the middle
    ((4, 6, 1), (4, 6, 9)),  # broadcast along the rows
    ((4, 6, 1), (1, 1, 9)),  # both
    ((1, 1, 1), (4, 6, 9)),  # one number
    ((7, 1), (1, 131)),  # few long rows
    ((300, 3), (1, 3)),  # many short ones
    ((1, 5, 1, 7, 1), (2, 5, 3, 7, 4)),
    ((), ()),
    ((1,), (1,)),
    ((0, 3), (1, 3)),
    ((1000,), (1000,)),
]


@pytest.mark.jit
@pytest.mark.parametrize(("shapes", "lanes"), each_with_one_width(SHAPES))
def test_operands_broadcast(shapes: tuple[tuple[int, ...], ...], lanes: int) -> None:
    target = Target.host(lanes)
    types = [TensorType(FLOAT32, shape) for shape in shapes]
    check(instruction_of(SubInst, types), target)
    check(instruction_of(SubInst, types[::-1]), target)


@pytest.mark.jit
def test_three_operands_of_two_kinds_broadcast() -> None:
    types = [
        TensorType(BOOL, (4, 1, 20)),
        TensorType(INT64, (4, 5, 1)),
        TensorType(INT64, (1, 5, 20)),
    ]
    check(instruction_of(SelectInst, types), Target.host())


@pytest.mark.jit
@pytest.mark.parametrize(
    ("source", "kind"), in_turn(ElementKind, [*ElementKind][11:] + [*ElementKind][:11])
)
def test_kinds_convert_to_each_other(source: ElementKind, kind: ElementKind) -> None:
    """In the default run, each kind is converted once, and each is once the result."""
    instruction = instruction_of(ConvertToInst, [TensorType(source, (53,))], kind=kind)
    numbers = random_array(np.random.default_rng(3), TensorType(source, (53,)), specials=False)
    if source.is_float and not kind.is_float:
        with np.errstate(over="ignore"):
            numbers[: len(UNFIT)] = np.array(UNFIT).astype(source.dtype)
    check(instruction, Target.host(), operands=[numbers])


@pytest.mark.jit
def test_one_buffer_may_be_both_operands() -> None:
    x = buffer_of(37)
    dest = buffer_of(37)
    kernel = RunningKernel(generate_kernel(MulInst(dest, x, x), TARGETS[1]), TARGETS[1])
    numbers = np.arange(37, dtype=np.float32)
    result, _ = guarded((37,), FLOAT32)
    kernel(result, numbers, numbers)
    np.testing.assert_array_equal(result, numbers * numbers)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(1,), (13,), (64,), (3, 700), (70, 5)])
def test_result_may_take_the_place_of_an_operand(shape: tuple[int, ...]) -> None:
    dest, rhs = buffer_of(*shape), buffer_of(*(1,) * (len(shape) - 1), shape[-1])
    target = Target.host()
    kernel = RunningKernel(generate_kernel(SubInst(dest, dest, rhs), target), target)
    numbers = random_array(np.random.default_rng(0), dest.type, specials=False)
    row = random_array(np.random.default_rng(1), rhs.type)
    for threads in (1, 2, 3):
        place = numbers.copy()
        kernel(place, place, row, threads=threads)
        np.testing.assert_array_equal(place, numbers - row)


def test_equal_work_gives_equal_text() -> None:
    target = Target.host()
    first = generate_kernel(AddInst(buffer_of(5), buffer_of(5), buffer_of(5)), target)
    other = (Buffer("x; import os", TensorType(FLOAT32, (5,))) for _ in range(3))
    assert generate_kernel(AddInst(*other), target) == first
    assert generate_kernel(SubInst(buffer_of(5), buffer_of(5), buffer_of(5)), target) != first


def test_text_reads_like_the_loop_it_is() -> None:
    dest, rows, row = buffer_of(3, 8), buffer_of(3, 8), buffer_of(1, 8)
    text = generate_kernel(AddInst(dest, rows, row), Target.host(4)).text
    assert text == (
        "def kernel(dest, src0, src1, scratch, thread, threads):\n"
        "    for i0 in range(thread * 3 // threads, (thread + 1) * 3 // threads):\n"
        "        row0 = i0 * 8\n"
        "        v0 = load(src0, row0, 8)\n"
        "        v1 = load(src1, 0, 8)\n"
        "        v2 = add(v0, v1)\n"
        "        store(dest, row0, v2)\n"
    )


def test_live_vectors_are_counted() -> None:
    assert live_vectors([]) == 1
    assert live_vectors(["v0 = exp(x0)"]) == 2
    assert live_vectors(["v0 = add(x0, x1)", "v1 = mul(v0, x0)", "v2 = neg(v1)"]) == 3


def test_long_loops_take_narrower_vectors() -> None:
    operands = [buffer_of(640) for _ in range(9)]
    sums = [buffer_of(640) for _ in range(8)]
    body: list[Instruction] = [AddInst(sums[0], operands[0], operands[1])]
    body += [
        MulInst(new, old, x) for old, new, x in zip(sums, sums[1:], operands[2:], strict=False)
    ]
    short = loop_source(LoopBody(tuple(body[:1]), (sums[0],)), Target.host(8)).text
    assert "load(src0, j, 32)" in short
    wide = loop_source(LoopBody(tuple(body), tuple(sums)), Target.host(8)).text
    assert "load(src0, j, 32)" in wide  # each result is stored and forgotten
    last = AddInst(buffer_of(640), sums[0], sums[1])
    for old in (*sums[2:], *operands):
        body.append(last)
        last = AddInst(buffer_of(640), last.dest, old)
    narrow = loop_source(LoopBody((*body, last), (last.dest,)), Target.host(8)).text
    assert "load(src0, j, 8)" in narrow


def test_nothing_to_do_is_nothing() -> None:
    text = generate_kernel(ReluInst(buffer_of(0, 3), buffer_of(0, 3)), Target.host()).text
    assert text.endswith("    return\n")


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
def test_loop_stores_only_what_is_read_later(target: Target) -> None:
    x, row, total, positive = (buffer_of(n, 50) for n in (5, 1, 5, 5))
    flag = buffer_of(5, 50, kind=BOOL)
    body = LoopBody(
        (AddInst(total, x, row), ReluInst(positive, total), LessInst(flag, positive, row)),
        stored=(positive, flag),
    )
    assert body.inputs == (x, row)
    kernel = RunningKernel(loop_source(body, target), target)
    rng = np.random.default_rng(5)
    numbers, bias = random_array(rng, x.type), random_array(rng, row.type)
    for threads in (1, 2, 3):
        first, _ = guarded((5, 50), FLOAT32)
        second, whole = guarded((5, 50), BOOL)
        kernel(first, second, numbers, bias, threads=threads)
        with np.errstate(all="ignore"):
            wanted = np.maximum(numbers + bias, 0)
        assert_close(first, wanted, ulp=0)
        np.testing.assert_array_equal(second, wanted < bias)
        assert guards_are_intact(whole)


NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)
EVERY_SIZE = range(1, 41)
EACH_PIECE = (1, 2, 3, 4, 5, 9, 17, 31, 40)
"""Sizes that end in pieces of every number of lanes, whole and masked."""


def compile_sizes(case: tuple[type[Instruction], ElementKind, dict[str, Any]], sizes: Any) -> None:
    """Compile *case* for vectors of *sizes*; an object that needs what it may not is refused."""
    instruction_class, kind, attributes = case
    for size in sizes:
        instruction = _instruction(instruction_class, kind, (size,), attributes)
        compile_kernel(generate_kernel(instruction, HOST), HOST)


FLOAT16_CASES = [case for case in CASES if case[1] is ElementKind.FLOAT16]


@pytest.mark.jit
@pytest.mark.parametrize(
    "case",
    one_in(3, FLOAT16_CASES),
    ids=[f"{case[0].opcode}-{case[1].value}" for case in FLOAT16_CASES],
)
def test_float16_compiles_for_single_lanes(
    case: tuple[type[Instruction], ElementKind, dict[str, Any]],
) -> None:
    """The default run has every third function; the slow run has all of them, of all sizes."""
    compile_sizes(case, [3])


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_size_compiles(
    case: tuple[type[Instruction], ElementKind, dict[str, Any]],
) -> None:
    compile_sizes(case, EVERY_SIZE if case[1] in NARROW else EACH_PIECE)

"""Instructions over random operands, and what they should give, for the tests of the generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.base.conversion import converted
from glow_nb.base.schema import attribute_specs, operand_specs
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Placeholder
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Buffer, Instruction, mutated, read
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

COMPUTED = [kind for kind in ElementKind if not kind.is_storage]
"""The kinds that are computed with."""

SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)


def instruction_of(
    instruction_class: type[Instruction], types: Sequence[TensorType], **attributes: Any
) -> Instruction:
    """Return an instruction over operands of *types*; attributes not given have defaults."""
    node_class = instruction_class.node_class
    assert node_class is not None
    names = [spec.name for spec in operand_specs(node_class)]
    operands = dict(zip(names, types, strict=False))
    storage = {name: Placeholder(name, type) for name, type in operands.items()}
    absent = dict.fromkeys(names[len(types) :])
    node = node_class(**storage, **absent, **attributes)
    outs = [s.name for s in operand_specs(instruction_class) if s.name not in names]
    fields: dict[str, Any] = dict(absent)
    for name, type in zip([*outs, *operands], [*node.result_types, *types], strict=True):
        fields[name] = Buffer(name, type)
    for spec in attribute_specs(instruction_class):
        fields[spec.name] = getattr(node, spec.name)
    return instruction_class(**fields, plan=node.plan)


def random_array(rng: np.random.Generator, type: TensorType, *, specials: bool = True) -> Array:
    """Return random elements; floats of several magnitudes, with NaN, infinities and zeros."""
    kind, shape = type.kind, type.shape
    if kind is ElementKind.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if kind.is_storage:
        codes = rng.integers(0, 1 << kind.bits, shape, np.uint8).view(kind.dtype)
        return codes if specials else converted(rng.integers(0, 10, shape), kind)
    if not kind.is_float:
        limits: Any = np.iinfo(kind.dtype)
        small = rng.integers(max(limits.min, -9), 10, shape)
        wild = rng.integers(limits.min, limits.max, shape, kind.dtype, endpoint=True)
        is_small = (rng.random(shape) < 0.8) | (not specials)
        return np.where(is_small, small, wild).astype(kind.dtype)
    numbers = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 2, shape)
    if specials:
        chosen = rng.choice(SPECIALS, shape)
        numbers = np.where(rng.random(shape) < 0.1, chosen, numbers)
    return np.asarray(numbers).astype(kind.dtype)


def random_indices(rng: np.random.Generator, shape: tuple[int, ...], type: TensorType) -> Array:
    """Return indices into axes of *shape*, from the end as well, and some that lie outside."""
    reach = max([*shape, 1]) + 1
    places = rng.integers(-reach, reach, type.shape)
    wild = rng.choice(np.array([-(2**31), 2**31 - 1]), type.shape)
    return np.where(rng.random(type.shape) < 0.05, wild, places).astype(type.kind.dtype)


def expected_of(instruction: Instruction, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Return what the operator of *instruction* gives for *operands*."""
    node = instruction.as_node()  # type: ignore[attr-defined]
    arguments: list[Any] = list(operands)
    for place, spec in enumerate(operand_specs(type(node))):
        if getattr(node, spec.name) is None:
            arguments.insert(place, None)
    result = node.evaluate(*arguments)
    return result if isinstance(result, tuple) else (result,)


def run(
    instruction: Instruction,
    operands: Sequence[Array],
    target: Target,
    threads: Sequence[int] = (1, 2, 3),
) -> tuple[Array, ...]:
    """Return what the kernel of *instruction* writes, the same for every number of threads."""
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    outcomes = [_run_once(kernel, instruction, operands, count) for count in threads]
    for other in outcomes[1:]:
        for first, second in zip(outcomes[0], other, strict=True):
            assert first.tobytes() == second.tobytes()
    return outcomes[0]


def _run_once(
    kernel: RunningKernel, instruction: Instruction, operands: Sequence[Array], threads: int
) -> tuple[Array, ...]:
    results = [guarded(b.type.shape, b.type.kind) for b in mutated(instruction)]
    kernel(*(inner for inner, _ in results), *operands, threads=threads)
    for _, whole in results:
        assert guards_are_intact(whole), "wrote outside of the result"
    return tuple(inner.copy() for inner, _ in results)


def check(
    instruction: Instruction,
    target: Target,
    *,
    operands: Sequence[Array] | None = None,
    seed: int = 0,
    specials: bool = True,
    **tolerance: Any,
) -> None:
    """Compare the kernel of *instruction* with its operator on random operands."""
    rng = np.random.default_rng(seed)
    if operands is None:
        types = [buffer.type for buffer in read(instruction)]
        operands = [random_array(rng, type, specials=specials) for type in types]
    found = run(instruction, operands, target)
    for got, wanted in zip(found, expected_of(instruction, operands), strict=True):
        assert_close(got, wanted, **tolerance)


_PRECISION = {
    ElementKind.FLOAT16: 2.0**-10,
    ElementKind.BFLOAT16: 2.0**-7,
    ElementKind.FLOAT32: 2.0**-23,
    ElementKind.FLOAT64: 2.0**-52,
}


def assert_close(got: Array, wanted: Array, ulp: float = 4, absolute: float = 0) -> None:
    """Compare within *ulp* units of the last place and *absolute*; other kinds exactly."""
    kind = ElementKind.of(wanted.dtype)
    assert got.dtype == wanted.dtype
    if kind.is_storage:
        np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
        return
    if not kind.is_float:
        np.testing.assert_array_equal(got, wanted)
        return
    relative = ulp * _PRECISION[kind]
    least = 2.0**-24 if kind is ElementKind.FLOAT16 else 0.0
    np.testing.assert_allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol=relative, atol=absolute + least
    )
